"""One recorded run whose values contradict themselves by their structure alone."""

from __future__ import annotations

from dataclasses import dataclass

from nbdebug.core.registry import probe
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.constant_weights import ConstantWeight, constant_weights
from nbdebug.experiments.masked_values import MaskedValues, masked_values
from nbdebug.experiments.padding import padded_inputs
from nbdebug.experiments.tape.program import run_recorded
from nbdebug.sandbox import Sandbox

__all__ = ["RecordedStructure", "recorded_structure"]

SAMPLES = 16


@dataclass(frozen=True)
class RecordedStructure:
    """What one run shows: softmaxes over a dimension of length 1, and values that a mask left at the padding only.

    `padded` names the inputs that look like padded sequences.
    """

    constant_weights: tuple[ConstantWeight, ...] = ()
    masked: MaskedValues | None = None
    padded: tuple[str, ...] = ()


@probe
def recorded_structure(sandbox: Sandbox, trial: TrialRun | None) -> RecordedStructure:
    """Record one run of a few samples and read what several checks ask of it."""
    if trial is not None:
        require_run(trial)
    sandbox.ready_to_train()
    batch = sandbox.batch()
    batch = batch if batch.whole else batch.head(SAMPLES)
    padded = [found for found in padded_inputs(batch) if found.share > 0]
    recording = run_recorded(sandbox, batch, step=sandbox.train_step is not None)
    return RecordedStructure(
        tuple(constant_weights(recording)),
        masked_values(recording, padded),
        tuple(entry.name for entry in padded),
    )
