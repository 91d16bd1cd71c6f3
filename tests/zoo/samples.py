"""The data that healthy set-ups train on: small, real where it can be, and split in the same way every time."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine, make_friedman1
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

Loaders = tuple[DataLoader[Any], DataLoader[Any]]


def seeded(seed: int = 0) -> torch.Generator:
    """Return a generator of its own, so that the data are the same whatever the model was seeded with."""
    return torch.Generator().manual_seed(seed)


def split(*columns: torch.Tensor, batch_size: int = 64, share: float = 0.2) -> Loaders:
    """Return a shuffled training loader and a validation loader, split at random but always in the same way."""
    order = torch.randperm(len(columns[0]), generator=seeded())
    held = int(len(order) * share)
    train, val = (TensorDataset(*(column[part] for column in columns)) for part in (order[held:], order[:held]))
    return DataLoader(train, batch_size, shuffle=True), DataLoader(val, 256)


def setup(model: nn.Module, data: Loaders, loss_fn: Any = None, lr: float = 3e-3, **more: Any) -> dict[str, Any]:
    """Put a set-up together, with Adam unless another optimizer is given."""
    train, val = data
    optimizer = more.pop("optimizer", None) or torch.optim.Adam(model.parameters(), lr=lr)
    return {"model": model, "loader": train, "val_loader": val, "loss_fn": loss_fn, "optimizer": optimizer, **more}


def scaled(rows: np.ndarray) -> torch.Tensor:
    """Return every column mean 0 and spread 1."""
    return torch.tensor((rows - rows.mean(0)) / rows.std(0), dtype=torch.float32)


@functools.cache
def digit_rows() -> tuple[torch.Tensor, torch.Tensor]:
    """Return 1,797 digits as rows of 64 pixels between 0 and 1, and their labels."""
    pixels, labels = load_digits(return_X_y=True)
    return torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(labels)


def digit_images() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the digits as images of 1 × 8 × 8."""
    rows, labels = digit_rows()
    return rows.view(-1, 1, 8, 8), labels


@functools.cache
def cancer() -> tuple[torch.Tensor, torch.Tensor]:
    """Return 569 tumours with 30 scaled columns, and 0 or 1 as a column."""
    rows, labels = load_breast_cancer(return_X_y=True)
    return scaled(rows), torch.tensor(labels, dtype=torch.float32)[:, None]


@functools.cache
def raw_cancer() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the tumours as they were measured: columns between 0.001 and 4,000."""
    rows, labels = load_breast_cancer(return_X_y=True)
    return torch.tensor(rows, dtype=torch.float32), torch.tensor(labels, dtype=torch.float32)[:, None]


@functools.cache
def wine(raw: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Return 178 wines of three growers, scaled or as they were measured."""
    rows, labels = load_wine(return_X_y=True)
    return torch.tensor(rows, dtype=torch.float32) if raw else scaled(rows), torch.tensor(labels)


@functools.cache
def iris() -> tuple[torch.Tensor, torch.Tensor]:
    """Return 150 flowers of three kinds."""
    rows, labels = load_iris(return_X_y=True)
    return scaled(rows), torch.tensor(labels)


@functools.cache
def diabetes() -> tuple[torch.Tensor, torch.Tensor]:
    """Return 442 failing examples with ten scaled columns and a scaled measure of the illness as a column."""
    rows, progress = load_diabetes(return_X_y=True)
    return scaled(rows), scaled(progress[:, None])


@functools.cache
def friedman(noise: float = 0.5, count: int = 800) -> tuple[torch.Tensor, torch.Tensor]:
    """Return Friedman's regression problem: ten columns, five of which matter, and a scaled target as a column."""
    rows, target = make_friedman1(count, noise=noise, random_state=0)
    return scaled(rows), scaled(target[:, None])


@functools.cache
def chain_tokens(count: int = 400, length: int = 16, vocabulary: int = 12) -> torch.Tensor:
    """Return sequences in which each token has one likely successor; 0 is kept for padding."""
    generator = seeded(1)
    successor = torch.randperm(vocabulary - 1, generator=generator) + 1
    tokens = torch.randint(1, vocabulary, (count, length), generator=generator)
    for step in range(1, length):
        follows = torch.rand(count, generator=generator) < 0.85
        tokens[:, step] = torch.where(follows, successor[tokens[:, step - 1] - 1], tokens[:, step])
    return tokens


@functools.cache
def topic_tokens(count: int = 600, length: int = 20) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return padded sequences of 5 to 20 words whose three topics use words differently: tokens, lengths, topics."""
    generator = seeded(2)
    words = torch.softmax(2 * torch.randn(3, 39, generator=generator), 1)
    topics = torch.randint(0, 3, (count,), generator=generator)
    tokens = torch.multinomial(words[topics], length, replacement=True, generator=generator) + 1
    lengths = torch.randint(5, length + 1, (count,), generator=generator)
    return tokens * (torch.arange(length) < lengths[:, None]), lengths, topics
