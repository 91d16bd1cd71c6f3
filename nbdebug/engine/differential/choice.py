"""Which of the exchanges that rescue a training is named as its cause: plain numbers, no experiment."""

from __future__ import annotations

from collections.abc import Sequence

from nbdebug.engine.differential.race import Run

__all__ = ["LEAST_GAIN", "NO_HINDRANCE", "OUTCOMES", "REPAIRS", "candidates", "gain_needed", "rescues"]

LEAST_GAIN = 0.15  # of skill; smaller ones happen between seeds
# How a training comes out. None of these is a cause, so whatever is named as the cause accounts for them.
OUTCOMES = ("training-fails", "cannot-overfit-batch", "worse-than-baseline", "model-ignores-inputs")
# They make a training too easy, its evaluation wrong or its time long: they keep no training from learning.
NO_HINDRANCE = {
    "cached-decoding-differs",
    "causal-leak",
    "checkpoint-not-loaded",
    "graph-kept-alive",
    "hardcoded-batch-size",
    "loading-bottleneck",
    "nondeterministic-eval",
    "not-reproducible",
    "split-leakage",
    "split-shift",
    "split-treated-differently",
    "target-leaks-into-inputs",
    "train-eval-gap",
    "unshifted-targets",
    "visible-tokens-predicted",
    "worker-rng-duplicates",
}
# They help whatever the cause is: a fix that consists of these names no cause while another one rescues the training.
REPAIRS = {"clip-gradients", "normalize-between", "shortcuts", "textbook-optimizer"}
RATE = "multiply-learning-rate"
RATES = ("learning-rate-too-high", "learning-rate-too-low")


def gain_needed(runs: Sequence[Run], own: float, share: float = 0.5) -> float:
    """Return the gain in skill that counts as a rescue; repairs such as Adam do not raise the mark for causes."""
    best = max((run.skill for run in runs if run.was_tried and run.exchange.check), default=own)
    return max(LEAST_GAIN, share * (best - own))


def rescues(run: Run, runs: Sequence[Run], own: float) -> bool:
    """Whether this exchange goes far enough from the user's own training to the best of all."""
    return run.was_tried and run.skill - own >= gain_needed(runs, own, run.exchange.share)


def candidates(runs: Sequence[Run], own: float) -> list[Run]:
    """Return the causes that may be named, the first choice first.

    Fixes of contradictions go before those of statistics, and these before the exchanges that no check suggests, which
    keep their order. A learning rate makes up for the scale of inputs, of weights and of the loss: it stands where the
    rates stand, whichever check suggests it.
    """
    rescuing = [run for run in runs if run.exchange.check and rescues(run, runs, own)]
    return sorted(rescuing, key=lambda run: _place(run, runs))


def _place(run: Run, runs: Sequence[Run]) -> tuple[int, int, bool]:
    exchange, names = run.exchange, {patch.name for patch in run.exchange.patches}
    index = next(number for number, other in enumerate(runs) if other is run)
    if exchange.is_contradiction:
        return 0, index, False
    if names and names <= REPAIRS:
        return 3, index, False
    if RATE in names:
        return 2, _first_rate(runs), exchange.check not in RATES
    return (1 if exchange.is_hypothesis else 2), index, False


def _first_rate(runs: Sequence[Run]) -> int:
    rates = (
        number
        for number, run in enumerate(runs)
        if not run.exchange.is_hypothesis and RATE in {patch.name for patch in run.exchange.patches}
    )
    return next(rates, len(runs))
