"""Runs with the same seed give different results."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from nbdebug.core.control import Control
from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.repeated_reads import Rereading
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.sandbox import Sandbox
from nbdebug.setup.sample_dataset import seed_all

__all__ = ["Repeats", "not_reproducible", "repeats"]


@dataclass(frozen=True)
class Repeats:
    """The same short training twice from the same state with the same seed."""

    steps: int
    loss_difference: float
    weight_difference: float
    where: str
    restless_samples: int
    samples: int


STEPS = 3


@probe(quick=False)
def repeats(sandbox: Sandbox, trial: TrialRun, rereading: Rereading | None, control: Control) -> Repeats:
    """Repeat a few training steps on two copies with the same seed and compare them."""
    require_run(trial)
    if sandbox.how != "deepcopy":
        raise NotApplicable("the model cannot be copied completely, so two runs do not start equal")
    losses, weights = [], []
    for number, one in enumerate((sandbox, sandbox.fresh())):
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


@check
def not_reproducible(
    repeats: Repeats,
    *,
    difference: float = 1e-4,  # summing in another order changes float32 results by about 1e-6
) -> Iterator[Finding]:
    """Runs with the same seed give different results.

    nbdebug takes the same few steps on two copies with every global seed set to the same value, and re-reads samples on
    copies with the state of every RNG restored.

    Why it matters: when two runs with the same seed differ, no change to the model can be judged by comparing runs, and
    a failure cannot be reproduced.

    What to try: look for randomness that no seed controls: `np.random.default_rng()` and `torch.Generator().seed()`
    inside `forward` or `__getitem__`, the iteration order of sets, the time. Create a seeded generator once and reuse
    it.
    """
    numbers = {"threshold": difference, "source": "two runs with the same seed must agree up to rounding"}
    if repeats.loss_difference > difference:
        yield Finding(
            f"Two runs of {repeats.steps} steps with the same seed differ by {repeats.loss_difference:.2g} in the loss "
            f"and by {repeats.weight_difference:.2g} (relative) in `{repeats.where}`.",
            where=repeats.where or "model",
            severity="suspect",
            evidence={"loss": repeats.loss_difference, "weights": repeats.weight_difference, **numbers},
            remedies=(Remedy("Use PyTorch's global RNG.", "noise = torch.randn_like(x)"),),
        )
    elif repeats.restless_samples:
        yield Finding(
            f"{repeats.restless_samples} of {repeats.samples} samples change on every read, with all global seeds "
            "fixed.",
            where="loader",
            severity="suspect",
            evidence={"samples": repeats.restless_samples, "read": repeats.samples, **numbers},
            remedies=(
                Remedy(
                    "Create one seeded generator and reuse it.", "self.rng = np.random.default_rng(seed)  # in __init__"
                ),
            ),
        )
