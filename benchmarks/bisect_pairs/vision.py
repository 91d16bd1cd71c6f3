"""Pairs on images: digits as classes, and the pixels of a digit as a mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, default_collate

from benchmarks.bisect_pairs import pair
from tests.zoo.samples import digit_images


def as_is(image: torch.Tensor) -> torch.Tensor:
    """Leave an image as it is."""
    return image


def standardized(image: torch.Tensor) -> torch.Tensor:
    """Bring the pixels near unit scale, as the textbook does."""
    return (image - 0.3) / 0.38


def bytes_again(image: torch.Tensor) -> torch.Tensor:
    """Scale twice, as where a library has done it already and the other way round."""
    return image * 255 * 16


class Digits(Dataset[Any]):
    """Digits with a transform; sorted by label where asked."""

    def __init__(self, transform: Callable[[torch.Tensor], torch.Tensor], *, by_label: bool, shuffled: bool) -> None:
        images, labels = digit_images()
        order = labels.argsort() if by_label else torch.arange(len(labels))
        self.images, self.labels, self.transform = images[order], labels[order], transform
        if shuffled:
            self.labels = self.labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(9))]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.transform(self.images[index]), self.labels[index]


class Net(nn.Module):
    """Two convolutions and a head."""

    def __init__(self, channels: int, dropout: float, last: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(channels, 2 * channels, 3, padding=1), nn.ReLU(), nn.Flatten(),
        )  # fmt: skip
        self.drop = nn.Dropout(dropout)
        self.head = nn.Linear(2 * channels * 16, 10)
        self.last = last

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.head(self.drop(self.body(x))))


def flipped(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the wrong sign."""
    return -functional.cross_entropy(output, target).clamp(max=20)


def images(
    *,
    transform: Any = standardized,
    batch: int = 32,
    lr: float = 0.05,
    decay: float = 0.0,
    seed: int = 0,
    momentum: float = 0.9,
    channels: int = 8,
    dropout: float = 0.0,
    loss: Any = None,
    shuffle: bool = True,
    by_label: bool = False,
    shuffled: bool = False,
    last: Any = None,
    gamma: float = 0.0,
) -> dict[str, Any]:
    """Classify digits with a small network and SGD."""
    torch.manual_seed(seed)
    model = Net(channels, dropout, last or nn.Identity())
    data = Digits(transform, by_label=by_label, shuffled=shuffled)
    optimizer = torch.optim.SGD(model.parameters(), lr, momentum=momentum, weight_decay=decay)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma) if gamma else None
    return {
        "model": model,
        "loader": DataLoader(data, batch, shuffle=shuffle),
        "loss_fn": loss or nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "scheduler": scheduler,
    }


class Masks(Dataset[Any]):
    """Noisy digits, and which pixels are bright."""

    def __init__(self, noise: float) -> None:
        clean, _ = digit_images()
        self.masks = (clean > 0.5).float()
        self.images = clean + noise * torch.randn(clean.shape, generator=torch.Generator().manual_seed(4))

    def __len__(self) -> int:
        return len(self.masks)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.images[index], self.masks[index]


def masks_rolled(samples: list[Any]) -> Any:
    """Put the masks of a batch one place further, as a collate that sorts only one of two lists does."""
    images, masks = default_collate(samples)
    return images, masks.roll(1, 0)


def segmentation(
    *,
    batch: int = 16,
    lr: float = 3e-3,
    decay: float = 0.0,
    seed: int = 0,
    noise: float = 0.15,
    width: int = 8,
    collate: Any = None,
    last: Any = None,
) -> dict[str, Any]:
    """Segment the bright pixels with three convolutions."""
    torch.manual_seed(seed)
    layers = [nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Conv2d(width, 1, 1), last or nn.Identity())
    loader = DataLoader(Masks(noise), batch, shuffle=True, collate_fn=collate)
    optimizer = torch.optim.AdamW(model.parameters(), lr, weight_decay=decay)
    return {"model": model, "loader": loader, "loss_fn": nn.BCEWithLogitsLoss(), "optimizer": optimizer}


HARMLESS = {"batch": 40, "lr": 0.04, "decay": 1e-5, "seed": 3, "momentum": 0.85}
MASKS_HARMLESS = {"batch": 24, "lr": 2.5e-3, "decay": 1e-4, "seed": 3, "noise": 0.16}

pair("image transform", "image", images, "transform", held_out=False, transform=bytes_again, **HARMLESS)
pair("image, labels shuffled, rate", "image", images, "dataset, learning rate", held_out=False, shuffled=True,
     **HARMLESS | {"lr": 1e-7})  # fmt: skip
pair("image, both learn", "image", images, "", held_out=False, channels=10, dropout=0.05, **HARMLESS)
pair("segmentation, last ReLU", "segmentation", segmentation, "architecture", held_out=False, last=nn.ReLU(),
     **MASKS_HARMLESS)  # fmt: skip

pair("image, not shuffled", "image", lambda **v: images(by_label=True, **v), "sampler", held_out=True, shuffle=False,
     **HARMLESS)  # fmt: skip
pair("image, sign of the loss", "image", images, "loss function", held_out=True, loss=flipped, **HARMLESS)
pair("image, schedule to nothing", "image", images, "scheduler", held_out=True, gamma=1e-4, **HARMLESS | {"batch": 300})
pair("image, transform and sign", "image", images, "transform, loss function", held_out=True, transform=bytes_again,
     loss=flipped, **HARMLESS)  # fmt: skip
pair("segmentation, collate", "segmentation", segmentation, "collate", held_out=True, collate=masks_rolled,
     **MASKS_HARMLESS)  # fmt: skip
