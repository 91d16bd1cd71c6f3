"""The same short training at several learning rates."""

from __future__ import annotations

import torch

from nbdebug.control import Control
from nbdebug.errors import NotApplicable
from nbdebug.evidence import Curve, Overfit, RateTrials, TrialRun
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.twin import Twin
from nbdebug.twin.schedules import rate_of
from nbdebug.twin.training import learning_rate, scale_learning_rate, train_on

__all__ = ["rate_trials"]

STEPS = 40
SAMPLES = 16
LOWER = (0.1, 0.01, 1e-3, 1e-4, 1e-5)  # tried in turn, until one learns
HIGHER = (100.0, 1e3, 1e4, 1e5, 1e6)
CREEPING = 1e-4  # TheDeepChecker: updates below this share of the weights are small


@probe(quick=False)
def rate_trials(twin: Twin, trial: TrialRun, overfit: Overfit, control: Control) -> RateTrials:
    """Train on one batch at the current learning rate, and at others if that fails."""
    require_run(trial)
    rate = learning_rate(twin)
    if isinstance(twin.optimizer, torch.optim.LBFGS) or any(rate_of(g) is None for g in twin.optimizer.param_groups):
        raise NotApplicable("the optimizer has no learning rate")
    if rate <= 0:
        raise NotApplicable("no learning rate is above 0; see unusual-optimizer")
    batch = twin.batch().head(SAMPLES)
    ratio = _update_ratio(twin.fresh(), batch)
    own = _known(overfit, ratio) or _trial(twin, batch, 1.0, control)
    factors: tuple[float, ...] = ()
    if own.outcome != "memorised":
        factors = LOWER if _in_trouble(own) or not own.learned else ()
    if not _in_trouble(own) and ratio < CREEPING:
        factors = HIGHER
    others: list[Curve] = []
    for factor in factors:
        others.append(_trial(twin.fresh(), batch, factor, control))
        trouble = _in_trouble(others[-1])
        if (others[-1].learned and not trouble) or (factor > 1 and trouble):
            break
    trials = tuple(sorted([own, *others], key=lambda curve: curve.learning_rate))
    return RateTrials(rate, twin.owns_optimizer, trials, ratio, STEPS)


def _known(overfit: Overfit, ratio: float) -> Curve | None:
    """Give the curve of the batch that was learned by heart, where it was the same training and is answer enough."""
    curve = overfit.curve
    if overfit.optimizer_assumed or curve.outcome != "memorised" or _in_trouble(curve):
        return None  # with an assumed optimizer that training was in a hurry
    return curve if ratio >= CREEPING or len(curve.losses) <= STEPS else None


def _in_trouble(curve: Curve) -> bool:
    """Whether the loss did what it does when steps are too large, be it only at the start."""
    return curve.spiked or curve.outcome in ("rises", "explodes", "not-finite", "oscillates")


def _trial(twin: Twin, batch: Batch, factor: float, control: Control) -> Curve:
    scale_learning_rate(twin, factor)
    text = f"training at the learning rate {learning_rate(twin):.2g}"
    return train_on(twin, batch, STEPS, lambda fraction: control.progress(fraction, text))


def _update_ratio(twin: Twin, batch: Batch) -> float:
    """Give the median over the weight matrices of |change| / |weight| in one step, after a few to warm up."""
    twin.ready_to_train()
    for _ in range(3):
        twin.plain_step(batch)
    before = [p.detach().clone() for p in twin.model.parameters()]
    twin.plain_step(batch)
    ratios = [
        float((now.detach() - old).norm() / old.norm().clamp_min(1e-12))
        for now, old in zip(twin.model.parameters(), before, strict=True)
        if old.dim() > 1 and old.norm() > 0 and now.requires_grad
    ]
    return sorted(ratios)[len(ratios) // 2] if ratios else float("nan")
