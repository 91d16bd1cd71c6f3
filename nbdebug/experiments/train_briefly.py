"""Train a copy for a few steps and judge the curve."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch

from nbdebug.experiments.achievable_loss import asks_for_labels, share_of_possible
from nbdebug.experiments.decoded_outputs import decoded
from nbdebug.experiments.learning_curve import Curve, Fit, accuracy, explained_variance
from nbdebug.sandbox import Outcome, Sandbox
from nbdebug.sandbox.schedules import rates_now
from nbdebug.setup import Batch

__all__ = [
    "fit_asked_for",
    "fit_of",
    "hurry",
    "is_clear",
    "judge",
    "learning_rate",
    "scale_learning_rate",
    "train_on",
    "with_loss",
]

HASTE = 10.0
EXPLODED = 100.0  # times the first loss: no healthy step does that
STEADY = 8  # the last so many losses decide that a batch is learned
ROUNDING = 1e-4
LOOK = 3  # steps between two looks whether all answers are right already


def train_on(
    sandbox: Sandbox, batch: Batch, steps: int, tell: Callable[[float], None], losses: list[float] | None = None
) -> Curve:
    """Train on one batch until the steps are over or the answer is clear, in the way of the books.

    Whoever passes a list can read the losses in it while they come.
    """
    sandbox.ready_to_train()
    losses = losses if losses is not None else []
    for step in range(steps):
        tell(step / steps)
        losses.append(sandbox.plain_step(batch))
        if is_clear(losses) or (_is_nearly_clear(losses) and _knows_all(sandbox, batch)):
            break
    outcome = judge(losses, fit := fit_asked_for(sandbox, batch))
    if outcome == "plateaus" and fit is None and (fit := share_of_possible(sandbox, batch)) is not None:
        outcome = "memorized" if fit.is_perfect else "falling" if fit.above_chance > 0.5 else outcome
    return Curve(tuple(losses), outcome, learning_rate(sandbox), fit)


def with_loss(text: str, losses: Sequence[float]) -> str:
    """Return the text of a progress with the newest loss, from which a live curve is drawn."""
    return f"{text} · loss {losses[-1]:.4g}" if losses else text


def learning_rate(sandbox: Sandbox) -> float:
    """Return the learning rate of the first group that has one above 0; others may be frozen on purpose."""
    rates = rates_now(sandbox.optimizer)
    return next((rate for rate in rates if rate > 0), rates[0])


def scale_learning_rate(sandbox: Sandbox, factor: float) -> None:
    """Multiply the learning rate of every group."""
    for group in sandbox.optimizer.param_groups:
        group["lr"] = group["lr"] * factor


def hurry(sandbox: Sandbox) -> None:
    """Learn faster where no optimizer was given: the default is for whole data sets, and patience is short."""
    if sandbox.owns_optimizer:
        scale_learning_rate(sandbox, HASTE)


def is_clear(losses: list[float]) -> bool:
    """Whether more steps would change nothing in the answer: not finite, exploded, or learned."""
    if not math.isfinite(losses[-1]):
        return True
    if len(losses) > STEADY and min(losses[-3:]) > EXPLODED * max(abs(losses[0]), 1e-3):
        return True
    return len(losses) > STEADY and losses[0] > 0 and 0 <= max(losses[-STEADY:]) < 0.01 * losses[0]


def _is_nearly_clear(losses: list[float]) -> bool:
    """Whether it is worth a look at the answers: every few steps, once little is left of the loss."""
    return len(losses) > STEADY and len(losses) % LOOK == 0 and 0 <= max(losses[-LOOK:]) < 0.1 * losses[0]


def _knows_all(sandbox: Sandbox, batch: Batch) -> bool:
    fit = fit_asked_for(sandbox, batch)
    return fit is not None and fit.is_perfect


def judge(losses: list[float], fit: Fit | None) -> str:
    """Say how a training went: by where it ended against where it began, the quality reached, and the way there."""
    if not all(math.isfinite(loss) for loss in losses):
        return "not-finite"
    first, tenth = losses[0], max(1, len(losses) // 10)
    last = _median(losses[-tenth:])
    if last > first + (EXPLODED - 1) * max(abs(first), 1e-3):
        return "explodes"
    if (fit is not None and fit.is_perfect) or 0 <= last < 0.1 * first:  # torchtest2: to 10 % of the start
        return "memorized"
    tail = losses[len(losses) // 2 :]
    wobble = _median([abs(b - a) for a, b in pairwise(tail)] or [0.0])
    if last > first + max(0.05 * abs(first), 3 * wobble):  # TheDeepChecker: 5 % is a change
        return "rises"
    way = max(abs(first), first - last, 1e-6)  # a loss that may be negative can begin near zero and still fall far
    if wobble > 0.2 * way and not (fit is not None and fit.above_chance > 0.5):
        return "oscillates"
    dropped = first - last
    if dropped < max(0.05 * abs(first), 2 * wobble):
        return "plateaus"
    quarter = 3 * len(losses) // 4
    recent = _median(losses[quarter : quarter + tenth]) - last
    settled = recent < 0.05 * dropped
    return "plateaus" if settled and fit is not None and fit.above_chance < 0.5 else "falling"


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


@torch.no_grad()
def fit_of(sandbox: Sandbox, batch: Batch) -> Fit | None:
    """Measure how well the copy answers this batch; the better of its two modes counts, for dropout's sake."""
    fits = []
    for training in (True, False):
        with sandbox.mode(training):
            outcome = sandbox.run(batch)
            fit = _fit(sandbox, outcome, batch)
        if fit is not None and (fit.measure == "accuracy" or _in_units_of_targets(sandbox, outcome, batch)):
            fits.append(fit)
    return max(fits, key=lambda fit: fit.value, default=None)


@torch.no_grad()
def fit_asked_for(sandbox: Sandbox, batch: Batch) -> Fit | None:
    """Measure the fit, unless it is that of labels for which the loss does not ask."""
    fit = fit_of(sandbox, batch)
    asked = fit is None or fit.measure != "accuracy" or fit.above_chance > 0.5 or asks_for_labels(sandbox, batch)
    return fit if asked else None


def _in_units_of_targets(sandbox: Sandbox, outcome: Outcome, batch: Batch) -> bool:
    """Whether the loss compares outputs with targets as they are; rates, logits and scaled outputs are other things."""
    if sandbox.compute_loss is not None or not isinstance(outcome.output, torch.Tensor):
        return False
    wanted = batch.target.reshape(outcome.output.shape).to(outcome.output.dtype)
    try:  # a loss of ranks or directions leaves the level or the scale open
        exact, raised, doubled = (float(sandbox.loss_of(w, batch)) for w in (wanted, wanted + wanted.std(), 2 * wanted))
    except Exception:
        return False
    return abs(exact) <= abs(float(outcome.loss)) and min(raised, doubled) - exact > ROUNDING * abs(exact)


def _fit(sandbox: Sandbox, outcome: Outcome, batch: Batch) -> Fit | None:
    kind, pair = decoded(sandbox, outcome, batch)
    if pair is None or not len(pair[1]):
        return None
    if kind == "classes":
        return accuracy(*pair)
    return explained_variance(*pair) if len(pair[1]) > 1 else None
