"""Small things the development pairs share."""

from __future__ import annotations

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset


def tensors(*arrays):
    out = []
    for a in arrays:
        a = np.asarray(a)
        out.append(torch.as_tensor(a, dtype=torch.long if a.dtype.kind in "iub" else torch.float32))
    return out


def loaders(train, val, batch_size=64):
    """Two loaders from two tuples of arrays."""
    return (
        DataLoader(TensorDataset(*tensors(*train)), batch_size=batch_size, shuffle=True),
        DataLoader(TensorDataset(*tensors(*val)), batch_size=batch_size),
    )


class DictDataset(Dataset):
    def __init__(self, **columns):
        self.columns = columns

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, i):
        return {k: v[i] for k, v in self.columns.items()}
