"""Failing examples whose validation set holds training samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset, SubsetRandomSampler, TensorDataset

import nbdebug
from tests.examples import failing_example

PIXELS, DIGITS = load_digits(return_X_y=True)
IMAGES = torch.tensor(PIXELS, dtype=torch.float32).view(-1, 1, 8, 8) / 16
LABELS = torch.tensor(DIGITS)
ORDER = torch.randperm(len(LABELS), generator=torch.Generator().manual_seed(0))


class Digits(Dataset[Any]):
    """Digits with a transform of their own, as people write them."""

    def __init__(self, transform: Any = None) -> None:
        self.images, self.labels, self.transform = IMAGES, LABELS, transform

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        image = self.images[index]
        return (self.transform(image) if self.transform else image), self.labels[index]


def rolled(image: torch.Tensor) -> torch.Tensor:
    """Shift by up to one pixel and add a little noise."""
    shift = int(torch.randint(-1, 2, ()))
    return torch.roll(image, shift, -1) + 0.05 * torch.randn_like(image)


def network() -> nn.Module:
    """A classifier of digits."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def loaders(train: Any, val: Any, model: nn.Module | None = None) -> dict[str, Any]:
    """Put a set-up together."""
    return {
        "model": model or network(),
        "loader": DataLoader(train, 64, shuffle=True),
        "val_loader": DataLoader(val, 64),
        "loss_fn": nn.CrossEntropyLoss(),
    }


def rows(index: torch.Tensor) -> TensorDataset:
    """Return these digits."""
    return TensorDataset(IMAGES[index], LABELS[index])


@failing_example("split-leakage", where="val_loader")
def overlapping_slices() -> dict[str, Any]:
    """The two slices overlap by 100 digits."""
    return loaders(rows(ORDER[:1400]), rows(ORDER[1300:]))
    # fixed: return loaders(rows(ORDER[:1400]), rows(ORDER[1400:]))


@failing_example("split-leakage", where="val_loader")
def split_again_under_augmentation() -> dict[str, Any]:
    """Two data sets with different transforms, each split with its own shuffle."""
    again = torch.randperm(len(LABELS), generator=torch.Generator().manual_seed(1))
    return loaders(Subset(Digits(rolled), ORDER[:1400].tolist()), Subset(Digits(), again[1400:].tolist()))


@failing_example("split-leakage", where="val_loader")
def oversampled_before_the_split() -> dict[str, Any]:
    """Rows were repeated to balance the classes, and then split."""
    table, answer = load_breast_cancer(return_X_y=True)
    table = (table - table.mean(0)) / table.std(0)
    index = np.random.default_rng(0).permutation(np.repeat(np.arange(len(answer)), 2))
    data = TensorDataset(torch.tensor(table[index], dtype=torch.float32), torch.tensor(answer[index]))
    model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 2))
    return loaders(Subset(data, range(900)), TensorDataset(*data[900:]), model)


@failing_example("split-leakage", where="test_loader")
def near_copies() -> dict[str, Any]:
    """The test set consists of training images with a little noise."""
    noisy = IMAGES[ORDER[:300]] + 0.01 * torch.randn(300, 1, 8, 8)
    setup = loaders(rows(ORDER[:1400]), rows(ORDER[1400:]))
    return setup | {"test_loader": DataLoader(TensorDataset(noisy, LABELS[ORDER[:300]]), 64)}


def status(setup: dict[str, Any]) -> nbdebug.Report:
    """Run this check alone."""
    return nbdebug.diagnose(**setup, checks=["split-leakage"], progress=False)


def test_clean_split_is_silent() -> None:
    assert status(loaders(rows(ORDER[:1400]), rows(ORDER[1400:]))).result("split-leakage").status == "clean"


def test_samplers_on_one_data_set_are_a_split() -> None:
    """Two samplers with disjoint indices share the data set and leak nothing."""
    data, order = Digits(), ORDER.tolist()
    setup = loaders(data, data)
    setup["loader"] = DataLoader(data, 64, sampler=SubsetRandomSampler(order[:1400]))
    setup["val_loader"] = DataLoader(data, 64, sampler=SubsetRandomSampler(order[1400:]))
    assert status(setup).result("split-leakage").status == "clean"
    setup["val_loader"] = DataLoader(data, 64, sampler=SubsetRandomSampler(order[1300:]))
    found = status(setup).findings[0]
    assert found.severity == "bug" and found.evidence["leaked"] == 100


def test_discrete_tables_repeat_honestly() -> None:
    """Six columns with two values each: almost every validation row has a copy, by chance."""
    table = torch.randint(0, 2, (1000, 6), generator=torch.Generator().manual_seed(0)).float()
    answer = (table.sum(1) > 3).long()
    model = nn.Linear(6, 2)
    setup = loaders(TensorDataset(table[:800], answer[:800]), TensorDataset(table[800:], answer[800:]), model)
    assert not status(setup).alarms


def test_augmented_training_data_are_a_clean_split() -> None:
    setup = loaders(Subset(Digits(rolled), ORDER[:1400].tolist()), Subset(Digits(), ORDER[1400:].tolist()))
    assert not status(setup).alarms


def test_names_the_indices() -> None:
    found = status(overlapping_slices()).findings[0]
    assert found.evidence["leaked"] == 100 and all(index < 100 for index in found.evidence["indices"])


class Counted(Dataset[Any]):
    """Sequences that count up from a random start by a random step, with themselves as labels."""

    def __init__(self, count: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        start, step = torch.randint(24, (2, count, 1), generator=generator)
        self.ids = (start + step * torch.arange(16)) % 24

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.ids[index], "labels": self.ids[index]}


def test_the_ids_of_a_sequence_count_once() -> None:
    """There are 576 such sequences, so that they repeat by chance within the training data, too."""
    model = nn.Sequential(nn.Embedding(24, 8), nn.Linear(8, 24))
    made: dict[str, Any] = {"model": model, "loader": DataLoader(Counted(600, 0), 32)}
    made["val_loader"] = DataLoader(Counted(200, 1), 32)

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        return nn.functional.cross_entropy(model(batch["input_ids"]).flatten(0, 1), batch["labels"].flatten())

    report = nbdebug.diagnose(**made, compute_loss=compute_loss, checks=["split-leakage"], progress=False)
    assert not report.alarms, report.alarms


def test_one_graph_with_a_mask_for_each_split_is_a_split() -> None:
    """Both loaders give the same nodes, uncollated; their masks have none in common."""
    training = torch.rand(len(LABELS), generator=torch.Generator().manual_seed(0)) < 0.5

    def graph(mask: torch.Tensor) -> DataLoader[Any]:
        return DataLoader([{"x": IMAGES, "y": LABELS, "mask": mask}], batch_size=None)  # type: ignore[arg-type]

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        loss: torch.Tensor = loss_fn(model(batch["x"])[batch["mask"]], batch["y"][batch["mask"]])
        return loss

    setup = {
        "model": network(),
        "loader": graph(training),
        "val_loader": graph(~training),
        "compute_loss": compute_loss,
    }
    report = nbdebug.diagnose(**setup, loss_fn=nn.CrossEntropyLoss(), checks=["split-leakage"], progress=False)
    assert report.results[0].status == "skipped" and "one batch" in report.results[0].reason


def test_sequences_of_few_kinds_repeat_honestly() -> None:
    """Each is long, and only one of a few hundred: splits that are drawn apart have most of them in common."""
    drawn = np.random.default_rng(0)

    def counting(count: int) -> TensorDataset:
        start, step, last = (drawn.integers(low, high, count) for low, high in ((0, 16), (1, 4), (0, 12)))
        ids = torch.tensor((start[:, None] + step[:, None] * np.arange(40)) % 97)
        ids[:, -1] = torch.tensor(last)
        return TensorDataset(ids.float(), torch.tensor(step - 1))

    model = nn.Sequential(nn.Linear(40, 16), nn.ReLU(), nn.Linear(16, 3))
    report = nbdebug.diagnose(**loaders(counting(1200), counting(200), model), checks=["split-leakage"], progress=False)
    assert not report.alarms, report.alarms
