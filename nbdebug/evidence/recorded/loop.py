"""What the user's own loop did, step after step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nbdebug.core.registry import recorded
from nbdebug.errors import NotApplicable
from nbdebug.evidence.batch_repeats import BatchRepeats
from nbdebug.evidence.optimizer_coverage import OptimizerCoverage
from nbdebug.evidence.recording import Recording
from nbdebug.evidence.schedule import Schedule
from nbdebug.evidence.short_run import Pace
from nbdebug.evidence.step_modes import StepModes
from nbdebug.evidence.training_loop import Clipping, LoopFacts

__all__ = [
    "LostPasses",
    "batch_repeats_recorded",
    "begins_again",
    "clipping_recorded",
    "loop_facts_recorded",
    "lost_passes_recorded",
    "makes_data",
    "optimizer_coverage_recorded",
    "pace_recorded",
    "schedule_recorded",
    "step_modes_recorded",
]


@dataclass(frozen=True)
class LostPasses:
    """Backward passes whose gradients were cleared before any optimizer used them; `usual` is how many a step had."""

    judged: int  # steps
    with_loss: int
    usual: int


LEAST = 10  # steps; fewer are no habit
LEFT = 20  # steps in eval mode at the end, after others in training mode
STRETCH = 48  # steps in which the graphs that are alive grow in number
RATES = 400  # places at which learning rates are read
ALL_AT_FIRST, OFTEN = 64, 3  # steps at which weights are compared with those that the last one left; changes of them
ASKED, NEW = 20, 0.9  # passes without gradients, and the share of them with inputs that are new
BETWEEN = 0.12  # of the passes of the training, between which others came
PATIENCE = 64  # passes without a step: gradients are accumulated over fewer


@recorded
def loop_facts_recorded(recording: Recording) -> LoopFacts:
    """Count the backward passes, steps, accumulated gradients and retained graphs of the recorded loop."""
    tally = recording.tally
    waited = tally.training_passes if not tally.backwards else tally.backwards
    if tally.steps < LEAST and not (tally.steps == 0 and waited >= PATIENCE):
        raise NotApplicable(f"{tally.steps} steps were observed; {LEAST} are needed")
    if not tally.steps and tally.strangers and tally.backwards:
        raise NotApplicable("the optimizer that steps belongs to another model; see parameters-missing-from-optimizer")
    idle = max(tally.steps_without_gradient, tally.steps_without_backward if not tally.backwards else 0)
    graphs, over = _kept_graphs(recording)
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
        graphs_alive=graphs,
        graphs_over=over,
        late=tally.late_steps > tally.steps / 2,
    )


@recorded
def lost_passes_recorded(recording: Recording) -> LostPasses:
    """Count the steps whose gradients were cleared before the optimizer step."""
    counts = dict(recording.tally.lost_passes)
    judged = sum(counts.values())
    if judged < LEAST:
        raise NotApplicable(f"the gradients of {judged} of the first steps were recorded; {LEAST} are needed")
    lost = {number: steps for number, steps in counts.items() if number}
    return LostPasses(judged, sum(lost.values()), max(lost, key=lambda number: lost[number], default=0))


@recorded
def optimizer_coverage_recorded(recording: Recording) -> OptimizerCoverage:
    """Compare the parameters that get gradients with those of the optimizers."""
    coverage = recording.coverage
    if coverage is None or max(recording.steps, sum(count for _, count in recording.tally.strangers)) < LEAST:
        raise NotApplicable(f"{recording.steps} steps were observed; {LEAST} are needed")
    return coverage


@recorded
def clipping_recorded(recording: Recording) -> Clipping:
    """Compare the gradient norm after backward with the one at the optimizer step."""
    raw, used = recording.gradient.exact, recording.used.exact
    if recording.tally.norms_compared < LEAST or len(raw) != len(used):
        raise NotApplicable(
            f"gradients were compared at {recording.tally.norms_compared} steps; at least {LEAST} are required"
        )
    pairs = zip(raw.values.tolist(), used.values.tolist(), strict=True)
    return Clipping("your loop", tuple(pair for pair in pairs if min(pair) > 0 and np.isfinite(pair).all()))


@recorded
def schedule_recorded(recording: Recording) -> Schedule:
    """Read the highest learning rate of all groups over the run."""
    known = [series.finite for series in recording.rates.values() if len(series.finite)]
    if not known or recording.steps < LEAST:
        raise NotApplicable("no learning rate was recorded")
    places = np.unique(np.linspace(0, recording.steps - 1, RATES).astype(int))
    # A rate is written down where it changes, so that between two rows it is that of the first.
    rows = [series.values[np.maximum(np.searchsorted(series.steps, places, "right") - 1, 0)] for series in known]
    rates = tuple(np.max(rows, axis=0).tolist())
    return Schedule(recording.optimizer, rates, places=tuple(places.tolist()))


@recorded
def pace_recorded(recording: Recording) -> Pace:
    """Compute the median time of data loading and of the training step."""
    times = {name: series.finite.values for name, series in recording.times.items()}
    if any(len(times.get(name, ())) < LEAST for name in ("data", "forward", "backward", "step")):
        raise NotApplicable(f"fewer than {LEAST} steps were timed")
    usual = {name: float(np.median(values)) for name, values in times.items()}
    # The mean, because workers that fetch ahead come late together; without the largest, which are pauses.
    data = float(np.sort(times["data"])[: -max(1, len(times["data"]) // 50)].mean())
    return Pace(data, usual["forward"] + usual["backward"] + usual["step"], place="your loop")


@recorded
def batch_repeats_recorded(recording: Recording) -> BatchRepeats:
    """Count repeated batches, also in a row."""
    batches = recording.batches
    if batches.seen < 2 * LEAST:
        raise NotApplicable(f"{batches.seen} distinct batches were recorded; at least {2 * LEAST} are required")
    return BatchRepeats(
        "batches that were trained on",
        batches.seen,
        batches.distinct,
        batches.most_common,
        batches.in_a_row,
        one_pass=False,
        is_inner=begins_again(recording) or makes_data(recording),
    )


def begins_again(recording: Recording) -> bool:
    """Whether an inner loop begins again and again: something else than the optimizer puts other weights there.

    Where it does so at most steps it is part of each, as where weights are clamped.
    """
    early = min(recording.steps, ALL_AT_FIRST)
    return OFTEN <= len(recording.tally.changed_outside) <= early / 2


def makes_data(recording: Recording) -> bool:
    """Whether the model is asked between the steps, again and again, about what it was never asked before.

    So a policy acts. An evaluation has the same questions each time. Where there are few states, a policy has so as
    well; but it is asked about one at a time, and between most steps.
    """
    asked = recording.asked
    if asked.seen < ASKED or asked.places < OFTEN:
        return False
    # Steps that go the short way are counted some at a time, so that not every place is seen.
    is_single = recording.asked_small > asked.seen / 2 and asked.places > BETWEEN * asked.span
    return is_single or asked.distinct > NEW * asked.seen


@recorded
def step_modes_recorded(recording: Recording) -> StepModes:
    """Read the train/eval mode during training."""
    tally = recording.tally
    sensitive = tally.mode_modules
    if not sensitive:
        raise NotApplicable("the model behaves identically in train and eval mode")
    if tally.steps < LEAST:
        raise NotApplicable(f"{tally.steps} steps were observed; {LEAST} are needed")
    mode = recording.training.values
    ends_so = bool(mode[0] == 1) and not mode[-max(LEFT, len(mode) // 10) :].any() if len(mode) > LEFT else False
    is_habit = tally.steps_in_eval_mode > tally.steps / 2 or ends_so
    return StepModes(not is_habit, sensitive, has_step=True, eval_as_handed=is_habit, place="your loop")


def _kept_graphs(recording: Recording) -> tuple[int, int]:
    """Return by how much the number of living graphs grew at most before it fell, and in how many steps."""
    series, best = recording.graphs.finite, (min(recording.tally.graphs_alive, recording.steps), recording.steps)
    low = 0
    for place in range(1, len(series)):
        if series.values[place] < series.values[place - 1] or series.values[place] <= series.values[low]:
            low = place
        grown = int(series.values[place] - series.values[low])
        over = int(series.steps[place] - series.steps[low])
        if over >= STRETCH and grown > max(0.8 * over, best[0]):
            best = (min(grown, over), over)
    return best


def _moved(recording: Recording) -> int:
    """Count the measured steps that changed a weight; where none was measured, each step is taken at its word."""
    looks = [parameter.update.finite for parameter in recording.parameters.values()]
    measured = [series for series in looks if len(series)]
    if not measured:
        return recording.steps
    return max(int(np.sum(series.known[series.high > 0])) for series in measured)
