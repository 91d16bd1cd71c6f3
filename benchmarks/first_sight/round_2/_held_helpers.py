"""What the held-out pairs share: a few lines of data plumbing."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset


def to_tensor(a):
    a = np.asarray(a)
    return torch.tensor(a, dtype=torch.int64 if np.issubdtype(a.dtype, np.integer) else torch.float32)


def batches(*columns, size=64, train=True):
    return DataLoader(TensorDataset(*map(to_tensor, columns)), batch_size=size, shuffle=train)


class Records(Dataset):
    """Samples as dictionaries."""

    def __init__(self, **fields):
        self.fields = {k: to_tensor(v) for k, v in fields.items()}
        self.length = len(next(iter(self.fields.values())))

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        return {k: v[i] for k, v in self.fields.items()}


def digit_tables(flat=True):
    """Training and validation digits, roughly standardised."""
    d = load_digits()
    x = ((d.images - 4.9) / 6.0).astype("float32")
    x = x.reshape(len(x), -1) if flat else x[:, None]
    return train_test_split(x, d.target, test_size=0.25, random_state=7, stratify=d.target)


def mlp(*sizes, act=nn.ReLU):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), act()]
    return nn.Sequential(*layers[:-1])
