"""The same short training at several learning rates."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nbdebug.core.control import Control
from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.overfit_one_batch import Overfit
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.learning_curve import Curve
from nbdebug.experiments.train_briefly import learning_rate, scale_learning_rate, train_on
from nbdebug.sandbox import Sandbox
from nbdebug.sandbox.schedules import rate_of
from nbdebug.setup import Batch

__all__ = ["RateTrials", "rate_trials"]


@dataclass(frozen=True)
class RateTrials:
    """The same short training on one batch at several learning rates around the one in use.

    `update_ratio` is the median relative change of the weights in one step at the rate in use.
    """

    rate: float
    assumed: bool
    trials: tuple[Curve, ...]  # by rising learning rate; one of them has `rate`
    update_ratio: float
    steps: int

    @property
    def own(self) -> Curve:
        """The training at the rate in use."""
        return next(curve for curve in self.trials if curve.learning_rate == self.rate)


STEPS = 40
SAMPLES = 16
LOWER = (0.1, 0.01, 1e-3, 1e-4, 1e-5)  # tried in turn, until one learns
HIGHER = (100.0, 1e3, 1e4, 1e5, 1e6)
CREEPING = 1e-4  # TheDeepChecker: updates below this share of the weights are small


@probe(quick=False)
def rate_trials(sandbox: Sandbox, trial: TrialRun, overfit: Overfit, control: Control) -> RateTrials:
    """Train on one batch at the current learning rate, and at others if that fails."""
    require_run(trial)
    rate = learning_rate(sandbox)
    if isinstance(sandbox.optimizer, torch.optim.LBFGS) or any(
        rate_of(g) is None for g in sandbox.optimizer.param_groups
    ):
        raise NotApplicable("the optimizer has no learning rate")
    if rate <= 0:
        raise NotApplicable("no learning rate is above 0; see unusual-optimizer")
    batch = sandbox.batch().head(SAMPLES)
    ratio = _update_ratio(sandbox.fresh(), batch)
    own = _known(overfit, ratio) or _trial(sandbox, batch, 1.0, control)
    factors: tuple[float, ...] = ()
    if own.outcome != "memorized":
        factors = LOWER if _in_trouble(own) or not own.learned else ()
    if not _in_trouble(own) and ratio < CREEPING:
        factors = HIGHER
    others: list[Curve] = []
    for factor in factors:
        others.append(_trial(sandbox.fresh(), batch, factor, control))
        trouble = _in_trouble(others[-1])
        if (others[-1].learned and not trouble) or (factor > 1 and trouble):
            break
    trials = tuple(sorted([own, *others], key=lambda curve: curve.learning_rate))
    return RateTrials(rate, sandbox.owns_optimizer, trials, ratio, STEPS)


def _known(overfit: Overfit, ratio: float) -> Curve | None:
    """Return the curve of the batch that was overfitted, where it was the same training and is answer enough."""
    curve = overfit.curve
    if overfit.optimizer_assumed or curve.outcome != "memorized" or _in_trouble(curve):
        return None  # with an assumed optimizer that training was in a hurry
    return curve if ratio >= CREEPING or len(curve.losses) <= STEPS else None


def _in_trouble(curve: Curve) -> bool:
    """Whether the loss did what it does when steps are too large, be it only at the start."""
    return curve.spiked or curve.outcome in ("rises", "explodes", "not-finite", "oscillates")


def _trial(sandbox: Sandbox, batch: Batch, factor: float, control: Control) -> Curve:
    scale_learning_rate(sandbox, factor)
    text = f"training at the learning rate {learning_rate(sandbox):.2g}"
    return train_on(sandbox, batch, STEPS, lambda fraction: control.progress(fraction, text))


def _update_ratio(sandbox: Sandbox, batch: Batch) -> float:
    """Return the median over the weight matrices of |change| / |weight| in one step, after a few to warm up."""
    sandbox.ready_to_train()
    for _ in range(3):
        sandbox.plain_step(batch)
    before = [p.detach().clone() for p in sandbox.model.parameters()]
    sandbox.plain_step(batch)
    ratios = [
        float((now.detach() - old).norm() / old.norm().clamp_min(1e-12))
        for now, old in zip(sandbox.model.parameters(), before, strict=True)
        if old.dim() > 1 and old.norm() > 0 and now.requires_grad
    ]
    return sorted(ratios)[len(ratios) // 2] if ratios else float("nan")
