"""What the user's own loop did, step after step."""

from __future__ import annotations

import numpy as np

from nbdebug.errors import NotApplicable
from nbdebug.evidence import BatchRepeats, LoopFacts, Pace, Recording, StepModes
from nbdebug.registry import recorded

__all__ = ["batch_repeats_recorded", "loop_facts_recorded", "pace_recorded", "step_modes_recorded"]

LEAST = 10  # steps; fewer are no habit
PATIENCE = 64  # passes without a step: gradients are accumulated over fewer


@recorded
def loop_facts_recorded(recording: Recording) -> LoopFacts:
    """Count what the watched loop did: backward passes, steps, gradients that stayed, graphs that live on."""
    tally = recording.tally
    waited = tally.training_passes if not tally.backwards else tally.backwards
    if tally.steps < LEAST and not (tally.steps == 0 and waited >= PATIENCE):
        raise NotApplicable(f"{tally.steps} steps were seen; {LEAST} are needed to speak of a habit")
    idle = max(tally.steps_without_gradient, tally.steps_without_backward if not tally.backwards else 0)
    return LoopFacts(
        place="your loop",
        unit="steps of your loop" if tally.steps else "passes of your loop",
        count=tally.steps or waited,
        backwards=tally.backwards,
        steps=tally.steps,
        idle=idle,
        moved=_moved(recording),
        dirty=tally.leftover_steps,
        judged=tally.leftover_judged,
        leftover=0.0,
        graphs_alive=tally.graphs_alive,
    )


@recorded
def pace_recorded(recording: Recording) -> Pace:
    """Give the usual seconds of a step before its forward pass and from there on."""
    times = {name: series.finite.values for name, series in recording.times.items()}
    if any(len(times.get(name, ())) < LEAST for name in ("data", "forward", "backward", "step")):
        raise NotApplicable(f"fewer than {LEAST} steps were timed")
    usual = {name: float(np.median(values)) for name, values in times.items()}
    return Pace(usual["data"], usual["forward"] + usual["backward"] + usual["step"])


@recorded
def batch_repeats_recorded(recording: Recording) -> BatchRepeats:
    """Count how often the same batch was trained on, and how often in a row."""
    batches = recording.batches
    if batches.seen < 2 * LEAST:
        raise NotApplicable(f"{batches.seen} batches could be told apart; {2 * LEAST} are needed")
    return BatchRepeats(
        "batches that were trained on", batches.seen, batches.distinct, batches.most_common, batches.in_a_row, False
    )


@recorded
def step_modes_recorded(recording: Recording) -> StepModes:
    """Say in which mode the model was while it trained."""
    tally = recording.tally
    sensitive = tally.mode_modules
    if not sensitive:
        raise NotApplicable("the model behaves the same in training and in eval mode")
    if tally.steps < LEAST:
        raise NotApplicable(f"{tally.steps} steps were seen; {LEAST} are needed to speak of a habit")
    is_habit = tally.steps_in_eval_mode > tally.steps / 2
    return StepModes(not is_habit, sensitive, has_step=True, eval_as_handed=is_habit)


def _moved(recording: Recording) -> int:
    """Count the measured steps that changed a weight; where none was measured, each step is taken at its word."""
    looks = [parameter.update.finite for parameter in recording.parameters.values()]
    measured = [series for series in looks if len(series)]
    if not measured:
        return recording.steps
    return max(int(np.sum(series.counts[series.high > 0])) for series in measured)
