"""The same short training at several learning rates."""

from __future__ import annotations

import torch

from nbdebug.control import Control
from nbdebug.evidence import Curve, RateTrials, TrialRun
from nbdebug.errors import NotApplicable
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.twin import Twin
from nbdebug.twin.training import learning_rate, scale_learning_rate, train_on

__all__ = ["rate_trials"]

STEPS = 40
SAMPLES = 16
FACTORS = (1.0, 0.1, 0.01, 1e-3, 1e-4, 1e-5)  # downwards, until one learns
RAISES = (10.0, 100.0, 1000.0, 10_000.0)  # upwards, while the one in use hardly moves


@probe
def rate_trials(twin: Twin, trial: TrialRun, control: Control) -> RateTrials:
    """Train on one batch at the learning rate in use, and at lower or higher ones only where that fails."""
    require_run(trial)
    rate = learning_rate(twin)
    if isinstance(twin.optimizer, torch.optim.LBFGS) or rate <= 0:
        raise NotApplicable("the optimizer has no learning rate that could be varied")
    batch = twin.batch().head(SAMPLES)
    ratio = _update_ratio(twin.fresh(), batch)
    own = _trial(twin, batch, 1.0, control)
    others: list[Curve] = []
    failed = own.outcome in ("rises", "explodes", "not-finite", "oscillates")
    for factor in FACTORS[1:] if failed else RAISES if own.outcome != "memorised" and _slow(own) else ():
        others.append(_trial(twin.fresh(), batch, factor, control))
        if others[-1].learned and failed:
            break
        if not failed and others[-1].outcome in ("memorised", "explodes", "not-finite", "rises"):
            break
    trials = tuple(sorted([own, *others], key=lambda curve: curve.learning_rate))
    return RateTrials(rate, twin.owns_optimizer, trials, ratio, STEPS)


def _trial(twin: Twin, batch: Batch, factor: float, control: Control) -> Curve:
    scale_learning_rate(twin, factor)
    text = f"training at the learning rate {learning_rate(twin):.2g}"
    return train_on(twin, batch, STEPS, lambda fraction: control.progress(fraction, text))


def _slow(curve: Curve) -> bool:
    """Whether hardly anything was removed from the loss."""
    return curve.first - curve.best < 0.3 * abs(curve.first)


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
