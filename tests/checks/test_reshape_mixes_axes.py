"""Failing examples that reshape where they should permute, and the reshapes of sound models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug.checks.passes.reshape_mixes_axes import mixed_axes
from tests.examples import failing_example
from tests.programs import program
from tests.zoo.samples import seeded

CHECK = "reshape-mixes-axes"
Change = Callable[[torch.Tensor], torch.Tensor]


class Reshaped(nn.Module):
    """A body, a change of its output, and a mean over all axes but the last."""

    def __init__(self, body: nn.Module, change: Change, width: int) -> None:
        super().__init__()
        self.body, self.change, self.head = body, change, nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        return self.head(self.change(self.body(x)).flatten(1, -2).mean(1))


def series(change: Change, width: int, shape: str = "plain") -> dict[str, Any]:
    """Return sequences of 20 steps with 6 channels, brought to 8 channels."""
    x, y = torch.randn(48, 20, 6, generator=seeded(0)), torch.randint(0, 3, (48,), generator=seeded(1))
    return program(shape, Reshaped(nn.Linear(6, 8), change, width), x, y, F.cross_entropy, size=16)


@failing_example(CHECK, where="model")
def view_for_transpose() -> dict[str, Any]:
    """Channels are meant to come before time, as a convolution wants them."""
    return series(lambda h: h.view(len(h), 8, 20), 20)  # fixed: return series(lambda h: h.transpose(1, 2), 20)


class Attention(nn.Module):
    """Attention of four heads whose outputs are joined."""

    def __init__(self, joined: Change) -> None:
        super().__init__()
        self.qkv, self.joined = nn.Linear(8, 24), joined

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the attended sequence."""
        q, k, v = self.qkv(x).view(len(x), -1, 3, 4, 2).permute(2, 0, 3, 1, 4)
        return self.joined(F.scaled_dot_product_attention(q, k, v))


def attention(joined: Change, shape: str = "plain") -> dict[str, Any]:
    x, y = torch.randn(48, 20, 8, generator=seeded(0)), torch.randint(0, 3, (48,), generator=seeded(1))
    return program(shape, Reshaped(Attention(joined), lambda h: h, 8), x, y, F.cross_entropy, size=16)


@failing_example(CHECK, where="net.body")
def heads_joined_without_transpose() -> dict[str, Any]:
    """The outputs of attention heads are joined as they lie in memory; the model computes its own loss."""
    return attention(lambda out: out.reshape(len(out), 20, 8), "own_loss")


@failing_example(CHECK, where="loss_fn")
def classes_of_pixels_in_the_loss() -> dict[str, Any]:
    """The logits of all pixels are flattened with the classes in the middle."""
    x = torch.randn(24, 1, 10, 10, generator=seeded(0))
    loss = lambda o, y: F.cross_entropy(o.reshape(-1, 3), y.reshape(-1))  # noqa: E731
    return program("compute_loss", nn.Conv2d(1, 3, 3, padding=1), x, (x[:, 0] > 0).long(), loss, size=8)


class LastState(nn.Module):
    """A recurrent network of two directions, classified by its last states."""

    def __init__(self, joined: Change) -> None:
        super().__init__()
        self.rnn, self.head, self.joined = nn.GRU(6, 8, batch_first=True, bidirectional=True), nn.Linear(16, 3), joined

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        return self.head(self.joined(self.rnn(x)[1]))


def recurrent(joined: Change) -> dict[str, Any]:
    x, y = torch.randn(48, 20, 6, generator=seeded(0)), torch.randint(0, 3, (48,), generator=seeded(1))
    return program("train_step", LastState(joined), x, y, F.cross_entropy, size=16)


@failing_example(CHECK, where="model")
def directions_joined_across_samples() -> dict[str, Any]:
    """The last states of both directions, (2, batch, hidden), are viewed as (batch, 2 * hidden)."""
    return recurrent(lambda last: last.view(-1, 16))


def pictures(net: nn.Module) -> dict[str, Any]:
    x, y = torch.randn(24, 3, 8, 8, generator=seeded(0)), torch.randint(0, 3, (24,), generator=seeded(1))
    return {"model": net, "loader": DataLoader(TensorDataset(x, y), 8), "loss_fn": nn.CrossEntropyLoss()}


class Swap(nn.Module):
    """A change of images between two convolutions."""

    def __init__(self, change: Change, channels: int = 8) -> None:
        super().__init__()
        self.conv, self.change, self.head = nn.Conv2d(3, 8, 3, padding=1), change, nn.LazyLinear(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        return self.head(self.change(self.conv(x)).flatten(1))


def windows(h: torch.Tensor) -> torch.Tensor:
    n, c, height, width = h.shape
    parts = h.view(n, c, height // 4, 4, width // 4, 4).permute(0, 2, 4, 3, 5, 1).reshape(-1, 16, c)
    parts = parts + parts.mean(1, keepdim=True)
    return parts.view(n, height // 4, width // 4, 4, 4, c).permute(0, 5, 1, 3, 2, 4).reshape(n, c, height, width)


def relative_shift(scores: torch.Tensor) -> torch.Tensor:
    n, rows, columns = scores.shape
    padded = F.pad(scores, (1, 0))
    return padded.view(n, columns + 1, rows)[:, 1:].reshape(n, rows, columns)


HEALTHY: dict[str, Callable[[], dict[str, Any]]] = {
    "transpose": lambda: series(lambda h: h.transpose(1, 2), 20),
    "heads": lambda: attention(lambda out: out.transpose(1, 2).reshape(len(out), 20, 8)),
    "directions": lambda: recurrent(lambda last: last.transpose(0, 1).reshape(-1, 16)),
    "two steps in one": lambda: series(lambda h: h.reshape(len(h), 10, 16), 16),
    "time in the batch": lambda: series(lambda h: (h.reshape(-1, 8) * 2).view(-1, 20, 8), 8),
    "flatten": lambda: series(lambda h: h.flatten(1)[:, None], 160),
    "pixel shuffle": lambda: pictures(Swap(nn.PixelShuffle(2))),
    "unshuffle": lambda: pictures(Swap(nn.PixelUnshuffle(2))),
    "channel shuffle": lambda: pictures(Swap(lambda h: h.view(-1, 2, 4, 8, 8).transpose(1, 2).reshape(-1, 8, 8, 8))),
    "windows": lambda: pictures(Swap(windows)),
    "relative shift": lambda: pictures(Swap(lambda h: relative_shift(h.flatten(0, 1)).view(-1, 8, 8, 8))),
    "pixels of a class": lambda: pictures(Swap(lambda h: h.permute(0, 2, 3, 1).reshape(-1, 8).view(-1, 64, 8))),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_sound_reshapes_are_healthy(name: str) -> None:
    """Axes are split, joined with their neighbors, or moved before."""
    torch.manual_seed(0)
    setup = HEALTHY[name]()
    if any(isinstance(p, nn.UninitializedParameter) for p in setup["model"].parameters()):
        setup["model"](next(iter(setup["loader"]))[0])
    report = nbdebug.diagnose(**setup, progress=False, checks=[CHECK])
    assert report.result(CHECK).status in ("clean", "skipped"), report.result(CHECK)


@pytest.mark.parametrize(
    ("before", "after", "is_mixed"),
    [
        ((16, 20, 8), (16, 8, 20), True),
        ((16, 4, 20, 2), (16, 20, 8), True),
        ((2, 16, 8), (16, 16), True),
        ((8, 3, 10, 10), (800, 3), True),
        ((16, 64, 3, 12), (16, 12, 192), True),
        ((16, 20, 8), (16, 160), False),
        ((16, 20, 8), (320, 8), False),
        ((16, 20, 8), (16, 20, 4, 2), False),
        ((16, 12, 1, 5), (16, 5, 12), True),
        ((16, 12, 13), (16, 13, 12), False),
        ((6, 8), (48,), False),
        ((16, 20, 8), (16, 10, 16), False),
    ],
)
def test_groups_between_common_strides(before: tuple[int, ...], after: tuple[int, ...], is_mixed: bool) -> None:
    """A size at another place, in a group of several axes on both sides."""
    assert (mixed_axes(before, after) is not None) == is_mixed
