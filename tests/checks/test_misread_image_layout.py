"""Failing examples whose pictures are scrambled."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_sample_images
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import digit_images, seeded


@lru_cache(maxsize=1)
def photographs(height: int = 32, width: int = 32) -> torch.Tensor:
    """Cut pieces of height × width × 3 out of two photographs."""
    pieces = []
    for photo in load_sample_images().images:
        for top in range(0, photo.shape[0] - height, 48):
            for left in range(0, photo.shape[1] - width, 48):
                pieces.append(photo[top : top + height, left : left + width])
    return torch.tensor(np.stack(pieces), dtype=torch.float32) / 255


def model(channels: int = 3) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(channels, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(8, 2))  # fmt: skip


def setup(pictures: torch.Tensor, net: nn.Module | None = None) -> dict[str, Any]:
    labels = (torch.arange(len(pictures)) >= len(pictures) // 2).long()
    loader = DataLoader(TensorDataset(pictures, labels), 32, shuffle=True)
    return {"model": net or model(pictures.shape[1]), "loader": loader, "loss_fn": nn.CrossEntropyLoss()}


@failing_example("misread-image-layout", where="0")
def reshaped_instead_of_permuted() -> dict[str, Any]:
    """Channels are brought to the front by reshape."""
    return setup(photographs().reshape(-1, 3, 32, 32))


def noise(pictures: torch.Tensor) -> torch.Tensor:
    """Return noise with the standard deviation of the pictures."""
    return pictures.std() * torch.randn(pictures.shape, generator=seeded(9))


@failing_example("misread-image-layout", where="0")
def noisy_pictures_reshaped() -> dict[str, Any]:
    """The same of noisy pictures, which are hardly smooth in any layout."""
    pictures = photographs() + 0.3 * noise(photographs())
    return setup(pictures.reshape(-1, 3, 32, 32))


@failing_example("misread-image-layout", where="0")
def rows_taken_for_channels() -> dict[str, Any]:
    """The first convolution was given 32 channels so that the shapes fit."""
    return setup(photographs())  # fixed: return setup(photographs().permute(0, 3, 1, 2))


class ReshapesInside(nn.Module):
    """Makes the same mistake in its forward."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(1, 8, 3), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pictures = x.reshape(len(x), 1, x.shape[2], x.shape[1])
        return self.head(self.conv(pictures).relu().mean((2, 3)))


@failing_example("misread-image-layout", where="conv")
def width_and_height_exchanged() -> dict[str, Any]:
    """Gray pictures of 24 × 32, reshaped to 32 × 24."""
    return setup(photographs()[:, :24].mean(3), ReshapesInside())


def alarms(**setup: Any) -> list[str]:
    report = nbdebug.diagnose(**setup, checks=["misread-image-layout"], progress=False)
    assert report.result("misread-image-layout").status == "clean", report.result("misread-image-layout")
    return [str(f) for f in report.alarms]


def test_pictures_as_they_should_be_are_healthy() -> None:
    assert not alarms(**setup(photographs().permute(0, 3, 1, 2)))
    assert not alarms(**setup(photographs()[:, :24].permute(0, 3, 1, 2)))
    assert not alarms(**setup(photographs().permute(0, 3, 2, 1)))
    assert not alarms(**setup(digit_images()[0]))
    for level in (0.5, 1.0, 2.0):
        assert not alarms(**setup((photographs() + level * noise(photographs())).permute(0, 3, 1, 2)))
    stripes = (torch.arange(36) % 3 == 0).float().expand(64, 3, 36, 36)
    assert not alarms(**setup(stripes + 0.5 * torch.randn(stripes.shape, generator=seeded(2))))


def test_noise_and_bands_are_healthy() -> None:
    assert not alarms(**setup(torch.randn(100, 3, 16, 16, generator=seeded())))
    assert not alarms(**setup(torch.randn(100, 16, 16, 3, generator=seeded())))
    steady = torch.randn(100, 1, 40, 1, generator=seeded()) + 0.3 * torch.randn(100, 1, 40, 64, generator=seeded(1))
    assert not alarms(**setup(steady))
    slow = torch.randn(100, 1, 40, 64, generator=seeded()).cumsum(3) / 8
    assert not alarms(**setup(slow))


class PermutesInside(nn.Module):
    """Takes channels last, as files have them, and moves them."""

    def __init__(self) -> None:
        super().__init__()
        self.body = model()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x.permute(0, 3, 1, 2))


def test_a_model_that_permutes_is_healthy() -> None:
    assert not alarms(**setup(photographs(), PermutesInside()))
