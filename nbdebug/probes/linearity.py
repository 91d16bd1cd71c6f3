"""Is the network more than one affine map?"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import nn

from nbdebug.errors import Cancelled, NotApplicable, OutOfTime
from nbdebug.evidence import Linearity, LinearPair, TrialRun
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.subject.loss import main_output
from nbdebug.twin import Twin
from nbdebug.twin.activations import unit_dim
from nbdebug.twin.graph import builds_on
from nbdebug.twin.taps import tapped
from nbdebug.twin.trace import Call, Trace, owned_matrices, traced, weighted_calls

__all__ = ["linearity"]

MIXES = (0.5, -1.0, 2.0)
FAR_MIXES = (-100.0, 1e4)  # far outside of the data no rectifier stays open by chance
SAMPLES = 16


@probe(quick=False)
def linearity(twin: Twin, trial: TrialRun) -> Linearity:
    """Test whether the model is linear by mixing pairs of samples, in eval mode and float64."""
    require_run(trial)
    twin.model.eval()
    batch = twin.batch().head(SAMPLES)
    if batch.size < 3:
        raise NotApplicable(f"the batch has {batch.size} samples; at least 3 are required")
    trace = traced(twin, batch)
    chain, touching = _pairs(trace)
    _shake(twin.model)
    deviation, limit = _measured(twin, batch)
    return Linearity(deviation, limit, chain, touching)


def _shake(model: nn.Module) -> None:
    """Disturb all parameters a little: what starts at zero, as gates and branches do, must not hide what it bends."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point():
                scale = float(parameter.abs().mean()) or 0.3 / max(1, parameter[0].numel() if parameter.dim() else 1)
                parameter.add_(torch.randn_like(parameter), alpha=0.3 * scale)


def _measured(twin: Twin, batch: Batch) -> tuple[float, float]:
    """Give the deviation and what rounding may give: in double precision where the model can, else as it is."""
    narrow = [(tensor, tensor.data) for tensor in (*twin.model.parameters(), *twin.model.buffers())]
    wide = batch.map_inputs(lambda _, t: t.double() if t.is_floating_point() else t)
    for given, limit in ((wide, 1e-8), (batch, 1e-4)):
        try:
            if given is wide:
                twin.model.double()
            return _deviation(twin, given), limit
        except (Cancelled, OutOfTime, NotApplicable):
            raise
        except Exception:  # a forward that makes float32 tensors itself, or does not take a mixture
            for tensor, data in narrow:
                tensor.data = data
    raise NotApplicable("the model fails on mixed inputs")


def _answer(twin: Twin, batch: Batch) -> torch.Tensor:
    output = main_output(twin.forward(batch)) if twin.compute_loss is None else twin.run(batch).predicted
    if output is None or output.dim() == 0 or output.shape[0] != batch.size or output.is_complex():
        raise NotApplicable("the model returns no tensor with one row per sample")
    return output.detach().double()


def _deviation(twin: Twin, batch: Batch) -> float:
    """Give the smallest deviation from affine over the scales on which the answer may be read."""
    other = batch.select(torch.arange(batch.size).roll(1))
    looked_up, plain = _lookups(twin, batch)
    _, turned = _lookups(twin, other)[0], _answer(twin, other)
    if float((plain - plain[:1]).abs().max()) <= 1e-9 * float(plain.abs().max()):
        raise NotApplicable("the output is identical for all samples")
    if float((plain - turned).abs().max()) <= 1e-9 * float(plain.abs().max()):
        raise NotApplicable("the outputs do not change when the inputs are permuted")
    worst: dict[str, float] = {}
    for share in (*MIXES, *FAR_MIXES):
        mixed = _mixed_answer(twin, batch, other, looked_up, share).detach()
        for name, read in _scales(plain).items():
            if share in FAR_MIXES and name in ("softmax", "sigmoid"):
                continue  # nothing is left of the digits at the ends of their scale
            wanted = share * read(plain) + (1 - share) * read(turned)
            spread = float(read(plain).std().clamp_min(1e-300)) * max(1.0, abs(share))
            off = float((read(mixed) - wanted).abs().nan_to_num(torch.inf).max()) / spread
            worst[name] = max(worst.get(name, 0.0), off)
    return min(worst.values())


def _scales(plain: torch.Tensor) -> dict[str, Any]:
    """Give the ways to read an answer: as it is, and before a last softmax or sigmoid where it looks like one's."""
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


def _lookups(twin: Twin, batch: Batch) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Run a batch and keep what its embeddings gave, because integers cannot be mixed and vectors can."""
    kept: list[torch.Tensor] = []

    def keep(path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        if _is_lookup(inputs, output, module):
            kept.append(output.detach().clone())

    with tapped(twin.model, after=keep):
        answer = _answer(twin, batch)
    return kept, answer


def _is_lookup(inputs: Any, output: Any, module: nn.Module) -> bool:
    call = Call("", module, [t for t in inputs if isinstance(t, torch.Tensor)], None, None, 0)
    return call.is_leaf and call.is_lookup and isinstance(output, torch.Tensor) and output.is_floating_point()


def _mixed_answer(twin: Twin, batch: Batch, other: Batch, looked_up: list[torch.Tensor], share: float) -> torch.Tensor:
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

    with tapped(twin.model, after=exchange):
        return _answer(twin, mixed)


def _pairs(trace: Trace) -> tuple[tuple[LinearPair, ...], tuple[LinearPair, ...]]:
    """Give the pairs of layers that build on each other, and those with nothing at all between them."""
    calls = sorted((c for c in weighted_calls(trace) if c.is_leaf and c.inputs), key=lambda call: call.began)
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
