"""How did the loss go?"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from nbdebug.core.registry import recorded
from nbdebug.errors import NotApplicable
from nbdebug.evidence.recorded.loop import begins_again, makes_data
from nbdebug.evidence.recorded.weights import largest_growth, median_update
from nbdebug.evidence.recording import Recording
from nbdebug.watch.recorder.series import Series

__all__ = ["LossCourse", "loss_course"]


@dataclass(frozen=True, eq=False)
class LossCourse:
    """The loss over the steps, in a few robust numbers.

    `start` and `now` are means of the first and the last tenth with standard errors that allow for steps that resemble
    their neighbors; `before` and `later` are the third and the fourth quarter of the run; `best` is the lowest
    mean of a tenth. `noise` is the scatter from one step to the next. `spikes` are steps at which the loss left its
    surroundings by far; of these `lasting` kept it up for a few steps. `warming_up` says that the learning rate
    still rises; `begins_again` that an inner loop does, with other weights or data; `makes_data` that the model acts
    between the steps, and `is_episodic` that it acts in many passes for each backward pass; `others` are further
    optimizers with backward passes of their own, whose losses pull against this one.
    """

    count: int
    start: float
    start_error: float
    now: float
    now_error: float
    now_low: float  # a low value of the last tenth: one in five is lower
    best: float
    best_step: int
    before: float
    later: float
    later_error: float
    noise: float
    spikes: tuple[tuple[int, float, float], ...] = ()  # step, loss, loss around it
    lasting: int = 0
    looked_for_spikes: int = 0
    warming_up: bool = False
    others: int = 0
    begins_again: bool = False
    makes_data: bool = False
    is_episodic: bool = False
    lowest: float = math.nan  # of all single steps
    first_size: float = math.nan  # the largest of the first tenth, without its sign
    moved: float = math.nan  # the median relative change of the weights in one step
    opening: float = math.nan  # the median of the very first steps
    first: float = math.nan  # before any step was made, if it was recorded from there on
    grown: float = 1.0  # by how much the norm of a weight matrix has grown at most
    steps: np.ndarray = field(default_factory=lambda: np.zeros(0))
    values: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def require_progress(self) -> None:
        """Raise NotApplicable if the loss does not measure progress."""
        if self.others:
            raise NotApplicable("the losses of models that train against each other do not measure progress")
        if self.makes_data:
            raise NotApplicable("the model generates its own data between steps: its loss does not measure progress")

    @property
    def range(self) -> float:
        """How far the loss has come down at best."""
        return max(self.start - self.best, 0.0)


LEAST = 20  # steps; fewer say nothing about a course
AROUND = 7  # steps on either side that a spike is compared with
SPIKE = 10.0  # scatters above its surroundings
UNDONE = 0.5  # share of the progress, or of the first loss, that a spike has to undo
AFTER = 3  # steps after a spike at which it has to show
BLOCKS = 8
OPENING = 5  # steps; where weights run away, the first tenth may be part of it
EPISODE = 4  # passes for each backward pass: more are a policy that acts, or a cell that is unrolled
STAYS = 4 * AROUND  # steps after which a loss that jumped and did not come back has another level


@recorded
def loss_course(recording: Recording) -> LossCourse:
    """Summarize the loss curve: first, last and best loss, noise and spikes."""
    loss = recording.loss.finite
    if len(loss) < LEAST:
        raise NotApplicable(f"the loss of {len(loss)} steps is known; {LEAST} are needed")
    values, counts = loss.values.astype(float), loss.known.astype(float)
    tenth = max(5, len(values) // 10)
    start, start_error = _level(values[:tenth], counts[:tenth])
    now, now_error = _level(values[-tenth:], counts[-tenth:])
    middle, quarter = len(values) // 2, len(values) // 4
    before, before_error = _level(values[middle : middle + quarter], counts[middle : middle + quarter])
    later, later_error = _level(values[-quarter:], counts[-quarter:])
    levels = np.convolve(values, np.ones(tenth) / tenth, "valid")
    noise = _scatter(loss.exact)
    spikes, lasting = _spikes(loss.exact, start, noise)
    return LossCourse(
        count=loss.measured,
        start=start,
        start_error=start_error,
        now=now,
        now_error=now_error,
        now_low=float(np.quantile(values[-tenth:], 0.2)),
        best=float(levels.min()),
        best_step=int(loss.steps[int(levels.argmin()) + tenth - 1]),
        before=before,
        later=later,
        later_error=math.hypot(before_error, later_error),
        noise=noise,
        spikes=spikes,
        lasting=lasting,
        looked_for_spikes=len(loss.exact),
        warming_up=_warms_up(recording),
        others=recording.tally.rivals,
        begins_again=begins_again(recording) or _repeats(recording),
        makes_data=makes_data(recording),
        is_episodic=_is_episodic(recording),
        lowest=float(np.nanmin(loss.low)),
        first_size=float(np.abs(values[:tenth]).max()),
        moved=median_update(recording),
        opening=float(np.median(values[:OPENING])),
        first=float(values[0]),
        grown=largest_growth(recording),
        steps=loss.steps,
        values=values,
    )


def _level(values: np.ndarray, counts: np.ndarray) -> tuple[float, float]:
    """Return the mean and its standard error from the means of a few blocks, because neighbors resemble each other."""
    mean = float(np.average(values, weights=counts))
    blocks = np.array([block.mean() for block in np.array_split(values, min(BLOCKS, len(values)))])
    return mean, float(blocks.std(ddof=1) / math.sqrt(len(blocks))) if len(blocks) > 1 else math.inf


def _scatter(loss: Series) -> float:
    """Return the scatter of single steps, from the differences of neighbors and without regard to outliers."""
    if len(loss) < 3:
        return math.nan
    return float(1.4826 * np.median(np.abs(np.diff(loss.values))) / math.sqrt(2))


def _spikes(loss: Series, start: float, noise: float) -> tuple[tuple[tuple[int, float, float], ...], int]:
    """Find steps at which the loss leaves its surroundings and comes back; until it has, it is one spike."""
    found, lasting, values = [], 0, loss.values
    last, back = -STAYS, math.inf
    for index in range(AROUND, len(values)):
        if index - last < STAYS and back < values[index]:
            continue
        if index - last < AROUND:
            continue
        back = math.inf
        around = float(np.median(values[max(0, index - 2 * AROUND) : index]))
        height = values[index] - around
        limit = max(SPIKE * noise, UNDONE * max(start - around, 0.0), UNDONE * abs(start))
        if height <= limit:
            continue
        last, back = index, around + limit / 2
        after = values[index + 1 : index + 1 + STAYS]
        if len(after) == STAYS and after.min() > back:
            continue  # another level, as where a curriculum goes on
        found.append((int(loss.steps[index]), float(values[index]), around))
        rest = values[index + 1 : index + 1 + AFTER]
        # The middle one, because where most batches lose nothing, one that does may follow another by chance.
        lasting += bool(len(rest) and np.median(rest) > around + 3 * noise)
    return tuple(found), lasting


def _is_episodic(recording: Recording) -> bool:
    """Whether the model is called many times for each backward pass."""
    tally = recording.tally
    return tally.training_passes > EPISODE * tally.parts * max(tally.backwards, 1)


def _repeats(recording: Recording) -> bool:
    """Whether most steps are made on the batch of the step before, so that each new one comes as a surprise."""
    batches = recording.batches
    return batches.distinct > 2 and batches.again > batches.seen / 2


def _warms_up(recording: Recording) -> bool:
    """Whether the learning rate was still rising at the end."""
    for rate in recording.rates.values():
        known = rate.finite.values
        if len(known) > 1 and known[-1] >= known.max() > 1.05 * known[: max(1, len(known) // 2)].max():
            return True
    return False
