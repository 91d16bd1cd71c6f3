"""A loss that is lowest where all samples have one and the same representation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.experiments.tape import Taint, Tape, record
from nbdebug.experiments.tape.ops import Op
from nbdebug.sandbox import Sandbox
from nbdebug.setup.user_code import required_run

__all__ = ["CollapseFacts", "collapse_facts", "representation_collapse"]

DRAWS, ROWS, STEPS, RATE = 6, 3, 60, 0.1
NEARLY = 0.05  # standard deviations between the rows that are almost one: whitening and norms tell them apart
SCALE = 30.0  # of outputs so large that an eps in a normalization does not matter
DETACH = """with torch.no_grad():
    target = model(other_view)
loss = -F.cosine_similarity(predictor(z), target).mean()"""


@dataclass(frozen=True)
class CollapseFacts:
    """The loss where the outputs are exchanged: random rows, almost one row for all, and the lowest that is found.

    `noise` is the standard deviation of the loss over random rows, `collapsed` the highest of several single rows, and
    `scaled` how many standard deviations these are lower where all outputs are large.
    """

    random: float
    noise: float
    collapsed: float
    lowest: float
    heads: tuple[str, ...]
    samples: int
    scaled: float = 0.0


@probe
def collapse_facts(sandbox: Sandbox) -> CollapseFacts:
    """Exchange the outputs that the loss compares: random rows, one row for all, the best rows found."""
    sandbox.ready_to_train()
    with required_run():
        tape = record(sandbox, sandbox.batch())
    heads = _heads(tape)
    _refuse_intended(tape, heads)
    torch.manual_seed(0)
    random, noise, collapsed = _compared(tape, heads, 1.0)
    is_lower = collapsed < random - noise
    lowest = _descended(tape, _drawn(tape, heads)) if is_lower else collapsed
    large = _compared(tape, heads, SCALE) if is_lower else (0.0, 1.0, 0.0)
    named = tuple(dict.fromkeys(tape.tensor(n).module or tape.tensor(n).made_by for n in heads))
    samples = tape.recording.values[heads[0]].shape[0]
    scaled = (large[0] - large[2]) / max(large[1], 1e-12)
    return CollapseFacts(random, noise, collapsed, lowest, named, samples, scaled)


def _compared(tape: Tape, heads: list[int], scale: float) -> tuple[float, float, float]:
    """Return the mean loss of random rows and its standard deviation, and the highest loss of almost one row."""
    random = [_loss(tape, _drawn(tape, heads, scale)) for _ in range(DRAWS)]
    alike = [_loss(tape, _one_row(tape, heads, scale)) for _ in range(ROWS)]
    values = torch.stack([*random, *alike]).double()
    if not bool(torch.isfinite(values).all()):
        raise NotApplicable("the loss of other outputs is not finite")
    return float(values[:DRAWS].mean()), float(values[:DRAWS].std()), float(values[DRAWS:].max())


def _heads(tape: Tape) -> list[int]:
    """Return the rows of numbers, one for each sample, that all terms of the loss are computed from."""
    terms = [term for term in tape.terms if term.root == tape.main.root]
    heads = sorted({number for term in terms for number in term.heads})
    shapes = [tape.recording.values[number].shape for number in heads]
    if not heads or any(len(shape) != 2 or min(shape) < 2 for shape in shapes) or len({s[1] for s in shapes}) > 1:
        raise NotApplicable("the loss is not computed from one row of numbers for each sample")
    return heads


def _refuse_intended(tape: Tape, heads: list[int]) -> None:
    """Refuse losses with a target, and those in which a gradient is stopped on purpose."""
    values = tape.recording.values
    for term in tape.terms:
        target = values[term.comparison.target] if term.root == tape.main.root and term.comparison is not None else None
        if target is not None and target.taint & Taint.BATCH and not target.taint & (Taint.PARAMETER | Taint.FROZEN):
            raise NotApplicable("the outputs are compared with targets")
    if not values[tape.main.root].sources <= frozenset().union(*(values[n].sources for n in heads)):
        raise NotApplicable("the loss reads more of the batch than the model does")
    for op in _ancestors(tape):
        is_computed = any(values[n].taint & (Taint.PARAMETER | Taint.FROZEN) for n in op.made)
        fed = any(values[n].taint & Taint.BATCH for n in op.made)
        frozen = any(values[n].taint & Taint.FROZEN for n in op.made)
        if fed and is_computed and (op.name in ("detach", "detach_", "data") or not op.has_grad or frozen):
            raise NotApplicable("a gradient is stopped on purpose, or a frozen network takes part")


def _ancestors(tape: Tape) -> Iterator[Op]:
    stack, seen = [tape.main.root], {tape.main.root}
    while stack:
        op = tape.recording.producer(stack.pop())
        if op is not None:
            yield op
            stack += [n for n in op.inputs if n not in seen]
            seen.update(op.inputs)


def _drawn(tape: Tape, heads: list[int], scale: float = 1.0) -> dict[int, torch.Tensor]:
    """Return random rows with the mean and the standard deviation of the outputs, or so many times as large."""
    values = {n: tape.tensor(n).value for n in heads}
    return {n: (torch.randn_like(v) * v.std().clamp(min=1e-3) + v.mean()) * scale for n, v in values.items()}


def _one_row(tape: Tape, heads: list[int], scale: float = 1.0) -> dict[int, torch.Tensor]:
    drawn = _drawn(tape, heads, scale)
    row = drawn[heads[0]][:1]
    return {n: row + NEARLY * (value - value.mean(0)) for n, value in drawn.items()}


def _loss(tape: Tape, rows: dict[int, torch.Tensor]) -> torch.Tensor:
    with torch.no_grad():
        return tape.replay(exchange=rows).detach().reshape(())


def _descended(tape: Tape, rows: dict[int, torch.Tensor]) -> float:
    """Return the lowest loss that a descent over the rows themselves finds."""
    free = {n: value.clone().requires_grad_() for n, value in rows.items()}
    rate = RATE * float(next(iter(rows.values())).std())
    optimizer, lowest = torch.optim.Adam(list(free.values()), rate), float("inf")
    with torch.enable_grad():
        for _ in range(STEPS):
            loss = tape.replay(exchange=dict(free))
            lowest = min(lowest, float(loss.detach()))
            gradients = torch.autograd.grad(loss, list(free.values()), allow_unused=True)
            for value, gradient in zip(free.values(), gradients, strict=True):
                value.grad = gradient
            optimizer.step()
    return lowest


@check(explains=("outputs-identical", "loss-metric-disagree"))
def representation_collapse(
    facts: CollapseFacts,
    *,
    noises: float = 4.0,  # standard deviations of the loss over random rows; our choice
    gained: float = 0.01,  # of the way from random to collapsed that different rows may be better; our choice
) -> Iterator[Finding]:
    """The loss is lowest where every sample has the same representation.

    Where a loss without targets compares outputs with each other, as self-supervised learning does, nbdebug exchanges
    these outputs: random rows, almost one row for all samples, and rows that minimize the loss. It reports losses that
    no outputs make lower than one row for all does, unless a gradient is stopped by `detach` or `no_grad`.

    Why it matters: the model learns to ignore its input. The loss falls to its minimum, and the representation is
    worthless.

    What to try: stop the gradient on one side (SimSiam, BYOL), compare with other samples as well (InfoNCE), or require
    variance over the batch (VICReg, Barlow Twins).
    """
    way = facts.random - facts.collapsed
    if way <= noises * facts.noise or facts.scaled <= noises or facts.lowest < facts.collapsed - gained * way:
        return
    yield Finding(
        f"Almost one row for all {facts.samples} samples has a loss of {facts.collapsed:.3g}; random rows have "
        f"{facts.random:.3g}, and no rows found are better ({facts.lowest:.3g}). No gradient is stopped on the way.",
        where=facts.heads[0],
        severity="suspect",
        evidence={
            "loss of random rows": facts.random,
            "standard deviation": facts.noise,
            "loss of almost one row for all": facts.collapsed,
            "standard deviations lower with large outputs": facts.scaled,
            "lowest loss found": facts.lowest,
            "outputs": list(facts.heads),
            "threshold": noises,
            "source": "Chen and He 2021, SimSiam, figure 2: without the stop-gradient it collapses",
        },
        remedies=(Remedy("Stop the gradient on one side.", DETACH),),
    )
