"""Terms of a loss of which some are summed over the batch and others averaged."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from nbdebug.charts import Table
from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.tape import Taint, Tape, record
from nbdebug.sandbox import Sandbox
from nbdebug.setup.user_code import required_user_code

__all__ = ["TermScaling", "TermScalings", "loss_terms_reduced_differently", "term_scalings"]


@dataclass(frozen=True)
class TermScaling:
    """One term of the loss: its value, the factor it is multiplied with, and its growth when the batch is doubled."""

    name: str
    value: float
    factor: float
    growth: float


@dataclass(frozen=True)
class TermScalings:
    """The terms that depend on the batch."""

    terms: tuple[TermScaling, ...]
    batch_size: int


@probe
def term_scalings(sandbox: Sandbox, trial: TrialRun | None) -> TermScalings:
    """Record the loss of one batch and of the same batch twice over, in eval mode, and compare its terms."""
    if trial is not None:
        require_run(trial)
    batch = sandbox.batch()
    if batch.whole or batch.size < 2:
        raise NotApplicable("the model takes the batch in one piece only")
    order = torch.arange(batch.size)
    with required_user_code("the loss of a batch twice over fails ({kind})", passing=()), sandbox.mode(training=False):
        once = record(sandbox, batch, hold_modes=True)
        if len([term for term in once.terms if _of_batch(once, term.number)]) < 2:
            raise NotApplicable("the loss has a single term that depends on the batch")
        again = record(sandbox, batch, hold_modes=True, seed=once.seed + 1)
        twice = record(sandbox, batch.select(torch.cat([order, order])), hold_modes=True)
    names = [_name(once, t.number) for t in once.terms]
    if any(names != [_name(other, t.number) for t in other.terms] for other in (again, twice)):
        raise NotApplicable("a batch of another size, or another random draw, takes other operations")
    growths = [
        two.value / one.value if one.value else math.nan for one, two in zip(once.terms, twice.terms, strict=True)
    ]
    is_random = [abs(a.value - b.value) > 1e-3 * abs(a.value) for a, b in zip(once.terms, again.terms, strict=True)]
    known = [
        index
        for index, term in enumerate(once.terms)
        if _of_batch(once, term.number) and math.isfinite(growths[index]) and not is_random[index]
    ]
    return TermScalings(tuple(_joined(once, growths, known)), batch.size)


def _joined(tape: Tape, growths: list[float], known: list[int]) -> Iterator[TermScaling]:
    """Join the terms of the same outputs with the same growth: parts of one sum, as of a divergence."""
    groups: dict[tuple[tuple[int, ...], float], list[int]] = {}
    for index in known:
        groups.setdefault((tape.terms[index].heads, round(growths[index], 2)), []).append(index)
    for (_, growth), members in groups.items():
        terms = [tape.terms[index] for index in members]
        yield TermScaling(
            _label(tape, members[0]), sum(term.value for term in terms), max(abs(term.factor) for term in terms), growth
        )


def _of_batch(tape: Tape, number: int) -> bool:
    return bool(tape.recording.values[number].taint & Taint.BATCH)


def _name(tape: Tape, number: int) -> str:
    op = tape.recording.producer(number)
    return op.name if op is not None else ""


def _label(tape: Tape, index: int) -> str:
    term = tape.terms[index]
    return f"{term.comparison.name if term.comparison else _name(tape, term.number)} ({index + 1})"


@check
def loss_terms_reduced_differently(
    scalings: TermScalings,
    *,
    tolerance: float = 0.05,  # of the growth: 1 for a mean and 2 for a sum, exactly; our choice
    weight: float = 0.1,  # a term with a smaller factor was scaled on purpose; our choice
    share: float = 0.05,  # of the loss, below which a sum hardly matters; our choice
) -> Iterator[Finding]:
    """One term of the loss is summed over the batch and another averaged.

    nbdebug computes the loss of one batch and of the same batch repeated twice, in eval mode, and compares each term: a
    mean stays the same, a sum doubles. Penalties on parameters, which do not depend on the batch, are left out.

    Why it matters: the balance of the terms depends on the batch size. At 256 samples, a summed term weighs 256 times
    as much against an averaged one, and dominates what the model learns.

    What to try: reduce all terms in the same way, e.g. sum over features and average over the batch.
    """
    total = sum(abs(term.value) for term in scalings.terms)
    terms = [term for term in scalings.terms if math.isfinite(term.growth) and term.value]
    if len(terms) < 2:
        raise NotApplicable("the loss has no two terms that can be compared")
    means = [term for term in terms if abs(term.growth - 1) < tolerance]
    sums = [term for term in terms if abs(term.growth - 2) < tolerance and abs(term.value) >= share * total]
    for term in sums if means else []:
        yield Finding(
            f"The loss adds `{term.name}`, summed over the batch, to `{means[0].name}`, averaged: twice the batch "
            f"makes them {term.growth:.2f} and {means[0].growth:.2f} times as large.",
            where="loss_fn",
            severity="suspect" if term.factor >= weight else "note",
            evidence={
                "growth of the sum": term.growth,
                "growth of the mean": means[0].growth,
                "factor of the sum": term.factor,
                "batch size": scalings.batch_size,
                "threshold": weight,
                "source": "Kingma and Welling, 2014: both terms of the bound are per sample",
            },
            remedies=(Remedy("Reduce all terms in the same way.", "loss = reconstruction + divergence.sum(1).mean()"),),
            exhibit=Table(
                ("term", "value", "growth"), tuple((t.name, f"{t.value:.4g}", f"{t.growth:.2f}") for t in terms)
            ),
        )
