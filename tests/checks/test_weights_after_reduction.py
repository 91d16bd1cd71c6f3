"""Failing examples that weigh a loss after it was averaged."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

from tests.checks.families import alarms_of
from tests.checks.objective_programs import Program, kinds, learned, policy
from tests.examples import failing_example

CHECK = "weights-after-reduction"


@failing_example("weights-after-reduction", where="compute_loss")
def mask_behind_the_mean() -> Program:
    """A mask that is multiplied with an average."""

    def loss(scores: torch.Tensor, kind: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
        losses = F.cross_entropy(scores, kind)  # fixed: losses = F.cross_entropy(scores, kind, reduction="none")
        return (losses * kept).sum() / kept.sum()

    return learned(loss, kinds(), (torch.arange(96) % 3 > 0).float(), out=4)


@failing_example("weights-after-reduction", where="compute_loss")
def returns_of_the_mean() -> Program:
    """A policy gradient that credits every action alike."""
    return policy(lambda log_p, returns: -(log_p.mean() * returns).mean())


SOUND: dict[str, Callable[[], Program]] = {
    "weights": lambda: learned(
        lambda out, y, w: (F.cross_entropy(out, y, reduction="none") * w).mean(), kinds(), torch.rand(96), out=4
    ),
    "policy": lambda: policy(lambda log_p, returns: -(log_p * returns).mean()),
    "constant": lambda: learned(
        lambda out, y, w: (F.cross_entropy(out, y) * w).mean(), kinds(), torch.full((96,), 0.5), out=4
    ),
    "weight-of-a-term": lambda: learned(
        lambda out, y, w: F.cross_entropy(out, y) + w.mean() * out.square().mean(), kinds(), torch.rand(96), out=4
    ),
    "episodes": lambda: learned(
        lambda out, y, w: -(out.log_softmax(-1).gather(1, y[:, None]).squeeze(1) * w).sum() / len(w),
        kinds(),
        torch.randn(96),
        out=4,
    ),
    "centered": lambda: learned(
        lambda out, y: (out - out.mean(1, keepdim=True)).square().mean() + F.cross_entropy(out, y), kinds(), out=4
    ),
}
FAULTY: dict[str, Callable[[], Program]] = {
    "sample-weights": lambda: learned(
        lambda out, y, w: (F.cross_entropy(out, y) * w).mean(), kinds(), torch.rand(96), out=4
    ),
    "squares": lambda: learned(
        lambda out, y, w: (F.mse_loss(out.squeeze(1), y.float()) * w).sum(), kinds(), torch.rand(96), out=1
    ),
    "mean-over-steps": lambda: learned(
        lambda out, w: -(out.log_softmax(-1).mean(1, keepdim=True) * w).sum(1).mean(), torch.randn(96, 6), out=6
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_programs_are_silent(name: str) -> None:
    assert not alarms_of(SOUND[name], CHECK)


@pytest.mark.parametrize("name", FAULTY)
def test_faults_are_found(name: str) -> None:
    assert alarms_of(FAULTY[name], CHECK) == ["bug"]
