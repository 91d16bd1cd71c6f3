"""Batches of every kind that the batch viewer has to recognize."""

from __future__ import annotations

import numpy as np
import torch
from torch.utils.data import Dataset

__all__ = ["Augmented", "faces", "normalized", "waves"]

IMAGENET = (torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225]))


def faces(count: int = 8, channels: int = 3, size: int = 24) -> torch.Tensor:
    """Return smooth pictures of whole 255ths that reach from black to white."""
    yy, xx = torch.meshgrid(torch.linspace(0, 1, size), torch.linspace(0, 1, size), indexing="ij")
    planes = [((i + 1) * xx + (c + 1) * yy) % 1.01 for i in range(count) for c in range(channels)]
    pictures = torch.stack(planes).reshape(count, channels, size, size).clamp(0, 1)
    return (pictures * 255).round() / 255


def normalized(pictures: torch.Tensor) -> torch.Tensor:
    """Normalize as pipelines for ImageNet do."""
    mean, std = (part[:, None, None] for part in IMAGENET)
    return (pictures - mean) / std


def waves(count: int = 8, channels: int = 2, steps: int = 120) -> torch.Tensor:
    """Return smooth curves over time, channels first."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, channels, steps, generator=generator).cumsum(2)


class Augmented(Dataset):
    """Pictures as arrays with a transform of its own that flips at random and normalizes."""

    def __init__(self) -> None:
        self.pictures = (faces(16).permute(0, 2, 3, 1).numpy() * 255).astype(np.uint8)
        self.transform = self._transform

    def _transform(self, picture: np.ndarray) -> torch.Tensor:
        tensor = torch.from_numpy(picture.copy()).permute(2, 0, 1) / 255
        return normalized(tensor.flip(2) if torch.rand(()) < 0.5 else tensor)

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.transform(self.pictures[index]), index % 3
