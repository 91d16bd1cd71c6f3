"""A sequence model that sees the future."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.batch_dim import spill
from nbdebug.experiments.locate_module import Place, Recording, first_place, jittered, record
from nbdebug.experiments.sample_exchange import Samples, runnable
from nbdebug.sandbox import Outcome, Sandbox
from nbdebug.setup import Batch

__all__ = ["FutureInfluence", "causal_leak", "next_tokens"]


@dataclass(frozen=True)
class FutureInfluence:
    """How much the outputs up to some step change when only later inputs are changed, for next-step targets.

    `agreement` is the share of targets that equal the next input. `unshifted` says that the target is the input itself,
    that the loss does not shift it, and that the model sees nothing but the past and the present.
    """

    agreement: float
    influence: float
    noise: float
    steps: int
    key: str
    first: str = ""
    first_module: str = ""
    place: str = ""
    unshifted: bool = False


AGREES = 0.95  # share of targets that must be the next input, for the task to be next-step prediction
TELLS = 1e-4
ROWS = 8


@dataclass(frozen=True)
class _Sequence:
    """The input whose next step is the target: its key, the dimension of time, and how well it agrees."""

    key: str
    axis: int
    length: int
    agreement: float
    shifted: bool


@probe
def next_tokens(sandbox: Sandbox, trial: TrialRun) -> FutureInfluence:
    """Change future tokens of some sequences and compare the outputs for past ones, in eval mode."""
    require_run(trial)
    whole = sandbox.batch()
    _sequence(whole)
    with sandbox.mode(training=False):
        batch = runnable(Samples(whole, 0, whole.size, True), ROWS, sandbox.forward).batch
        found = _sequence(batch)
        jittered(sandbox.model)  # what begins at zero hides what lies before it
        if not found.shifted and not _loss_shifts(sandbox, batch, found):
            return _unshifted(sandbox, batch, found)
        with torch.no_grad():
            return _leak(sandbox, batch, found)


def _sequence(batch: Batch) -> _Sequence:
    """Find an input that the target is the next step of, or the same as."""
    target = batch.target if batch.has_target else None
    if not isinstance(target, torch.Tensor) or target.dim() < 2:
        raise NotApplicable("the targets are not sequences, so no next step is predicted")
    best: list[_Sequence] = []
    for name, tensor in batch.inputs.items():
        if tensor.shape != target.shape or tensor.dtype != target.dtype:
            continue
        for axis in (1, 0):
            length = tensor.shape[axis]
            if length < 4:
                continue
            shifted = _agreement(tensor.narrow(axis, 1, length - 1), target.narrow(axis, 0, length - 1))
            same = _agreement(tensor, target)
            if shifted > max(AGREES, same + 0.02):
                best.append(_Sequence(name, axis, length, shifted, True))
            elif same > AGREES and axis == 1 and not tensor.is_floating_point():
                best.append(_Sequence(name, axis, length, same, False))
    if not best:
        raise NotApplicable("the targets are not shifted inputs")
    return max(best, key=lambda s: (s.shifted, s.agreement))


def _agreement(inputs: torch.Tensor, targets: torch.Tensor) -> float:
    """Return the share of targets that equal the input; what is masked by a negative id does not count."""
    if not targets.is_floating_point():
        kept = targets >= 0
        inputs, targets = inputs[kept], targets[kept]
    if targets.numel() == 0 or bool((targets == targets.flatten()[0]).all()):
        return 0.0
    return float((inputs == targets).double().mean())


def _loss_shifts(sandbox: Sandbox, batch: Batch, found: _Sequence) -> bool:
    """Whether the loss compares each output with the next target itself: then the last output gets no gradient."""
    outcome = sandbox.run(batch)
    if outcome.predicted is None or not outcome.loss.requires_grad:
        raise NotApplicable("the target is the input, and it is unknown whether the loss shifts it")
    (slope,) = torch.autograd.grad(outcome.loss, [outcome.predicted], allow_unused=True)
    axis = _time_axis(outcome, found) if slope is not None else None
    if slope is None or axis is None:
        raise NotApplicable("the target is the input, and it is unknown whether the loss shifts it")
    last, before = slope.select(axis, found.length - 1), slope.narrow(axis, 0, found.length - 1)
    return bool((last == 0).all()) and bool((before != 0).any())


def _time_axis(outcome: Outcome, found: _Sequence) -> int | None:
    shape = tuple(outcome.predicted.shape) if outcome.predicted is not None else ()
    if len(shape) > found.axis and shape[found.axis] == found.length:
        return found.axis
    return len(shape) - 1 if len(shape) > 2 and shape[-1] == found.length else None


def _with_other_future(batch: Batch, found: _Sequence, keep: int) -> Batch:
    """Return every sequence another's steps behind those that are kept; ids stay within the vocabulary."""

    def change(name: str, tensor: torch.Tensor) -> torch.Tensor:
        if name != found.key:
            return tensor
        tensor = tensor.clone()
        later = tensor.narrow(found.axis, keep, found.length - keep)
        rolled = later.roll(1, 1 - found.axis).flip(found.axis)
        unchanged = bool((rolled == later).all())
        later.copy_(tensor.narrow(found.axis, 0, 1).expand_as(later) if unchanged else rolled)
        return tensor

    return batch.map_inputs(change)


def _leak(sandbox: Sandbox, batch: Batch, found: _Sequence) -> FutureInfluence:
    reference, again = record(sandbox, batch), record(sandbox, batch)
    cuts = sorted({found.length // 4, found.length // 2, found.length - 1} - {0})
    changed = [record(sandbox, _with_other_future(batch, found, keep)) for keep in cuts]
    masks = [torch.arange(found.length) >= keep for keep in cuts]
    nothing = [torch.zeros(found.length, dtype=torch.bool)]
    influence, noise = _spill([reference, *changed], masks), _spill([reference, again], nothing)
    if influence is None or noise is None:
        raise NotApplicable("the output has no time dimension")

    def leaks(values: tuple[torch.Tensor, ...]) -> bool:
        before, repeated, *after = values
        early = spill([(before, value) for value in after], masks, found.length)
        if early is None or early <= TELLS:
            return False
        return early > 10 * (spill([(before, repeated)], nothing, found.length) or 0.0)

    place: Place | None = first_place([reference, again, *changed], leaks) if influence > TELLS else None
    return FutureInfluence(
        found.agreement, influence, noise, found.length, found.key,
        place.path if place else "", place.module if place else "", str(place) if place else "",
    )  # fmt: skip


def _spill(recordings: list[Recording], masks: list[torch.Tensor]) -> float | None:
    outputs = [recording.predicted for recording in recordings]
    if any(output is None for output in outputs):
        return None
    return spill([(outputs[0], other) for other in outputs[1:]], masks, len(masks[0]))  # type: ignore[misc]


def _unshifted(sandbox: Sandbox, batch: Batch, found: _Sequence) -> FutureInfluence:
    """Judge a target that is the input itself: only a model that sees nothing but the past is meant to predict it."""
    with torch.no_grad():
        seen = _leak(sandbox, batch, found)
        if seen.influence > TELLS:
            raise NotApplicable("the target is the input, and the model sees all of it, as an autoencoder does")
        changed = record(sandbox, _with_other_future(batch, found, 1)).predicted
        reference = record(sandbox, batch).predicted
    if changed is None or reference is None or torch.equal(changed, reference):
        raise NotApplicable("the target is the input, and the outputs do not depend on it")
    return FutureInfluence(found.agreement, seen.influence, seen.noise, found.length, found.key, unshifted=True)


@check(explains=("initial-loss-off", "loss-metric-disagree"))
def causal_leak(
    future: FutureInfluence,
    *,
    influence: float = 1e-3,  # exactly 0 when masked; our choice, above rounding
    noises: float = 10.0,  # times the change between two equal runs; our choice
) -> Iterator[Finding]:
    """The model sees the future steps that it has to predict.

    Where the targets are the inputs shifted by one step, nbdebug changes the later part of the sequences and compares
    the outputs for the earlier part, in eval mode, module by module.

    Why it matters: the loss quickly falls to almost zero, because the target is part of the input. At generation time
    there is no target to copy, and the outputs are useless.

    What to try: mask future positions in the attention named (is_causal, an upper-triangular mask), pad convolutions on
    the left only, use unidirectional recurrent layers; shift the targets by one step.
    """
    if future.unshifted:
        yield Finding(
            f"The targets equal the inputs ({future.agreement:.0%} of `{future.key}` agree) instead of the next step, "
            "so the causal model only learns to copy its input.",
            where=future.key,
            severity="suspect",
            evidence={
                "agreement": future.agreement,
                "threshold": 0.95,
                "source": "next-step targets are shifted by one step",
            },
            remedies=(Remedy("Shift the targets by one step.", "inputs, targets = tokens[:, :-1], tokens[:, 1:]"),),
        )
        return
    threshold = max(influence, noises * future.noise)
    if future.influence <= threshold:
        return
    yield Finding(
        f"The model is not causal: changing later steps of `{future.key}` changes earlier outputs by up to "
        f"{future.influence:.1%}, first {future.place or 'in the model'}. The targets are the next steps "
        f"({future.agreement:.0%} agree).",
        where=future.first or "model",
        evidence={
            "influence": future.influence,
            "noise": future.noise,
            "threshold": threshold,
            "source": "exactly 0 with a causal mask",
        },
        remedies=(
            Remedy("Apply a causal mask.", "F.scaled_dot_product_attention(q, k, v, is_causal=True)"),
            Remedy("Pad convolutions on the left only.", "F.pad(x, (kernel_size - 1, 0))"),
        ),
        exhibit=Bars(("future changed", "same input again"), (future.influence, future.noise), log=True),
    )
