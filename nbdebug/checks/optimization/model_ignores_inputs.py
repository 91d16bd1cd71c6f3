"""A model that ignores its inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.charts import Lines
from nbdebug.core.control import Control
from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.overfit_one_batch import SAMPLES, Overfit
from nbdebug.evidence.overfit_one_batch import STEPS as MOST
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.achievable_loss import one_answer_will_do, takes_targets
from nbdebug.experiments.capture import tapped
from nbdebug.experiments.learning_curve import Curve
from nbdebug.experiments.train_briefly import hurry, train_on
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.nested import tensors_in

__all__ = ["BlindRun", "blind_run", "model_ignores_inputs"]


@dataclass(frozen=True)
class BlindRun:
    """The overfit experiment again, with the inputs of one sample put in the place of everybody's.

    What is learned so cannot come from the inputs; `sighted` is the same training with the real ones, and `swapped`
    the loss that it leads to when the samples' inputs are then exchanged. `told` says that the model is
    handed the labels, as a conditional one is.
    """

    blind: Curve
    sighted: Curve
    samples: int
    swapped: float | None = None
    told: bool = False


LEAST = 24


@probe(quick=False)
def blind_run(sandbox: Sandbox, trial: TrialRun, overfit: Overfit, control: Control) -> BlindRun:
    """Overfit the same batch with identical inputs for all samples."""
    require_run(trial)
    batch = sandbox.batch().head(SAMPLES)
    if not batch.has_target:
        raise NotApplicable("there is no target separate from the inputs")
    if not _can_be_blinded(batch):
        raise NotApplicable("the inputs are not tensors with one row per sample")
    if sandbox.compute_loss is not None and not takes_targets(sandbox.fresh(), batch):
        raise NotApplicable("compute_loss uses the inputs only, so they are also the targets")
    told = sandbox.compute_loss is not None and _still_sees(sandbox, _same_for_all(batch))
    if told and not _is_label(batch):
        raise NotApplicable("compute_loss passes more than the inputs to the model, so they cannot be removed")
    if not _targets_differ(batch):
        raise NotApplicable("all targets of the batch are equal")
    hurry(sandbox)
    blind = train_on(
        sandbox,
        _same_for_all(batch),
        _patience(overfit.curve),
        lambda f: control.progress(f, "training without inputs"),
    )
    if sandbox.compute_loss is not None and one_answer_will_do(sandbox, batch):
        raise NotApplicable("a constant prediction is already optimal for the batch")
    return BlindRun(blind, overfit.curve, batch.size, overfit.swapped, told)


def _patience(sighted: Curve) -> int:
    """Return half as many steps again as it took with the inputs, to be fair to a slower way."""
    steps = len(sighted.losses)
    return max(LEAST, min(MOST, steps + steps // 2))


def _same_for_all(batch: Batch) -> Batch:
    """Return every sample the inputs of the first: valid values that tell nobody apart."""

    def change(_: str, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() == 0 or tensor.shape[0] != batch.size:
            return tensor
        return tensor[:1].expand_as(tensor).clone()

    return batch.map_inputs(change)


def _can_be_blinded(batch: Batch) -> bool:
    """Whether the same inputs for all are others than those there are; a list of samples is left as it is."""
    same = _same_for_all(batch).inputs
    return any(not torch.equal(tensor, same[name]) for name, tensor in batch.inputs.items())


def _still_sees(sandbox: Sandbox, blind: Batch) -> bool:
    """Whether samples with the same inputs still reach the model as different ones, as both sides of a pair do."""
    different: list[bool] = []

    def look(path: str, _: Any, given: Any) -> None:
        if path == "model":
            rows = [t for t in tensors_in(given) if t.dim() and len(t) == blind.size]
            different.extend(bool((t != t[:1]).any()) for t in rows)

    with torch.no_grad(), tapped(sandbox.model, before=look):
        sandbox.run(blind)
    return any(different)


def _is_label(batch: Batch) -> bool:
    """Whether the target is one whole number a sample: an answer, and no second view or sequence to go on from."""
    target = batch.target
    return isinstance(target, torch.Tensor) and target.numel() == batch.size and not target.is_floating_point()


def _targets_differ(batch: Batch) -> bool:
    return any(t.dim() > 0 and len(t) == batch.size and bool((t != t[:1]).any()) for t in batch.targets.values())


@check(basis="statistic")
def model_ignores_inputs(
    run: BlindRun,
    *,
    fell: float = 0.01,  # of the initial loss: less does not count as learning; our choice
    close: float = 0.05,  # of the loss reduction; neural-net-checklist uses 10 %
    predicts: float = 0.2,  # of the gap from chance to perfect; our choice: frequencies of targets give less
    perfect: float = 0.5,  # of that gap, with identical inputs; our choice: frequencies of targets give less
    late: float = 0.1,  # of the loss reduction, in the last quarter: more is not converged; our choice
) -> Iterator[Finding]:
    """The loss falls as far without the inputs as with them.

    nbdebug trains a copy on one batch, and another on the same batch with the inputs of all samples replaced by those
    of one. Without the inputs only the frequencies of the targets can be learned. A model whose loss rises when the
    inputs are permuted across samples does use them.

    Why it matters: either the model destroys its inputs on the way, or the targets reach it by another path.

    What to try: inspect the data at the input of the first layer, and what the loss receives besides outputs and
    targets.
    """
    blind, sighted = run.blind, run.sighted
    if blind.fit is not None and blind.fit.is_perfect and blind.fit.above_chance > perfect:
        says = (
            f"With identical inputs for all {run.samples} samples the model still reaches {blind.fit.value:.0%} "
            f"{blind.fit.measure}: the targets reach it by another path."
        )
    else:
        gain, gain_blind = sighted.first - sighted.last, blind.first - blind.last
        uses_inputs = sighted.fit is not None and sighted.fit.above_chance > predicts
        if run.told or uses_inputs or not (_has_converged(sighted, late) and _has_converged(blind, late)):
            return
        if gain < fell * abs(sighted.first) or gain_blind < (1 - close) * gain:
            return
        if run.swapped is not None and run.swapped - sighted.last > close * gain:
            return  # the model does use the inputs, though a large output can fit a few targets without them
        says = (
            f"The model ignores its inputs: on one batch the loss falls from {sighted.first:.3g} to "
            f"{sighted.last:.3g}, and to {blind.last:.3g} with identical inputs for all samples."
        )
    yield Finding(
        says,
        where="model",
        severity="suspect",
        evidence={
            "last loss": sighted.last,
            "last loss without inputs": blind.last,
            "threshold": close,
            "source": "37 reasons, 2; neural-net-checklist",
        },
        remedies=(Remedy("Print a batch as the model receives it.", "print(next(iter(loader)))"),),
        exhibit=Lines.of_losses(
            [("own inputs", sighted.losses), ("identical inputs", blind.losses)], "Loss on one batch"
        ),
    )


def _has_converged(curve: Curve, share: float) -> bool:
    """Return whether the last quarter contributed almost nothing to the loss reduction."""
    late = curve.losses[3 * len(curve.losses) // 4]
    return late - curve.last < share * (curve.first - curve.last)
