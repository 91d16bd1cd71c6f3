"""Healthy set-ups on images: convolutions, segmentation, patches, augmentation."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

from tests.examples import healthy
from tests.zoo.samples import digit_images, seeded, setup, split


def convolutional(norm: type[nn.Module] | Any = nn.BatchNorm2d, act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """A small convolutional network for digits."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), norm(16), act(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), norm(32), act(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip


@healthy(epochs=5, accuracy=0.9)
def batchnorm_convolutions() -> dict[str, Any]:
    """Convolutions with batch normalization, trained with momentum under a cosine."""
    model, data = convolutional(), split(*digit_images(), batch_size=32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5 * len(data[0]))
    names = [str(digit) for digit in range(10)]
    return setup(model, data, nn.CrossEntropyLoss(), optimizer=optimizer, scheduler=scheduler, class_names=names)


@healthy(epochs=5, accuracy=0.85)
def group_norm_convolutions() -> dict[str, Any]:
    """Group normalization and SiLU, with one learning-rate cycle."""
    model, data = convolutional(lambda width: nn.GroupNorm(4, width), nn.SiLU), split(*digit_images(), batch_size=32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=5 * len(data[0]))
    return setup(model, data, nn.CrossEntropyLoss(), optimizer=optimizer, scheduler=scheduler)


class FromBytes(nn.Module):
    """A network that takes pixels from 0 to 255 and divides them itself."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Bring the pixels between 0 and 1."""
        return self.body(pixels / 255)


@healthy(epochs=5, accuracy=0.9)
def divides_by_255_inside() -> dict[str, Any]:
    """Raw pixels are what this model wants."""
    pixels, labels = digit_images()
    return setup(FromBytes(), split(pixels * 255, labels), nn.CrossEntropyLoss())


class Jittered(Dataset[Any]):
    """Images that are shifted and made noisy anew every time they are read."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Shift by at most one pixel, and add a little noise."""
        shift = int(torch.randint(-1, 2, ()))
        image = torch.roll(self.images[index], shift, -1) + 0.05 * torch.randn(1, 8, 8)
        return image, self.labels[index]


@healthy(epochs=4, accuracy=0.85)
def augmented_images() -> dict[str, Any]:
    """The same index gives another image each time, of the same digit."""
    train, val = split(*digit_images())
    data = DataLoader(Jittered(*train.dataset.tensors), 32, shuffle=True)
    return setup(convolutional(), (data, val), nn.CrossEntropyLoss(), lr=5e-3)


class SmallUnet(nn.Module):
    """Down, up, and a short cut between."""

    def __init__(self, classes: int = 2) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.deep = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.head = nn.Conv2d(16, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Score every pixel."""
        fine = self.down(x)
        return self.head(torch.cat([fine, self.up(self.deep(fine)).relu()], 1))


def blobs(count: int = 240, size: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    """Return noisy images with one bright disc each, and masks of it whose border pixels are to be ignored."""
    centers, radius = size * torch.rand(count, 2, generator=seeded(9)), 3 + 3 * torch.rand(count, generator=seeded(10))
    grid = torch.stack(torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij"))
    distance = (grid[None] - centers[:, :, None, None]).norm(dim=1) - radius[:, None, None]
    masks = (distance < 0).long()
    images = masks[:, None] + 0.7 * torch.randn(count, 1, size, size, generator=seeded(11))
    return images.float(), masks.masked_fill(distance.abs() < 0.5, 255)


@healthy(epochs=6, accuracy=0.9)
def segmentation_with_ignored_pixels() -> dict[str, Any]:
    """A mask in which 255 means: do not ask."""
    return setup(SmallUnet(), split(*blobs(), batch_size=16), nn.CrossEntropyLoss(ignore_index=255), lr=5e-3)


class SmallVit(nn.Module):
    """Patches of 2 × 2 pixels, a class token, and attention with normalization first."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, width, 2, stride=2)
        self.token, self.places = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(0.02 * torch.randn(1, 17, width))
        layer = nn.TransformerEncoderLayer(
            width, 4, 64, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify from the class token."""
        patches = self.patches(x).flatten(2).transpose(1, 2)
        hidden = torch.cat([self.token.expand(len(x), -1, -1), patches], 1) + self.places
        return self.head(self.norm(self.body(hidden)[:, 0]))


@healthy(epochs=6, accuracy=0.8)
def vision_transformer() -> dict[str, Any]:
    """A class token that begins at zero."""
    images, labels = digit_images()
    return setup(SmallVit(), split((images - 0.3) / 0.38, labels, batch_size=32), nn.CrossEntropyLoss())


class Checkpointed(nn.Module):
    """Convolutions whose middle is computed twice to save memory."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 16, 3, padding=1)
        self.middle = nn.Sequential(nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Linear(16 * 16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Checkpoint the middle."""
        return self.head(checkpoint(self.middle, self.stem(x), use_reentrant=False).flatten(1))


@healthy(epochs=4, accuracy=0.85)
def gradient_checkpointing() -> dict[str, Any]:
    """Hooks fire twice here."""
    return setup(Checkpointed(), split(*digit_images()), nn.CrossEntropyLoss())


def normed(layer: nn.Module) -> nn.Module:
    """Bound a layer's largest singular value."""
    return nn.utils.parametrizations.spectral_norm(layer)


@healthy(epochs=6, accuracy=0.85)
def spectral_norm_convolutions() -> dict[str, Any]:
    """Layers whose weights are computed from other weights."""
    model = nn.Sequential(
        normed(nn.Conv2d(1, 16, 3, padding=1)), nn.LeakyReLU(0.2), nn.MaxPool2d(2), nn.Flatten(),
        nn.utils.parametrizations.weight_norm(nn.Linear(256, 64)), nn.LeakyReLU(0.2), nn.Linear(64, 10),
    )  # fmt: skip
    return setup(model, split(*digit_images()), nn.CrossEntropyLoss())
