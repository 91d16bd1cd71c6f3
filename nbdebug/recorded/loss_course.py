"""How did the loss go?"""

from __future__ import annotations

import math

import numpy as np

from nbdebug.errors import NotApplicable
from nbdebug.evidence import LossCourse, Recording, Series
from nbdebug.recorded.loop import begins_again, makes_data
from nbdebug.recorded.weights import largest_growth, median_update
from nbdebug.registry import recorded

__all__ = ["loss_course"]

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
    """Give the mean and its standard error from the means of a few blocks, because neighbors resemble each other."""
    mean = float(np.average(values, weights=counts))
    blocks = np.array([block.mean() for block in np.array_split(values, min(BLOCKS, len(values)))])
    return mean, float(blocks.std(ddof=1) / math.sqrt(len(blocks))) if len(blocks) > 1 else math.inf


def _scatter(loss: Series) -> float:
    """Give the scatter of single steps, from the differences of neighbors and without regard to outliers."""
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
