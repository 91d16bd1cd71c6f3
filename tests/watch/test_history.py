"""The bounded history keeps recent steps exactly, and of older ones the mean and the range."""

from __future__ import annotations

import numpy as np
import pytest

from nbdebug.watch.history import Track, Waterfall


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
