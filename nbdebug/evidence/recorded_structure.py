"""One recorded run whose values contradict themselves by their structure alone."""

from __future__ import annotations

from dataclasses import dataclass

from nbdebug.core.registry import probe
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.constant_weights import ConstantWeight, constant_weights
from nbdebug.experiments.discarded_results import Discarded, discarded_results, doubled_values, returned_values
from nbdebug.experiments.masked_values import MaskedValues, masked_values
from nbdebug.experiments.padding import padded_inputs
from nbdebug.experiments.position_tables import adds_row_of_length
from nbdebug.experiments.tape import Taint
from nbdebug.experiments.tape.program import run_recorded
from nbdebug.sandbox import Sandbox

__all__ = ["CUSTOM", "RecordedStructure", "recorded_structure"]

SAMPLES = 16
CUSTOM = "autograd.Function"


@dataclass(frozen=True)
class RecordedStructure:
    """What one run shows: softmaxes over a dimension of length 1, and values that a mask left at the padding only.

    `padded` names the inputs that look like padded sequences. `discarded` are ops whose result is thrown away,
    `doubled` sums of a value with itself; `one_row` says that one row of a table of positions is added to all tokens.
    `ops` are the names of all functions of torch that it calls, `is_random` says that it draws random numbers, and
    `is_opaque` that it computes some values where the tape cannot see.
    """

    constant_weights: tuple[ConstantWeight, ...] = ()
    masked: MaskedValues | None = None
    padded: tuple[str, ...] = ()
    discarded: tuple[Discarded, ...] = ()
    doubled: tuple[Discarded, ...] = ()
    one_row: bool = False
    ops: frozenset[str] = frozenset()
    is_random: bool = False
    is_opaque: bool = False

    def lacks(self, *names: str) -> bool:
        """Whether the run calls none of these functions of torch, so that no other run is needed to look at them.

        What a checkpoint, another custom function or compiled code calls is not seen.
        """
        return not self.is_opaque and self.ops.isdisjoint((CUSTOM, *names))


@probe
def recorded_structure(sandbox: Sandbox, trial: TrialRun | None) -> RecordedStructure:
    """Record one run of a few samples and read what several checks ask of it."""
    if trial is not None:
        require_run(trial)
    sandbox.ready_to_train()
    batch = sandbox.batch()
    batch = batch if batch.whole else batch.head(SAMPLES)
    padded = [found for found in padded_inputs(batch) if found.share > 0]
    with returned_values(sandbox.model) as returned:
        recording = run_recorded(sandbox, batch, step=sandbox.train_step is not None)
    return RecordedStructure(
        tuple(constant_weights(recording)),
        masked_values(recording, padded),
        tuple(entry.name for entry in padded),
        discarded_results(recording, returned),
        doubled_values(recording),
        adds_row_of_length(recording),
        frozenset(CUSTOM if op.is_custom else op.name for op in recording.ops),
        any(value.taint & Taint.RANDOM for value in recording.values),
        any(value.taint & Taint.UNSEEN for value in recording.values),
    )
