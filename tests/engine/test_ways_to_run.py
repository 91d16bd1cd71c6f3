"""Compiled, checkpointed and bfloat16-autocast trainings: diagnosed and watched like any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

import nbdebug


class Checkpointed(nn.Module):
    """Runs its layers again in the backward pass instead of keeping what they give."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> Any:
        return checkpoint(self.inner, x, use_reentrant=False)


class HalfPrecision(nn.Module):
    """Computes in bfloat16 where autocast does."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return self.inner(x).float()


WAYS: dict[str, Callable[[nn.Module], Any]] = {
    "compiled": lambda model: torch.compile(model, backend="aot_eager"),
    "checkpointed": Checkpointed,
    "bfloat16": HalfPrecision,
    "all of them": lambda model: torch.compile(HalfPrecision(Checkpointed(model)), backend="aot_eager"),
}


def training(way: str, *last: nn.Module) -> tuple[Any, DataLoader[Any], torch.optim.Optimizer]:
    torch.manual_seed(0)
    x, y = load_digits(return_X_y=True)
    data = TensorDataset(torch.tensor(x / 16, dtype=torch.float32), torch.tensor(y))
    model = WAYS[way](nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10), *last))
    return model, DataLoader(data, 32, shuffle=True), torch.optim.Adam(model.parameters(), 1e-3)


def examined(way: str, *last: nn.Module) -> nbdebug.Report:
    model, loader, optimizer = training(way, *last)
    report = nbdebug.diagnose(
        model, loader, nn.CrossEntropyLoss(), optimizer, effort="quick", time_limit=280, progress=False
    )
    assert not [str(result) for result in report.results if result.status == "crashed"]
    return report


@pytest.mark.parametrize("way", WAYS)
def test_a_sound_one_is_left_alone_and_a_softmax_too_many_is_found(way: str) -> None:
    assert not examined(way).alarms
    assert "softmax-before-cross-entropy" in [finding.check for finding in examined(way, nn.Softmax(1)).alarms]


@pytest.mark.parametrize("way", WAYS)
def test_it_is_watched_to_the_same_bits(way: str) -> None:
    found = []
    for is_watched in (False, True):
        model, loader, optimizer = training(way)
        live = nbdebug.watch(model, optimizer, every=1, show=False) if is_watched else None
        if live is not None:
            live.start()
        for (x, y), _ in zip(loader, range(12), strict=False):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        if live is not None:
            live.stop()
            assert live.recording().steps == 12 and not live.report().alarms
        found.append([p.detach().clone() for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
