"""A loss that falls without bound."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import torch

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.taped_loss import TapedLoss, taped_loss
from nbdebug.sandbox import Sandbox
from nbdebug.setup.user_code import required_user_code

__all__ = ["LossRay", "loss_ray", "loss_unbounded_below"]

STEPS = 20
SAME = 1e-3  # relative: a replay and a run of the program
FAR = 1e4  # times the largest output and target: a loss with a minimum anywhere near the targets rises there
STRETCHES = (0.01, 0.1, 1.0)


@dataclass(frozen=True)
class LossRay:
    """The loss along the direction in which gradient descent moves the outputs of the last layer.

    `start` is the loss where they are, `values` those where the outputs have magnitudes `at` along the ray, of which
    the last is far beyond every target.
    """

    start: float
    values: tuple[float, ...]
    target_keys: str
    place: str
    at: tuple[float, ...] = (1e2, 1e3, 1e4)


@probe
def loss_ray(sandbox: Sandbox, trial: TrialRun | None) -> LossRay:
    """Move the last layer's outputs down the gradient of the loss, and farther in that direction."""
    if trial is not None:
        require_run(trial)
    sandbox.ready_to_train()
    batch = sandbox.batch()
    taped = taped_loss(sandbox, batch, alone=True)
    if taped is None:
        raise NotApplicable("no recorded run says what the loss is computed from")
    if taped.target is None:
        raise NotApplicable("the loss compares the prediction with no target of the batch")
    if len(taped.tape.main.heads) != 1 or taped.tape.main.heads[0] < 0:
        raise NotApplicable("the loss is computed from several outputs")
    if _is_signed(taped):
        raise NotApplicable("the loss is weighted by numbers of both signs, so it may have no minimum")
    head = replace(taped, numbers=taped.tape.main.heads)
    start = head.output.double().to(head.output.dtype)
    direction = _descended(head, start) - start
    size = float(direction.abs().max())
    if size == 0:
        raise NotApplicable("the loss is at a minimum of the outputs")
    goal = FAR * max(1.0, float(start.abs().max()), float(taped.target[1].double().abs().max()))
    rays = [direction * (stretch * goal / size) for stretch in STRETCHES]
    with required_user_code("the loss refuses outputs far from the targets ({kind})"):
        values = tuple(_value(head, start + ray) for ray in rays)
        _require_a_run(head, start + rays[0], values[0])
    place = "train_step" if taped.tape.is_step else "compute_loss" if sandbox.compute_loss is not None else "loss_fn"
    return LossRay(_value(head, start), values, taped.target[0], place, tuple(goal * s for s in STRETCHES))


def _require_a_run(head: TapedLoss, moved: torch.Tensor, replayed: float) -> None:
    """Raise where the program itself has another loss with these outputs than the recorded operations behind them."""
    with torch.enable_grad():
        run = float(head.evaluate(moved.clone().requires_grad_(), head.batch.clone()))
    if not abs(run - replayed) <= SAME * max(abs(run), abs(replayed)):
        raise NotApplicable("the recorded operations do not say what the loss is for other outputs")


def _is_signed(taped: TapedLoss) -> bool:
    """Whether data of both signs is multiplied with what is made of the outputs, as advantages and rewards are."""
    tape = taped.tape
    for index in tape.main.zone:
        op = tape.recording.ops[index]
        inputs = [tape.recording.values[n] for n in op.inputs]
        others = [v for v in inputs if not v.requires_grad and v.tensor is not None and v.numel > 1]
        graded = [v for v in inputs if v.requires_grad]
        if op.name.startswith(("mul", "rmul", "matmul", "dot")) and graded:
            for value in others:
                assert value.tensor is not None
                if value.tensor.dtype != torch.bool and bool((value.tensor < 0).any()):
                    return True
    return False


def _descended(head: TapedLoss, start: torch.Tensor) -> torch.Tensor:
    """Take normalized steps down the gradient."""
    values, size = start, float(start.abs().mean().clamp_min(0.1))
    for _ in range(STEPS):
        leaf = values.detach().clone().requires_grad_()
        with torch.enable_grad():
            loss = head.evaluate(leaf, head.batch)
            (gradient,) = torch.autograd.grad(loss, leaf, allow_unused=True)
        if gradient is None or not bool(torch.isfinite(gradient).all()) or not bool(gradient.any()):
            break
        values = values - 0.1 * size * gradient / gradient.abs().max()
    return values.detach()


@torch.no_grad()
def _value(head: TapedLoss, values: torch.Tensor) -> float:
    return float(head.evaluate(values, head.batch))


@check(explains=("initial-loss-off", "worse-than-baseline", "cannot-overfit-batch"))
def loss_unbounded_below(
    ray: LossRay,
    *,
    growth: float = 5.0,  # per tenfold distance: a linear loss gives 10, a logarithm 1 to 2; our choice
) -> Iterator[Finding]:
    """The loss falls without bound as the outputs grow.

    nbdebug moves the outputs of the last layer down the gradient, continues in that direction to 100, 1,000 and 10,000
    times the largest output and target, and evaluates the loss there. Losses weighted by numbers of both signs, such as
    advantages, losses of several outputs, and those without a target are left out.

    Why it matters: a loss that compares predictions with targets has a minimum where they agree. One that falls for
    ever rewards outputs that grow, and training ends in NaN, or in predictions far from every target.

    What to try: check the sign of each term, and that a log-likelihood gets log-probabilities.
    """
    falls = [ray.start - value for value in ray.values]
    if not all(math.isfinite(value) for value in (ray.start, *falls)) or falls[0] <= 0:
        return
    if all(later > growth * earlier for earlier, later in pairwise(falls)):
        yield Finding(
            f"The loss falls without bound as outputs grow: from {ray.start:.3g} to {ray.values[0]:.3g} at outputs of "
            f"{ray.at[0]:.3g}, and to {ray.values[-1]:.3g} at {ray.at[-1]:.3g}.",
            where=ray.place,
            severity="suspect",
            evidence={
                "loss": ray.start,
                "loss along the ray": list(ray.values),
                "target": ray.target_keys,
                "threshold": growth,
                "source": "Full Stack Deep Learning, lecture 7: a loss that goes to minus infinity has a flipped sign",
            },
            remedies=(Remedy("Negate the term that falls.", "loss = -log_probabilities.mean()", Patch("negate-loss")),),
            exhibit=Bars(("start", *(f"{size:.3g}" for size in ray.at)), (ray.start, *ray.values), unit="loss"),
        )
