"""A fifth round: data that are read otherwise than they were meant. Each has its sound twin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from tests.unseen import unseen
from tests.unseen.fifth_parts import Made, SetNet, SignalNet, clouds, loaders, made, plants, tower, waves
from tests.zoo.samples import digit_images


class Recycled(Dataset[Any]):
    """Fill one buffer for every sample, to save memory."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor, copy: bool) -> None:
        self.x, self.y, self.copy = x.numpy(), y, copy
        self.buffer = np.zeros(self.x.shape[1:], np.float32)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        self.buffer[:] = self.x[index]
        return torch.from_numpy(self.buffer.copy() if self.copy else self.buffer), self.y[index]


def stacked(samples: list[Any]) -> Any:
    """Put samples together after all of them were read."""
    return torch.stack([x for x, _ in samples]), torch.stack([y for _, y in samples])


def both(x: torch.Tensor, y: torch.Tensor, later: torch.Tensor, cut: int) -> tuple[DataLoader[Any], DataLoader[Any]]:
    """Return loaders of the first samples, and of the others with these inputs."""
    return DataLoader(TensorDataset(x[:cut], y[:cut]), 32, shuffle=True), DataLoader(TensorDataset(later, y[cut:]), 32)


def small_convolutions() -> nn.Sequential:
    """Return a network for pictures of 8 × 8."""
    body = (nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 24, 3), nn.ReLU())
    return nn.Sequential(*body, nn.Flatten(), nn.Linear(384, 10))


@unseen("preprocessing-mutates-data", "duplicate-samples", "constant-inputs", "repeated-batches")
def one_buffer_for_all(is_faulty: bool = True) -> Made:
    """A view of the buffer for each sample: a batch holds the last one many times."""
    x, y = waves()
    train = DataLoader(Recycled(x[:960], y[:960], not is_faulty), 32, shuffle=True, collate_fn=stacked)
    val = DataLoader(Recycled(x[960:], y[960:], not is_faulty), 32, collate_fn=stacked)
    model = SignalNet()
    return made(model, (train, val), nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), 3e-3))


@unseen("split-treated-differently", "split-shift", where=("val_loader",))
def map_by_first_appearance(is_faulty: bool = True) -> Made:
    """Class numbers by first appearance, in each split anew."""
    x, y = waves()
    names = {0: 2, 1: 0, 2: 3, 3: 1} if is_faulty else {n: n for n in range(4)}
    val = torch.tensor([names[int(kind)] for kind in y[960:]])
    train = DataLoader(TensorDataset(x[:960], y[:960]), 32, shuffle=True)
    model = SignalNet()
    data = (train, DataLoader(TensorDataset(x[960:], val), 32))
    return made(model, data, nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), 3e-3))


@unseen("split-treated-differently", "split-shift", where=("val_loader",))
def target_scaled_twice(is_faulty: bool = True) -> Made:
    """The target is standardized for training only, by a mean of 3 and a deviation of 4."""
    x, y = plants()
    model = tower()
    train = DataLoader(TensorDataset(x[:800], y[:800]), 32, shuffle=True)
    val = DataLoader(TensorDataset(x[800:], 3 + 4 * y[800:] if is_faulty else y[800:]), 32)
    return made(model, (train, val), nn.MSELoss(), torch.optim.Adam(model.parameters(), 3e-3))


@unseen("split-treated-differently", "split-shift", where=("val_loader",))
def each_picture_normalized_in_validation(is_faulty: bool = True) -> Made:
    """Training pixels between 0 and 1; in validation they are inverted, as another library reads them."""
    x, y = digit_images()
    model = small_convolutions()
    later = 1 - x[1400:] if is_faulty else x[1400:]
    data = both(x, y, later, 1400)
    return made(model, data, nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), 2e-3))


@unseen("split-treated-differently", "split-shift", where=("val_loader",))
def validation_shifted(is_faulty: bool = True) -> Made:
    """Another crop: validation pictures lie three pixels further left."""
    x, y = digit_images()
    model = small_convolutions()
    later = torch.roll(x[1400:], 3, 3) if is_faulty else x[1400:]
    data = both(x, y, later, 1400)
    return made(model, data, nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), 2e-3))


@unseen("split-treated-differently", "split-shift", "nondeterministic-eval", where=("val_loader",))
def columns_in_another_order(is_faulty: bool = True) -> Made:
    """The validation table has its columns sorted by name."""
    x, y = plants()
    model = tower()
    later = x[800:, [3, 0, 2, 6, 1, 4, 7, 5]] if is_faulty else x[800:]
    data = both(x, y, later, 800)
    return made(model, data, nn.MSELoss(), torch.optim.Adam(model.parameters(), 3e-3))


@unseen("class-ignored-by-loss", "class-weights-inverted")
def ring_is_ignored(is_faulty: bool = True) -> Made:
    """`ignore_index=0` from a segmentation recipe, and 0 is a class here."""
    model = SetNet()
    loss = nn.CrossEntropyLoss(ignore_index=0 if is_faulty else -100)
    return made(model, loaders(*clouds()), loss, torch.optim.Adam(model.parameters(), 2e-3))


@unseen("class-ignored-by-loss", "class-weights-inverted", where=("loss_fn",))
def weighed_away(is_faulty: bool = True) -> Made:
    """A weight of one in ten thousand for a class, by a division that went the wrong way."""
    model = SetNet()
    weight = torch.tensor([1.0, 1e-4, 1.0]) if is_faulty else None
    return made(model, loaders(*clouds()), nn.CrossEntropyLoss(weight), torch.optim.Adam(model.parameters(), 2e-3))


class Log(IterableDataset[Any]):
    """A stream of readings, which each worker reads from the start."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor, split: bool) -> None:
        self.x, self.y, self.split = x, y, split

    def __iter__(self) -> Iterator[Any]:
        worker = torch.utils.data.get_worker_info()
        begin, step = (worker.id, worker.num_workers) if worker is not None and self.split else (0, 1)
        yield from zip(self.x[begin::step], self.y[begin::step], strict=True)


@unseen("stream-not-split", "duplicate-samples", "repeated-batches")
def stream_read_by_each(is_faulty: bool = True) -> Made:
    """Two workers, and both read everything."""
    x, y = plants()
    model = tower()
    train = DataLoader(Log(x[:800], y[:800], not is_faulty), 32, num_workers=2)
    data = (train, DataLoader(TensorDataset(x[800:], y[800:]), 32))
    return made(model, data, nn.MSELoss(), torch.optim.Adam(model.parameters(), 3e-3))
