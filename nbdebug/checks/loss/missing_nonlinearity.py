"""Consecutive linear layers have no activation between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from nbdebug.core.finding import Finding, Patch, Remedy, Severity, in_code
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.activations import unit_dim
from nbdebug.experiments.autograd_graph import builds_on
from nbdebug.experiments.capture import tapped
from nbdebug.experiments.trace import Call, Trace, owned_matrices, traced, weighted_calls
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.loss import main_output
from nbdebug.setup.user_code import user_code

__all__ = ["LinearPair", "Linearity", "linearity", "missing_nonlinearity"]


@dataclass(frozen=True)
class LinearPair:
    """Two layers with nothing between them that bends the values: the second works on what the first gives."""

    first: str
    second: str
    width: int  # what passes between them
    into: int  # what goes into the first
    out: int  # what comes out of the second

    @property
    def is_wasted(self) -> bool:
        """Whether one layer could do the same; a narrow middle makes a low rank, which is often meant."""
        return self.width >= min(self.into, self.out)


@dataclass(frozen=True)
class Linearity:
    """How far the network is from affine: the deviation of f(ax + (1−a)z) from af(x) + (1−a)f(z), in spreads of f.

    `chain` holds pairs of layers of which the second depends on the first, `touching` pairs that follow each other
    directly. `limit` is what rounding alone may give.
    """

    deviation: float
    limit: float
    chain: tuple[LinearPair, ...]
    touching: tuple[LinearPair, ...]

    @property
    def is_affine(self) -> bool:
        """Whether the whole network is affine to within rounding."""
        return self.deviation < self.limit


MIXES = (0.5, -1.0, 2.0)
FAR_MIXES = (-100.0, 1e4)  # far outside of the data no rectifier stays open by chance
SAMPLES = 16


@probe(quick=False)
def linearity(sandbox: Sandbox, trial: TrialRun) -> Linearity:
    """Test whether the model is linear by mixing pairs of samples, in eval mode and float64."""
    require_run(trial)
    sandbox.model.eval()
    batch = sandbox.batch().head(SAMPLES)
    if batch.size < 3:
        raise NotApplicable(f"the batch has {batch.size} samples; at least 3 are required")
    trace = traced(sandbox, batch)
    chain, touching = _pairs(trace)
    _shake(sandbox.model)
    deviation, limit = _measured(sandbox, batch)
    return Linearity(deviation, limit, chain, touching)


def _shake(model: nn.Module) -> None:
    """Disturb all parameters a little: what starts at zero, as gates and branches do, must not hide what it bends."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point():
                scale = float(parameter.abs().mean()) or 0.3 / max(1, parameter[0].numel() if parameter.dim() else 1)
                parameter.add_(torch.randn_like(parameter), alpha=0.3 * scale)


def _measured(sandbox: Sandbox, batch: Batch) -> tuple[float, float]:
    """Return the deviation and what rounding may give: in double precision where the model can, else as it is."""
    narrow = [(tensor, tensor.data) for tensor in (*sandbox.model.parameters(), *sandbox.model.buffers())]
    wide = batch.map_inputs(lambda _, t: t.double() if t.is_floating_point() else t)
    for given, limit in ((wide, 1e-8), (batch, 1e-4)):
        with user_code(passing=(NotApplicable,)):  # a forward makes float32 tensors itself, or does not take a mixture
            if given is wide:
                sandbox.model.double()
            return _deviation(sandbox, given), limit
        for tensor, data in narrow:
            tensor.data = data
    raise NotApplicable("the model fails on mixed inputs")


def _answer(sandbox: Sandbox, batch: Batch) -> torch.Tensor:
    output = main_output(sandbox.forward(batch)) if sandbox.compute_loss is None else sandbox.run(batch).predicted
    if output is None or output.dim() == 0 or output.shape[0] != batch.size or output.is_complex():
        raise NotApplicable("the model returns no tensor with one row per sample")
    return output.detach().double()


def _deviation(sandbox: Sandbox, batch: Batch) -> float:
    """Return the smallest deviation from affine over the scales on which the answer may be read."""
    other = batch.select(torch.arange(batch.size).roll(1))
    looked_up, plain = _lookups(sandbox, batch)
    _, turned = _lookups(sandbox, other)[0], _answer(sandbox, other)
    if float((plain - plain[:1]).abs().max()) <= 1e-9 * float(plain.abs().max()):
        raise NotApplicable("the output is identical for all samples")
    if float((plain - turned).abs().max()) <= 1e-9 * float(plain.abs().max()):
        raise NotApplicable("the outputs do not change when the inputs are permuted")
    worst: dict[str, float] = {}
    for share in (*MIXES, *FAR_MIXES):
        mixed = _mixed_answer(sandbox, batch, other, looked_up, share).detach()
        for name, read in _scales(plain).items():
            if share in FAR_MIXES and name in ("softmax", "sigmoid"):
                continue  # nothing is left of the digits at the ends of their scale
            wanted = share * read(plain) + (1 - share) * read(turned)
            spread = float(read(plain).std().clamp_min(1e-300)) * max(1.0, abs(share))
            off = float((read(mixed) - wanted).abs().nan_to_num(torch.inf).max()) / spread
            worst[name] = max(worst.get(name, 0.0), off)
    return min(worst.values())


def _scales(plain: torch.Tensor) -> dict[str, Any]:
    """Return the ways to read an answer: as it is, and before a last softmax or sigmoid where it looks like one's."""
    readings: dict[str, Any] = {"plain": lambda t: t}
    inside = bool(((plain > 0) & (plain < 1)).all())
    for dim in range(1, plain.dim()):
        if plain.shape[dim] > 1 and inside and float((plain.sum(dim) - 1).abs().max()) < 1e-4:
            readings["softmax"] = lambda t, d=dim: t.log() - t.log().mean(d, keepdim=True)
        if plain.shape[dim] > 1 and bool((plain <= 0).all()) and float(plain.logsumexp(dim).abs().max()) < 1e-4:
            readings["log-softmax"] = lambda t, d=dim: t - t.mean(d, keepdim=True)
    if inside:
        readings["sigmoid"] = lambda t: t.log() - (1 - t).log()
    return readings


def _lookups(sandbox: Sandbox, batch: Batch) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Run a batch and keep what its embeddings gave, because integers cannot be mixed and vectors can."""
    kept: list[torch.Tensor] = []

    def keep(path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        if _is_lookup(inputs, output, module):
            kept.append(output.detach().clone())

    with tapped(sandbox.model, after=keep):
        answer = _answer(sandbox, batch)
    return kept, answer


def _is_lookup(inputs: Any, output: Any, module: nn.Module) -> bool:
    call = Call("", module, [t for t in inputs if isinstance(t, torch.Tensor)], None, None, 0)
    return call.is_leaf and call.is_lookup and isinstance(output, torch.Tensor) and output.is_floating_point()


def _mixed_answer(
    sandbox: Sandbox, batch: Batch, other: Batch, looked_up: list[torch.Tensor], share: float
) -> torch.Tensor:
    """Run on mixed inputs; what embeddings give is mixed in the same way."""
    theirs = other.inputs
    mixed = batch.map_inputs(lambda n, t: share * t + (1 - share) * theirs[n] if t.is_floating_point() else t)
    queue = iter(looked_up)
    turn = torch.arange(batch.size).roll(1)

    def exchange(path: str, module: nn.Module, inputs: Any, output: Any) -> Any:
        if not _is_lookup(inputs, output, module):
            return None
        own = next(queue)
        return share * own + (1 - share) * own[turn] if own.shape[0] == batch.size else own

    with tapped(sandbox.model, after=exchange):
        return _answer(sandbox, mixed)


def _pairs(trace: Trace) -> tuple[tuple[LinearPair, ...], tuple[LinearPair, ...]]:
    """Return the pairs of layers that build on each other, and those with nothing at all between them."""
    layers = [
        c for c in weighted_calls(trace) if c.is_leaf and c.inputs and c.output is not None and c.output.dim() > 1
    ]
    calls = sorted(layers, key=lambda call: call.began)  # a module that returns a loss has no units
    chain, touching = [], []
    for first, second in pairwise(calls):
        direct = second.inputs[0] is first.passed
        if not direct and not _builds_on(second, first):
            continue
        pair = LinearPair(first.path, second.path, _width(first), _into(first), _width(second))
        chain.append(pair)
        grouped = getattr(first.module, "groups", 1) > 1  # a depthwise layer before a pointwise one is meant
        if direct and type(first.module) is type(second.module) and not grouped:
            touching.append(pair)
    return tuple(chain), tuple(touching)


def _builds_on(second: Call, first: Call) -> bool:
    return first.output is not None and builds_on(second.inputs[0], first.output)


def _width(call: Call) -> int:
    assert call.output is not None
    return int(call.output.shape[unit_dim(call)])


def _into(call: Call) -> int:
    kernels = any(weight.dim() >= 3 for _, weight in owned_matrices(call.module))
    given = call.inputs[0]
    return int(given.shape[1] if kernels and given.dim() >= 3 else given.shape[-1])


@check(basis="statistic", explains=("cannot-overfit-batch", "worse-than-baseline"))
def missing_nonlinearity(linearity: Linearity) -> Iterator[Finding]:
    """The whole network is one affine map, regardless of its depth.

    nbdebug interpolates between pairs of samples and compares the output of the interpolation with the interpolation of
    the outputs, in eval mode and before a final softmax or sigmoid. In an affine network they agree up to rounding.

    Why it matters: linear layers without a nonlinearity between them collapse into a single one. The network is no more
    expressive than linear or logistic regression, whatever its depth.

    What to try: put an activation (ReLU, GELU, tanh) between the layers named. Two linear layers with a narrow
    bottleneck, as in a low-rank factorization or a linear autoencoder, may be intended.
    """
    if linearity.is_affine and linearity.chain:
        wasted = [pair for pair in linearity.chain if pair.is_wasted]
        pair = (wasted or linearity.chain)[0]
        says = (
            f"The network is affine (deviation {linearity.deviation:.0e}): its {len(linearity.chain) + 1} consecutive "
            f"linear layers collapse into one. There is no activation between `{pair.first}` and `{pair.second}`."
        )
        yield _finding(says, pair, linearity, "bug" if wasted else "note")
        return
    for pair in linearity.touching:
        if pair.is_wasted:
            says = f"There is no activation between `{pair.first}` and `{pair.second}`: they are equal to one layer."
            yield _finding(says, pair, linearity, "note")
            return


def _finding(says: str, pair: LinearPair, linearity: Linearity, severity: Severity) -> Finding:
    return Finding(
        says,
        where=pair.first,
        severity=severity,
        evidence={
            "deviation from affine": linearity.deviation,
            "threshold": linearity.limit,
            "width between the layers": pair.width,
            "into the first": pair.into,
            "out of the second": pair.out,
            "source": "37 reasons, 24; a composition of affine maps is affine",
        },
        remedies=(
            Remedy(
                "Add an activation between the two layers.",
                f"x = {in_code(pair.second, 'self')}(torch.relu({in_code(pair.first, 'self')}(x)))",
                Patch(
                    "activation-between", {"layers": list(dict.fromkeys(p.first for p in linearity.chain or (pair,)))}
                ),
            ),
        ),
    )
