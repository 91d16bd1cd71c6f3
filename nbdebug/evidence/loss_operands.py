"""What the ops of a recorded run are given: logarithms, normalized rows, masks, broadcast columns, constants."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from nbdebug.core.registry import probe
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.accidental_pairs import AccidentalPairs, accidental_pairs
from nbdebug.experiments.bootstraps import Bootstrap, bootstraps
from nbdebug.experiments.box_sides import BoxSides, box_sides
from nbdebug.experiments.constant_terms import ConstantTerm, constant_terms
from nbdebug.experiments.divergences import Divergence, divergences
from nbdebug.experiments.drawn_indices import DrawnIndices, drawn_indices
from nbdebug.experiments.index_masks import IndexMask, index_masks
from nbdebug.experiments.mixed_derivatives import MixedDerivatives, mixed_derivatives
from nbdebug.experiments.mixed_samples import MixedSamples, mixed_samples
from nbdebug.experiments.noise_schedule import NoiseSchedule, noise_schedules
from nbdebug.experiments.normalized_axes import NormalizedAxis, normalized_axes
from nbdebug.experiments.reduced_weights import ReducedWeights, reduced_weights
from nbdebug.experiments.repeated_exponentials import RepeatedExponential, repeated_exponentials
from nbdebug.experiments.tape.ops import Recording
from nbdebug.experiments.tape.program import TapeUnreadable, run_recorded
from nbdebug.experiments.tape.tape import tape_of
from nbdebug.experiments.target_domains import WrongTargets, wrong_targets
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.user_code import required_user_code

__all__ = ["LossOperands", "loss_operands"]


@dataclass(frozen=True)
class LossOperands:
    """What contradicts how it is used: each op of the run that gets something else than it can work with.

    `compared` counts the products of representations that were normalized.
    """

    place: str
    samples: int = 0
    divergences: tuple[Divergence, ...] = ()
    compared: int = 0
    normalized: tuple[NormalizedAxis, ...] = ()
    indexed: tuple[IndexMask, ...] = ()
    paired: tuple[AccidentalPairs, ...] = ()
    constant: tuple[ConstantTerm, ...] = ()
    weighed: tuple[ReducedWeights, ...] = ()
    derivatives: tuple[MixedDerivatives, ...] = ()
    drawn: tuple[DrawnIndices, ...] = ()
    boxes: tuple[BoxSides, ...] = ()
    exponentials: tuple[RepeatedExponential, ...] = ()
    schedules: tuple[NoiseSchedule, ...] = ()
    mixed: MixedSamples | None = None
    wrong_targets: tuple[WrongTargets, ...] = ()
    bootstraps: tuple[Bootstrap, ...] = ()


@probe
def loss_operands(sandbox: Sandbox, trial: TrialRun | None) -> LossOperands:
    """Record one run of your loss or training step, and read the operands of its ops."""
    if trial is not None:
        require_run(trial)
    sandbox.ready_to_train()
    batch, step = sandbox.batch(), sandbox.train_step is not None
    with required_user_code("the run fails ({kind})"):
        recording = run_recorded(sandbox, batch, step=step, keep_data=True)
    until = partial(_run_until, sandbox, batch, step)
    compared, normalized = normalized_axes(recording)
    return LossOperands(
        "train_step" if step else "compute_loss" if sandbox.compute_loss is not None else "loss_fn",
        batch.size,
        tuple(divergences(recording)),
        compared,
        tuple(normalized),
        tuple(index_masks(recording, batch.size)),
        tuple(accidental_pairs(recording, batch.size)),
        tuple(constant_terms(recording)),
        weighed=tuple(reduced_weights(recording)),
        derivatives=tuple(mixed_derivatives(recording, until)),
        drawn=tuple(drawn_indices(recording)),
        boxes=tuple(box_sides(recording)),
        exponentials=tuple(repeated_exponentials(recording)),
        schedules=tuple(noise_schedules(recording)),
        mixed=_mixed(recording, step, batch.size),
        wrong_targets=tuple(wrong_targets(recording)),
        bootstraps=tuple(bootstraps(recording)),
    )


def _run_until(sandbox: Sandbox, batch: Batch, step: bool, last: int) -> Recording:
    return run_recorded(sandbox, batch, step=step, keep_data=True, last=last)


def _mixed(recording: Recording, step: bool, samples: int) -> MixedSamples | None:
    try:
        return mixed_samples(tape_of(recording, step), samples)
    except TapeUnreadable:
        return None
