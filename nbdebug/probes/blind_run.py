"""Train on inputs that say nothing."""

from __future__ import annotations

from typing import Any

import torch

from nbdebug.control import Control
from nbdebug.errors import NotApplicable
from nbdebug.evidence import BlindRun, Curve, Overfit, TrialRun
from nbdebug.probes.first_pass import require_run
from nbdebug.probes.overfit_one_batch import SAMPLES
from nbdebug.probes.overfit_one_batch import STEPS as MOST
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.twin import Twin
from nbdebug.twin.possible import one_answer_will_do, takes_targets
from nbdebug.twin.taps import tapped, tensors_in
from nbdebug.twin.training import hurry, train_on

__all__ = ["blind_run"]

LEAST = 24


@probe(quick=False)
def blind_run(twin: Twin, trial: TrialRun, overfit: Overfit, control: Control) -> BlindRun:
    """Overfit the same batch with identical inputs for all samples."""
    require_run(trial)
    batch = twin.batch().head(SAMPLES)
    if not batch.has_target:
        raise NotApplicable("there is no target separate from the inputs")
    if not _can_be_blinded(batch):
        raise NotApplicable("the inputs are not tensors with one row per sample")
    if twin.compute_loss is not None and not takes_targets(twin.fresh(), batch):
        raise NotApplicable("compute_loss uses the inputs only, so they are also the targets")
    told = twin.compute_loss is not None and _still_sees(twin, _same_for_all(batch))
    if told and not _is_label(batch):
        raise NotApplicable("compute_loss passes more than the inputs to the model, so they cannot be removed")
    if not _targets_differ(batch):
        raise NotApplicable("all targets of the batch are equal")
    hurry(twin)
    blind = train_on(
        twin, _same_for_all(batch), _patience(overfit.curve), lambda f: control.progress(f, "training without inputs")
    )
    if twin.compute_loss is not None and one_answer_will_do(twin, batch):
        raise NotApplicable("a constant prediction is already optimal for the batch")
    return BlindRun(blind, overfit.curve, batch.size, overfit.swapped, told)


def _patience(sighted: Curve) -> int:
    """Give half as many steps again as it took with the inputs, to be fair to a slower way."""
    steps = len(sighted.losses)
    return max(LEAST, min(MOST, steps + steps // 2))


def _same_for_all(batch: Batch) -> Batch:
    """Give every sample the inputs of the first: valid values that tell nobody apart."""

    def change(_: str, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() == 0 or tensor.shape[0] != batch.size:
            return tensor
        return tensor[:1].expand_as(tensor).clone()

    return batch.map_inputs(change)


def _can_be_blinded(batch: Batch) -> bool:
    """Whether the same inputs for all are others than those there are; a list of samples is left as it is."""
    same = _same_for_all(batch).inputs
    return any(not torch.equal(tensor, same[name]) for name, tensor in batch.inputs.items())


def _still_sees(twin: Twin, blind: Batch) -> bool:
    """Whether samples with the same inputs still reach the model as different ones, as both sides of a pair do."""
    different: list[bool] = []

    def look(path: str, _: Any, given: Any) -> None:
        if path == "model":
            rows = [t for t in tensors_in(given) if t.dim() and len(t) == blind.size]
            different.extend(bool((t != t[:1]).any()) for t in rows)

    with torch.no_grad(), tapped(twin.model, before=look):
        twin.run(blind)
    return any(different)


def _is_label(batch: Batch) -> bool:
    """Whether the target is one whole number a sample: an answer, and no second view or sequence to go on from."""
    target = batch.target
    return isinstance(target, torch.Tensor) and target.numel() == batch.size and not target.is_floating_point()


def _targets_differ(batch: Batch) -> bool:
    return any(t.dim() > 0 and len(t) == batch.size and bool((t != t[:1]).any()) for t in batch.targets.values())
