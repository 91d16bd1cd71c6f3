"""Failing examples whose augmentation leaves nothing of the sample."""

from __future__ import annotations

from typing import Any

import torch
from sklearn.datasets import load_breast_cancer, load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset

import nbdebug
from tests.examples import failing_example

CHECK = "destructive-augmentation"
PIXELS, DIGITS = load_digits(return_X_y=True)
IMAGES = torch.tensor(PIXELS, dtype=torch.float32).view(-1, 1, 8, 8) / 16
TABLE, ANSWERS = load_breast_cancer(return_X_y=True)
ROWS = torch.tensor((TABLE - TABLE.mean(0)) / TABLE.std(0), dtype=torch.float32)


class Augmented(Dataset[Any]):
    """Samples with a random transform."""

    def __init__(self, inputs: torch.Tensor, labels: Any, transform: Any) -> None:
        self.inputs, self.labels, self.transform = inputs, torch.as_tensor(labels), transform

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.transform(self.inputs[index]), self.labels[index]


def on_images(transform: Any) -> dict[str, Any]:
    """Digits under this transform."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    return {"model": model, "loader": DataLoader(Augmented(IMAGES, DIGITS, transform), 64, shuffle=True)}


def shredded(image: torch.Tensor) -> torch.Tensor:
    """Put every pixel somewhere else."""
    return image.flatten()[torch.randperm(64)].view(1, 8, 8)


@failing_example(CHECK, where="loader")
def shuffled_pixels() -> dict[str, Any]:
    """Every pixel ends somewhere else; the validation images are clean."""
    setup, order = on_images(shredded), torch.randperm(1797)
    clean = Augmented(IMAGES[order[1200:]], DIGITS[order[1200:].numpy()], lambda image: image)
    data = Augmented(IMAGES[order[:1200]], DIGITS[order[:1200].numpy()], shredded)
    return setup | {"loader": DataLoader(data, 64, shuffle=True), "val_loader": DataLoader(clean, 64)}


@failing_example(CHECK, where="loader")
def noise_on_a_table() -> dict[str, Any]:
    """Noise a hundred times as large as the columns."""
    data = Augmented(ROWS, ANSWERS, lambda row: row + 100 * torch.randn_like(row))
    # fixed: data = Augmented(ROWS, ANSWERS, lambda row: row + 0.1 * torch.randn_like(row))
    model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 2))
    return {"model": model, "loader": DataLoader(data, 32, shuffle=True)}


@failing_example(CHECK, where="loader")
def erased() -> dict[str, Any]:
    """Random erasing that takes the whole image and leaves noise."""
    return on_images(lambda image: torch.randn_like(image))


def status(setup: dict[str, Any]) -> str:
    """Run this check alone."""
    return nbdebug.diagnose(**setup, checks=[CHECK], progress=False).result(CHECK).status


def flipped_and_cropped(image: torch.Tensor) -> torch.Tensor:
    """Flip and shift by up to two pixels, with noise and another brightness: strong but honest."""
    image = image.flip(-1) if float(torch.rand(())) < 0.5 else image
    shifts = (int(torch.randint(-2, 3, ())), int(torch.randint(-2, 3, ())))
    return torch.roll(image, shifts, (-2, -1)) * (0.6 + 0.8 * torch.rand(())) + 0.1 * torch.randn_like(image)


def test_honest_augmentation_is_clean() -> None:
    assert status(on_images(flipped_and_cropped)) == "clean"
    assert status(on_images(lambda image: torch.rot90(image, int(torch.randint(0, 4, ())), (-2, -1)))) == "clean"
    assert status(on_images(lambda image: image * (torch.rand_like(image) > 0.5))) == "clean"


def test_noise_as_large_as_the_signal_is_clean() -> None:
    data = Augmented(ROWS, ANSWERS, lambda row: row + torch.randn_like(row))
    assert status({"model": nn.Linear(30, 2), "loader": DataLoader(data, 32, shuffle=True)}) == "clean"


def test_shuffling_the_points_of_a_set_is_clean() -> None:
    """Clouds of points whose order means nothing."""
    chance = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 3, (600,), generator=chance)
    clouds = torch.randn(600, 20, 2, generator=chance) * (1 + labels[:, None, None])
    train = Augmented(clouds[:450], labels[:450], lambda cloud: cloud[torch.randperm(20)])
    val = Augmented(clouds[450:], labels[450:], lambda cloud: cloud)
    model = nn.Sequential(nn.Flatten(), nn.Linear(40, 3))
    assert status({"model": model, "loader": DataLoader(train, 32), "val_loader": DataLoader(val, 32)}) == "clean"


def test_no_augmentation_is_skipped() -> None:
    assert status(on_images(lambda image: image)) == "skipped"


class MadeAnew(Dataset[Any]):
    """Every reading makes a new sample with its target, as simulators do."""

    def __len__(self) -> int:
        return 500

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        row = torch.randn(5)
        return row, row.sum()[None]


def test_simulated_samples_are_skipped() -> None:
    assert status({"model": nn.Linear(5, 1), "loader": DataLoader(MadeAnew(), 32)}) == "skipped"
