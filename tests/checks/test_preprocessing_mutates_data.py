"""Failing examples whose data set is edited by being read."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits

CHECK = "preprocessing-mutates-data"


class InPlace(Dataset[Any]):
    """Digits that are scaled in place whenever they are read."""

    def __init__(self) -> None:
        pixels, labels = load_digits(return_X_y=True)
        self.pixels, self.labels = torch.tensor(pixels, dtype=torch.float32), torch.tensor(labels)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        row = self.pixels[index]
        row /= 16
        return row, self.labels[index]


class Buffered(Dataset[Any]):
    """Windows of recordings, cut into one buffer, or into a copy of it."""

    def __init__(self, is_copied: bool) -> None:
        generator = np.random.default_rng(0)
        self.values, self.labels = generator.normal(size=(300, 20)).astype("float32"), generator.integers(0, 2, 300)
        self.buffer, self.is_copied = np.zeros(16, np.float32), is_copied

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        self.buffer[:] = self.values[index, 2:18]
        window = torch.from_numpy(self.buffer)
        return (window.clone() if self.is_copied else window), int(self.labels[index])


@failing_example(CHECK, where="loader")
def one_buffer_for_all_samples() -> dict[str, Any]:
    """Every sample of a batch is the last one."""
    model = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 2))
    return {"model": model, "loader": DataLoader(Buffered(False), 32, shuffle=True), "loss_fn": nn.CrossEntropyLoss()}


def test_a_buffer_that_is_copied_is_clean() -> None:
    model = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 2))
    loader = DataLoader(Buffered(True), 32, shuffle=True)
    report = nbdebug.diagnose(model, loader, nn.CrossEntropyLoss(), checks=[CHECK], progress=False)
    assert report.result(CHECK).status == "clean"


class Rows(Dataset[Any]):
    """A table as a list of NumPy rows that a transform may write into."""

    def __init__(self, transform: Any) -> None:
        table, self.labels = load_breast_cancer(return_X_y=True)
        self.rows = [row.astype(np.float32) for row in (table - table.mean(0)) / table.std(0)]
        self.transform = transform

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        return self.transform(self.rows[index]), int(self.labels[index])


def jittered_in_place(row: np.ndarray) -> np.ndarray:
    """Add noise to the stored row itself: it grows with every epoch."""
    row += 0.1 * np.random.randn(len(row)).astype(np.float32)  # noqa: NPY002
    return row


def jittered(row: np.ndarray) -> np.ndarray:
    """Add noise to a copy."""
    return row + 0.1 * np.random.randn(len(row)).astype(np.float32)  # noqa: NPY002


def divided_by_collate(samples: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Scale what the data set gave, which is a view into it."""
    for row, _ in samples:  # fixed:
        row.div_(16)  # fixed:
    return torch.stack([row for row, _ in samples]), torch.stack([label for _, label in samples])
    # fixed: return torch.stack([row / 16 for row, _ in samples]), torch.stack([label for _, label in samples])


def table_network() -> nn.Module:
    """A classifier of tumours."""
    return nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 2))


@failing_example(CHECK)
def scaled_in_place() -> dict[str, Any]:
    """Each epoch divides by 16 once more."""
    return {"model": nn.Linear(64, 10), "loader": DataLoader(InPlace(), 64, shuffle=True)}


@failing_example(CHECK)
def noise_that_adds_up() -> dict[str, Any]:
    """The augmentation writes into the stored rows."""
    return {"model": table_network(), "loader": DataLoader(Rows(jittered_in_place), 32, shuffle=True)}


@failing_example(CHECK)
def collate_that_writes() -> dict[str, Any]:
    """TensorDataset gives views, and the collate function writes into them."""
    pixels, labels = load_digits(return_X_y=True)
    data = TensorDataset(torch.tensor(pixels, dtype=torch.float32), torch.tensor(labels))
    return {"model": nn.Linear(64, 10), "loader": DataLoader(data, 64, collate_fn=divided_by_collate)}


def report(setup: dict[str, Any]) -> nbdebug.Report:
    """Run this check alone."""
    return nbdebug.diagnose(**setup, checks=[CHECK], progress=False)


def test_is_a_bug_and_leaves_the_data_alone() -> None:
    setup = scaled_in_place()
    before = setup["loader"].dataset.pixels.clone()
    found = report(setup).findings[0]
    assert found.severity == "bug"
    assert torch.equal(setup["loader"].dataset.pixels, before)


def test_plain_data_are_clean() -> None:
    assert report({"model": nn.Linear(64, 10), "loader": digits()}).result(CHECK).status == "clean"


def test_random_augmentation_is_clean() -> None:
    setup = {"model": table_network(), "loader": DataLoader(Rows(jittered), 32, shuffle=True)}
    assert report(setup).result(CHECK).status == "clean"


class OwnGenerator(Rows):
    """A data set that holds its generator, or makes a new one from the system's chance at each reading."""

    def __init__(self, anew: bool) -> None:
        super().__init__(None)
        self.anew, self.generator = anew, np.random.default_rng(0)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        chance = np.random.default_rng() if self.anew else self.generator
        return self.rows[index] + chance.normal(size=30).astype(np.float32), int(self.labels[index])


def test_generators_of_its_own_are_clean() -> None:
    for anew in (False, True):
        setup = {"model": table_network(), "loader": DataLoader(OwnGenerator(anew), 32)}
        assert report(setup).result(CHECK).status == "clean"


class Cached(InPlace):
    """A data set that fills a cache when it is read, which changes what it holds but not what it gives."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = torch.zeros_like(self.pixels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        if not self.cache[index].any():
            self.cache[index] = self.pixels[index] / 16
        return self.cache[index], self.labels[index]


def test_a_cache_is_clean() -> None:
    setup = {"model": nn.Linear(64, 10), "loader": DataLoader(Cached(), 64)}
    assert report(setup).result(CHECK).status == "clean"


def centered(*, in_place: bool, stored: bool) -> dict[str, Any]:
    """A training step that shifts and scales its batch, which the loader keeps or makes anew."""
    pixels, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(labels)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
        rows, wanted = batch
        rows = rows.sub_(0.3).mul_(3) if in_place else (rows - 0.3) * 3
        optimizer.zero_grad()
        loss = loss_fn(model(rows), wanted)
        loss.backward()
        optimizer.step()
        return loss

    kept = list(zip(x.split(64), y.split(64), strict=True))
    loader = kept if stored else DataLoader(TensorDataset(x, y), 64, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    return {
        "model": model, "loader": loader, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, "train_step": step,
    }  # fmt: skip


@failing_example(CHECK, where="train_step")
def batch_changed_by_the_step() -> dict[str, Any]:
    """The batches are stored in a list, and shifted once more in every epoch."""
    return centered(in_place=True, stored=True)  # fixed: return centered(in_place=False, stored=True)


def test_a_batch_that_is_made_anew_may_be_changed() -> None:
    report = nbdebug.diagnose(**centered(in_place=True, stored=False), checks=[CHECK], progress=False)
    assert report.result(CHECK).status == "clean"
