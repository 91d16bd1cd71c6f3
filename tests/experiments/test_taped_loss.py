"""The same mistake at the loss is found in every shape of program, and the sound loss beside it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import nbdebug
from tests.programs import SHAPES, program
from tests.zoo.samples import cancer, digit_rows, friedman

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def net(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs))


def by_hand(p: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    p = p.clamp(1e-7, 1 - 1e-7)
    return -(y * p.log() + (1 - y) * (1 - p).log()).mean()


def picked(log_p: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return -log_p.gather(1, y[:, None]).mean()


def odds() -> tuple[torch.Tensor, torch.Tensor]:
    rows, labels = cancer()
    return rows, labels.float().reshape(-1, 1)


DATA: dict[str, Callable[[], tuple[torch.Tensor, torch.Tensor]]] = {"d": digit_rows, "f": friedman, "c": odds}
SIZES = {"d": (64, 10), "f": (10, 1), "c": (30, 1)}
FAULTS: dict[str, tuple[str, Loss]] = {
    "softmax-before-cross-entropy: torch": ("d", lambda o, y: F.cross_entropy(o.softmax(1), y)),
    "softmax-before-cross-entropy: by hand": ("d", lambda o, y: F.cross_entropy(o.exp() / o.exp().sum(1)[:, None], y)),
    "probabilities-into-nll: torch": ("d", lambda o, y: F.nll_loss(o.softmax(1), y)),
    "probabilities-into-nll: logits": ("d", F.nll_loss),
    "probabilities-into-nll: by hand": ("d", lambda o, y: picked(o.softmax(1), y)),
    "logits-into-bce: by hand": ("c", by_hand),
    "sigmoid-before-bce-with-logits: torch": ("c", lambda o, y: F.binary_cross_entropy_with_logits(o.sigmoid(), y)),
    "softmax-over-wrong-dim: torch": ("d", lambda o, y: F.nll_loss(o.log_softmax(0), y)),
    "loss-sign-flipped: torch": ("d", lambda o, y: -F.cross_entropy(o, y)),
    "loss-sign-flipped: by hand": ("d", lambda o, y: -picked(o.log_softmax(1), y)),
    "loss-sign-flipped: numbers": ("f", lambda o, y: -((o - y) ** 2).mean()),
    "loss-ignores-targets: own class": ("d", lambda o, y: F.cross_entropy(o, o.argmax(1))),
    "incompatible-target-shape: by hand": ("f", lambda o, y: ((o - y.squeeze(1)) ** 2).mean()),
    "incompatible-target-shape: torch": ("f", lambda o, y: F.l1_loss(o[:, 0], y)),
    "wrong-loss-for-task: classes": ("d", lambda o, y: F.mse_loss(o[:, 0], y.float())),
    "clamped-output: relu": ("f", lambda o, y: F.mse_loss(o.relu(), y)),
    "clamped-output: tanh": ("d", lambda o, y: F.cross_entropy(o.tanh(), y)),
}
CHECKS = sorted({name.split(":")[0] for name in FAULTS})
SOUND: dict[str, tuple[str, Loss]] = {
    "cross-entropy": ("d", F.cross_entropy),
    "log-softmax": ("d", lambda o, y: F.nll_loss(o.log_softmax(1), y)),
    "log of a softmax": ("d", lambda o, y: picked((o.softmax(1) + 1e-8).log(), y)),
    "label smoothing": ("d", lambda o, y: F.cross_entropy(o, y, label_smoothing=0.1)),
    "mixed targets": ("d", lambda o, y: 0.7 * F.cross_entropy(o, y) + 0.3 * F.cross_entropy(o, y.flip(0))),
    "focal": ("d", lambda o, y: -((1 - o.softmax(1)) ** 2 * o.log_softmax(1)).gather(1, y[:, None]).mean()),
    "entropy bonus": ("d", lambda o, y: F.cross_entropy(o, y) + 0.01 * (o.softmax(1) * o.log_softmax(1)).sum(1).mean()),
    "temperature": ("d", lambda o, y: F.cross_entropy(20 * F.normalize(o, dim=1), y)),
    "binary by hand": ("c", lambda o, y: by_hand(o.sigmoid(), y)),
    "binary with logits": ("c", lambda o, y: F.binary_cross_entropy_with_logits(o, y)),
    "squared by hand": ("f", lambda o, y: ((o - y) ** 2).mean()),
    "all pairs on purpose": ("f", lambda o, y: (o[:, None, 0] - y[None, :, 0]).abs().mean() + F.mse_loss(o, y)),
    "scaled output": ("f", lambda o, y: F.mse_loss(30 * (0.2 * o).tanh(), y)),
}


def found(shape: str, data: str, loss: Loss) -> dict[str, Any]:
    torch.manual_seed(0)
    setup = program(shape, net(*SIZES[data]), *DATA[data](), loss)
    report = nbdebug.diagnose(**setup, progress=False, checks=CHECKS)
    assert not [r for r in report.results if r.status == "crashed"], report.results
    return {finding.check: str(finding) for finding in report.alarms}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_found_in_every_shape(name: str, shape: str) -> None:
    """In a loss function, in `compute_loss`, inside of the model, and in a bare step."""
    alarms = found(shape, *FAULTS[name])
    assert name.split(":")[0] in alarms, alarms


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", SOUND)
def test_sound_loss_raises_no_alarm(name: str, shape: str) -> None:
    """Losses by hand, smoothed, weighted, scaled."""
    assert not found(shape, *SOUND[name])
