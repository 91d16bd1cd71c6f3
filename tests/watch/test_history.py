"""The bounded history keeps recent steps exactly, and of older ones the mean and the range."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from nbdebug.watch.recorder.history import FEW, Track, Waterfall, capacity_for
from nbdebug.watch.recorder.series import Series


def filled(values: np.ndarray, chunk: int = 1000) -> Track:
    track = Track(["loss"])
    for start in range(0, len(values), chunk):
        part = values[start : start + chunk]
        track.extend(np.arange(start, start + len(part)), part[:, None])
    return track


@pytest.mark.parametrize("length", [0, 1, 5, 4095, 4096, 4097, 10_000, 300_000])
@pytest.mark.parametrize("chunk", [1, 7, 5000])
def test_keeps_every_step_in_some_bucket(length: int, chunk: int) -> None:
    """No step is lost or counted twice, the buckets are in order, and the mean of all is the mean."""
    if chunk == 1 and length > 10_000:
        pytest.skip("too many calls")
    values = np.random.default_rng(0).normal(size=length).astype(np.float32)
    series = filled(values, chunk).series()["loss"]
    assert series.measured == length
    assert (np.diff(series.steps) > 0).all()
    ends = series.steps + 1
    assert (np.diff(np.concatenate([[0], ends])) == series.counts).all()
    if length:
        assert np.average(series.values, weights=series.counts) == pytest.approx(values.mean(), abs=1e-5)


def test_recent_steps_are_exact_and_old_ones_keep_their_range() -> None:
    """A spike of one step is still there after half a million others."""
    values = np.random.default_rng(1).normal(size=500_000).astype(np.float32)
    values[1234] = 99.0
    series = filled(values).series()["loss"]
    recent = series.exact
    assert len(recent) >= 2048
    assert (recent.values == values[recent.steps]).all()
    assert series.high.max() == 99.0
    for end, count, low, high in zip(series.steps, series.counts, series.low, series.high, strict=True):
        part = values[end + 1 - count : end + 1]
        assert (low, high) == (part.min(), part.max())


def test_memory_is_bounded() -> None:
    """A metric takes at most 150 kB, however long the run."""
    track = filled(np.zeros(5_000_000, np.float32), 2000)
    assert track.nbytes <= 150_000
    wide = Track([str(i) for i in range(1000)])
    for start in range(0, 50_000, 500):
        wide.extend(np.arange(start, start + 500), np.zeros((500, 1000)))
    assert wide.nbytes < 10_000_000


def test_what_is_not_finite_is_counted_and_does_not_spread() -> None:
    """One NaN and one infinity leave the means of their buckets as those of the others."""
    values = np.ones(100_000, np.float32)
    values[[17, 5000]] = np.nan, np.inf
    series = filled(values).series()["loss"]
    assert (series.not_finite, series.first_not_finite) == (2, 17)
    assert np.isfinite(series.values).all() and (series.values == 1).all()


def test_missing_values_have_no_bucket() -> None:
    """A layer that is called at every second step has a value at every second step, and no NaN is reported."""
    track = Track(["a", "b"])
    rows = np.arange(20, dtype=np.float32).reshape(10, 2)
    missing = np.zeros((10, 2), bool)
    missing[::2, 1] = True
    track.extend(np.arange(10), rows, missing)
    series = track.series()
    assert list(series["b"].steps) == [1, 3, 5, 7, 9]
    assert len(series["a"]) == 10 and series["b"].not_finite == 0


def test_a_metric_is_exact() -> None:
    """Counters, times of day and numbers beyond single precision come back as they went in."""
    values = np.concatenate([2**53 - np.arange(500.0), 1.7e9 + np.arange(500) / 1024, [1e39, -1e300, 5e-324, -0.0]])
    series = filled(values).series()["loss"]
    assert (series.values == values).all() and series.not_finite == 0
    assert np.signbit(series.values[-1])


def test_a_mean_of_the_largest_numbers_is_finite() -> None:
    """Their sum is too large for a float, their mean is not; nobody is warned inside a training."""
    values = np.full(10_000, np.finfo(np.float64).max)
    values[::3] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        series = filled(values).series()["loss"]
    old = series.counts > 1
    assert old.any() and (series.values[old] == values[1]).all() and series.not_finite == len(values[::3])


def test_a_wide_table_makes_nothing_infinite() -> None:
    """What single precision cannot hold is the largest number that it can; infinite is only what came so."""
    names = [str(number) for number in range(FEW + 1)]
    rows = np.ones((10, FEW + 1))
    rows[3], rows[4], rows[5, 1], rows[6, 2] = 1e300, -1e39, np.inf, np.nan
    track = Track(names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        track.extend(np.arange(10), rows)
    series = track.series()
    largest = np.finfo(np.float32).max
    assert (series["0"].values[3:5] == [largest, -largest]).all()
    assert [series[name].not_finite for name in names] == [0, 1, 1, 0, 0]
    assert series["1"].values[5] == np.inf and series["2"].first_not_finite == 6


def test_the_newest_step_can_be_taken_back() -> None:
    """It leaves no trace, whether it was finite or not."""
    for fault in (np.nan, np.inf, 5.0):
        track = Track(["x"])
        track.append(0, 1.0)
        track.append(1, fault)
        assert track.last_step == 1
        track.take_back()
        assert track.last_step == 0
        track.append(1, 2.0)
        series = track.series()["x"]
        assert list(series.values) == [1.0, 2.0] and (series.not_finite, series.first_not_finite) == (0, None)
    track.take_back()
    track.take_back()
    assert track.last_step == -1 and not len(track.series()["x"])


def agrees(series: Series, ends: np.ndarray, steps: np.ndarray, values: np.ndarray, measured: np.ndarray) -> None:
    """Hold every bucket of one column against the values that it was made of; `ends` are the borders of all buckets."""
    tolerance = 1e-6 if series.values.dtype == np.float32 else 1e-12
    starts = dict(zip(ends.tolist(), [-1, *ends[:-1].tolist()], strict=True))
    seen = np.zeros(len(steps), bool)
    for place, end in enumerate(series.steps.tolist()):
        inside = (steps > starts[end]) & (steps <= end)
        seen |= inside
        numbers = values[inside & measured & np.isfinite(values)]
        assert (series.counts[place], series.known[place]) == (inside.sum(), len(numbers))
        found = series.values[place], series.low[place], series.high[place]
        if len(numbers):
            assert found[1:] == (numbers.min(), numbers.max())
            assert found[0] == pytest.approx(numbers.mean(), rel=tolerance, abs=tolerance * np.abs(numbers).max())
        else:
            assert not np.isfinite(found).any()
    assert not (measured & np.isfinite(values) & ~seen).any()
    bad = measured & ~np.isfinite(values)
    assert series.measured == (measured & np.isfinite(values)).sum() and series.not_finite == bad.sum()
    assert series.first_not_finite == (steps[bad.argmax()] if bad.any() else None)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("columns", [1, 3, 6])
def test_every_bucket_agrees_with_the_values_themselves(columns: int, seed: int) -> None:
    """20,000 steps with NaN, infinities, gaps and missing values, in chunks of any size."""
    chance, length = np.random.default_rng(seed), 20_000
    steps = np.cumsum(chance.integers(1, 4, length)) - 1
    values = (chance.normal(size=(length, columns)) * 10.0 ** chance.integers(-3, 4, (length, columns))).round(3)
    values = values.astype(np.float32).astype(np.float64)
    faults = chance.random((length, columns)) < np.linspace(0, 0.6, length)[:, None] * chance.random(columns)
    values[faults] = chance.choice([np.nan, np.inf, -np.inf], faults.sum())
    missing = np.zeros((length, columns), bool)
    if columns > 1:
        values[:, 0] = 1.0  # has every bucket
        missing[:, 1:] = chance.random((length, columns - 1)) < chance.choice([0.0, 0.3, 0.95], columns - 1)
        missing[5000:7000, -1] = True
    track, start = Track([str(number) for number in range(columns)]), 0
    while start < length:
        part = slice(start, start + int(chance.choice([1, 3, 17, 256, 1500, 5000])))
        track.extend(steps[part], values[part], missing[part] if columns > 1 else None)
        start = part.stop
    found = track.columns()
    for number, series in enumerate(found):
        agrees(series, found[0].steps, steps, values[:, number], ~missing[:, number])
    recent = found[0].exact
    assert len(recent) >= 2048 and np.array_equal(recent.steps, steps[-len(recent) :])
    assert np.array_equal(recent.values, values[-len(recent) :, 0], equal_nan=True)


@pytest.mark.parametrize("columns", [1, 40, 163, 1000, 5000, 100_000])
def test_a_table_stays_within_its_bytes(columns: int) -> None:
    """However many columns there are, recent steps stand by themselves, and whole buckets are folded."""
    capacity = capacity_for(columns)
    assert capacity >= 128 and (columns > 4000 or capacity * columns * 16 <= 8_000_000)
    track, length = Track(["x", "y"], capacity), 40 * capacity
    track.extend(np.arange(length), np.ones((length, 2)))
    series = track.series()["x"]
    assert series.measured == series.counts.sum() == length and len(series.exact) >= capacity * 2 // 3


def test_a_series_counts_what_its_means_are_made_of() -> None:
    """A part of a series has the counts of its buckets; without any, each step of a bucket with a mean is known."""
    values = np.array([1.0, np.nan, 3.0])
    counts = np.array([8, 8, 1])
    series = Series("x", np.array([7, 15, 16]), values, values, values, counts)
    assert list(series.known) == [8, 0, 1] and series.measured == 9 and series.since(16).measured == 1
    told = Series("x", np.array([7, 15, 16]), values, values, values, counts, known=np.array([2, 0, 1]))
    assert told.measured == 3 and list(told.finite.known) == [2, 1] and told.tail(2).measured == 1


def test_a_snapshot_does_not_change() -> None:
    """What was given out stays as it was while the run goes on."""
    track = filled(np.arange(2000, dtype=np.float32))
    before = track.series()["loss"]
    kept = before.values.copy()
    track.extend(np.arange(2000, 9000), np.zeros((7000, 1)))
    assert (before.values == kept).all()


def test_histograms_are_joined_when_there_are_too_many() -> None:
    """A thousand rows become at most 128, whose shares sum to one."""
    waterfall = Waterfall(2, 5)
    for step in range(1000):
        waterfall.append(step, np.array([[1, 2, 3, 4, 0], [0, 0, 0, 0, 0]]))
    history = waterfall.layer(0)
    assert history is not None and len(history.steps) <= 128 and history.steps[-1] == 999
    assert np.allclose(history.shares.sum(axis=1), 1) and np.allclose(history.shares[0], [0.1, 0.2, 0.3, 0.4, 0])
    assert waterfall.layer(1) is None
