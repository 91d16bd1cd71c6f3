"""Train twice from the same state with the same seed."""

from __future__ import annotations

import math

import torch

from nbdebug.control import Control
from nbdebug.errors import NotApplicable
from nbdebug.evidence import Repeats, Rereading, TrialRun
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.subject.drawing import seed_all
from nbdebug.twin import Twin

__all__ = ["repeats"]

STEPS = 3


@probe(quick=False)
def repeats(twin: Twin, trial: TrialRun, rereading: Rereading | None, control: Control) -> Repeats:
    """Repeat a few training steps on two copies with the same seed and compare them."""
    require_run(trial)
    if twin.how != "deepcopy":
        raise NotApplicable("the model cannot be copied completely, so two runs do not start equal")
    losses, weights = [], []
    for number, one in enumerate((twin, twin.fresh())):
        control.progress(number / 2, "training twice with the same seed")
        seed_all(0)
        one.ready_to_train()
        losses.append([one.plain_step(batch) for batch in one.batches(STEPS)])
        weights.append({name: p.detach().clone() for name, p in one.model.named_parameters()})
    apart = {name: _apart(value, weights[1][name]) for name, value in weights[0].items() if name in weights[1]}
    worst = max(apart, key=lambda name: apart[name], default="")
    return Repeats(
        steps=len(losses[0]),
        loss_difference=max(_relative(a, b) for a, b in zip(*losses, strict=True)),
        weight_difference=apart.get(worst, 0.0),
        where=next((name for name, value in apart.items() if value > 1e-5), worst),
        restless_samples=rereading.restless if rereading is not None else 0,
        samples=rereading.read if rereading is not None else 0,
    )


def _relative(one: float, other: float) -> float:
    if not (math.isfinite(one) and math.isfinite(other)):
        return 0.0
    return abs(one - other) / max(abs(one), abs(other), 1e-12)


def _apart(one: torch.Tensor, other: torch.Tensor) -> float:
    difference = (one - other).abs()
    finite = torch.isfinite(difference)
    size = one.detach().abs().max() if one.numel() else torch.zeros(())
    return float(difference[finite].max() / size.clamp_min(1e-12)) if bool(finite.any()) else 0.0
