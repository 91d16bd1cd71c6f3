"""The simple models to begin with, one for each kind of data; each class stands alone, so that it can be copied.

Full Stack Deep Learning, lecture 7: a LeNet-like network for images, an LSTM with one hidden layer for sequences, one
hidden layer for everything else; ReLU (tanh inside the LSTM), He initialization, no regularization, inputs normalized.
"""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["ImageStarter", "SeriesStarter", "TableStarter", "TokenStarter"]


class ImageStarter(nn.Module):
    """A LeNet-like network for images of any size (batch, channels, height, width)."""

    def __init__(self, channels: int, outputs: int, mean: float = 0.0, std: float = 1.0) -> None:
        super().__init__()
        self.mean, self.std = mean, std
        self.features = nn.Sequential(
            nn.Conv2d(channels, 16, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 5, padding=2),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, outputs))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return one score for each output."""
        scores: torch.Tensor = self.head(self.features((images.float() - self.mean) / self.std))
        return scores


class TokenStarter(nn.Module):
    """An LSTM with one hidden layer over embedded tokens (batch, time); 0 is taken for padding."""

    def __init__(self, vocabulary: int, outputs: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 64, padding_idx=0)
        self.lstm = nn.LSTM(64, 128, batch_first=True)
        self.head = nn.Linear(128, outputs)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return one score for each output, from the mean over what is no padding."""
        states, _ = self.lstm(self.embedding(tokens))
        real = (tokens != 0).unsqueeze(-1).to(states.dtype)
        scores: torch.Tensor = self.head((states * real).sum(1) / real.sum(1).clamp(min=1))
        return scores


class SeriesStarter(nn.Module):
    """An LSTM with one hidden layer over a series (batch, time, channels)."""

    def __init__(self, channels: int, outputs: int, mean: float = 0.0, std: float = 1.0) -> None:
        super().__init__()
        self.mean, self.std = mean, std
        self.lstm = nn.LSTM(channels, 128, batch_first=True)
        self.head = nn.Linear(128, outputs)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        """Return one score for each output, from the mean over time."""
        states, _ = self.lstm((series.float() - self.mean) / self.std)
        scores: torch.Tensor = self.head(states.mean(1))
        return scores


class TableStarter(nn.Module):
    """One hidden layer over rows of numbers, each column normalized (batch, columns)."""

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, mean: torch.Tensor, std: torch.Tensor, outputs: int) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.layers = nn.Sequential(nn.Linear(len(mean), 128), nn.ReLU(), nn.Linear(128, outputs))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return one score for each output."""
        scores: torch.Tensor = self.layers((rows.float().flatten(1) - self.mean) / self.std)
        return scores
