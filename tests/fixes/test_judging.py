"""What counts as better: by more than the noise, by a measure that both have in common, and only where it learns."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from nbdebug.evidence.training_run import Practice
from nbdebug.experiments.learning_curve import Fit
from nbdebug.fixes.verification.judging import comparisons


def run(last: float, *, first: float = 2.3, spread: float = 0.0, accuracy: float | None = None) -> Practice:
    """A training of twelve batches that ends at a loss and an accuracy."""
    after = tuple(last + spread * math.sin(3 * i) for i in range(12))
    fit = Fit("accuracy", accuracy, 0.1) if accuracy is not None else None
    return Practice((first, last), (first,) * 12, after, Fit("accuracy", 0.1, 0.1), fit, accuracy, 512)


def test_a_lower_loss_is_better_only_beyond_the_noise() -> None:
    (clear,) = comparisons(run(2.3), run(0.5), "loss")
    assert clear.better and clear.measure == "loss" and (clear.before, clear.after) == pytest.approx((2.3, 0.5))
    (slight,) = comparisons(run(1.0), run(0.97), "loss")
    assert not slight.better and not slight.worse
    (noisy,) = comparisons(run(1.0), run(0.9, spread=0.5), "loss")
    assert not noisy.better, "the batches differ more than the means"
    assert comparisons(run(0.5), run(1.0), "loss")[0].worse


def test_standing_still_is_no_cure_for_exploding() -> None:
    exploded = run(math.inf)
    assert comparisons(exploded, run(0.4), "loss")[0].better
    assert not comparisons(exploded, run(2.3), "loss")[0].better
    assert not comparisons(None, run(math.nan), "loss")[0].better
    assert comparisons(run(1.0), run(math.nan), "loss")[0].worse


def test_losses_of_two_functions_are_never_compared_as_they_are() -> None:
    plain, patched = run(0.1, accuracy=0.5), run(40.0, first=100.0, accuracy=0.9)
    (answers,) = comparisons(plain, patched, "answers")
    assert answers.measure == "accuracy" and answers.better
    (same,) = comparisons(plain, replace(patched, fit_after=Fit("accuracy", 0.51, 0.1)), "answers")
    assert not same.better and not same.worse


def test_shares_decide_where_answers_are_alike_and_never_against_them() -> None:
    plain, patched = run(1.5, accuracy=0.9), run(0.1, accuracy=0.9)
    answers, shares = comparisons(plain, patched, "shares")
    assert not answers.better and shares.better and shares.after == pytest.approx(0.1 / 2.3)
    worse_answers, _ = comparisons(plain, replace(patched, fit_after=Fit("accuracy", 0.5, 0.1)), "shares")
    assert worse_answers.worse
    assert not comparisons(run(0.1, accuracy=0.5), run(1.5, accuracy=0.9), "shares")[1].worse
    below_zero = comparisons(run(-3.0, accuracy=0.9), patched, "shares")[1]
    assert not math.isfinite(below_zero.before), "a loss below zero has no share of the first"


def test_few_samples_prove_little() -> None:
    plain, patched = run(1.0, accuracy=0.5), run(1.0, accuracy=0.6)
    assert comparisons(plain, patched, "answers")[0].better
    assert not comparisons(plain, replace(patched, samples=20), "answers")[0].better
