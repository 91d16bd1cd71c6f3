"""The loss of predictions that equal their targets, and of the same values in another order."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.tape.taint import Taint
from nbdebug.experiments.taped_loss import TapedLoss, taped_loss
from nbdebug.sandbox import Sandbox
from nbdebug.setup.user_code import required_user_code

__all__ = ["AlignedLoss", "aligned_loss"]

ORDERS = 8
FEWEST = 8  # samples


@dataclass(frozen=True)
class AlignedLoss:
    """The loss where each prediction is its own target, and the lowest and highest where it is another sample's.

    The values are the same, so that only what belongs together makes a difference. `is_data` says that no network has
    computed the target.
    """

    aligned: float
    lowest: float
    highest: float
    orders: int
    is_data: bool
    place: str


@probe
def aligned_loss(sandbox: Sandbox, trial: TrialRun | None) -> AlignedLoss:
    """Exchange the prediction for the targets, in their order and in others."""
    if trial is not None:
        require_run(trial)
    sandbox.ready_to_train()
    batch = sandbox.batch()
    with required_user_code("the run fails ({kind})"):
        taped = taped_loss(sandbox, batch, alone=True)
        if taped is None:
            raise NotApplicable("no recorded run says what the loss is computed from")
        target, is_data = _target(taped)
        if taped.tape.loss_name.startswith(("mul", "rmul")) and not _is_overlap(taped, target):
            raise NotApplicable("the target may be a weight of the prediction, such as a reward or a cost")
        generator = torch.Generator().manual_seed(0)
        orders = [torch.randperm(len(target), generator=generator) for _ in range(ORDERS)]
        with torch.no_grad():
            aligned = float(taped.evaluate(target, batch))
            others = [float(taped.evaluate(target[order], batch)) for order in orders]
    place = "train_step" if taped.tape.is_step else "compute_loss" if sandbox.compute_loss is not None else "loss_fn"
    return AlignedLoss(aligned, min(others), max(others), ORDERS, is_data, place)


def _target(taped: TapedLoss) -> tuple[torch.Tensor, bool]:
    """Return the target of the only prediction, as values that the prediction could have."""
    comparison, tape = taped.tape.main.comparison, taped.tape
    if comparison is None or tape.target is None or taped.numbers != (comparison.prediction,):
        raise NotApplicable("the loss compares no single prediction with a target")
    taint, own = tape.recording.values[comparison.target].taint, tape.prediction.value
    is_drawn = bool(taint & Taint.RANDOM) and not taint & Taint.FROZEN
    if not taint & Taint.BATCH or taint & (Taint.PARAMETER | Taint.UNSEEN) or is_drawn:
        raise NotApplicable("the target is drawn, or computed by what is trained")
    target = tape.target.value
    if target.shape != own.shape or len(target) < FEWEST or not own.is_floating_point():
        raise NotApplicable("prediction and target have different shapes")
    found = target.to(own.dtype)
    if not bool((found != found[:1]).any()):
        raise NotApplicable("all targets are the same")
    return found, not taint & Taint.FROZEN


def _is_overlap(taped: TapedLoss, target: torch.Tensor) -> bool:
    """Whether products of both are an overlap, as of masks: both in 0 to 1, and a loss that is no weighted sum."""
    own = taped.tape.prediction.value
    in_range = bool(((own >= 0) & (own <= 1)).all()) and bool((own != own.flatten()[0]).any())
    if not in_range or not bool(((target == 0) | (target == 1)).all()):
        return False
    with torch.no_grad():
        ends = [float(taped.evaluate(values, taped.batch)) for values in (own, target)]
        middle = float(taped.evaluate((own + target) / 2, taped.batch))
    return abs(middle - sum(ends) / 2) > 1e-3 * max(abs(end) for end in (*ends, 1e-6))
