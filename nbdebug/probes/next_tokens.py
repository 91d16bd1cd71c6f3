"""Does a model that predicts the next step see it?"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nbdebug.errors import NotApplicable
from nbdebug.evidence import FutureInfluence, TrialRun
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.twin import Outcome, Twin
from nbdebug.twin.layout import spill
from nbdebug.twin.locate import Place, Recording, first_place, jittered, record
from nbdebug.twin.samples import Samples, runnable

__all__ = ["next_tokens"]

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
def next_tokens(twin: Twin, trial: TrialRun) -> FutureInfluence:
    """Change future tokens of some sequences and compare the outputs for past ones, in eval mode."""
    require_run(trial)
    whole = twin.batch()
    _sequence(whole)
    with twin.mode(training=False):
        batch = runnable(Samples(whole, 0, whole.size, True), ROWS, twin.forward).batch
        found = _sequence(batch)
        jittered(twin.model)  # what begins at zero hides what lies before it
        if not found.shifted and not _loss_shifts(twin, batch, found):
            return _unshifted(twin, batch, found)
        with torch.no_grad():
            return _leak(twin, batch, found)


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
    """Give the share of targets that equal the input; what is masked by a negative id does not count."""
    if not targets.is_floating_point():
        kept = targets >= 0
        inputs, targets = inputs[kept], targets[kept]
    if targets.numel() == 0 or bool((targets == targets.flatten()[0]).all()):
        return 0.0
    return float((inputs == targets).double().mean())


def _loss_shifts(twin: Twin, batch: Batch, found: _Sequence) -> bool:
    """Whether the loss compares each output with the next target itself: then the last output gets no gradient."""
    outcome = twin.run(batch)
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
    """Give every sequence another's steps behind those that are kept; ids stay within the vocabulary."""

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


def _leak(twin: Twin, batch: Batch, found: _Sequence) -> FutureInfluence:
    reference, again = record(twin, batch), record(twin, batch)
    cuts = sorted({found.length // 4, found.length // 2, found.length - 1} - {0})
    changed = [record(twin, _with_other_future(batch, found, keep)) for keep in cuts]
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


def _unshifted(twin: Twin, batch: Batch, found: _Sequence) -> FutureInfluence:
    """Judge a target that is the input itself: only a model that sees nothing but the past is meant to predict it."""
    with torch.no_grad():
        seen = _leak(twin, batch, found)
        if seen.influence > TELLS:
            raise NotApplicable("the target is the input, and the model sees all of it, as an autoencoder does")
        changed = record(twin, _with_other_future(batch, found, 1)).predicted
        reference = record(twin, batch).predicted
    if changed is None or reference is None or torch.equal(changed, reference):
        raise NotApplicable("the target is the input, and the outputs do not depend on it")
    return FutureInfluence(found.agreement, seen.influence, seen.noise, found.length, found.key, unshifted=True)
