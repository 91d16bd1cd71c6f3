"""Failing examples whose workers draw the same random numbers."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset

import nbdebug
from tests.examples import failing_example

CHECK = "worker-rng-duplicates"


class Noisy(Dataset[Any]):
    """Digits with noise from a generator of the data set's own, or from a global one."""

    def __init__(self, source: str) -> None:
        pixels, labels = load_digits(return_X_y=True)
        self.rows, self.labels, self.source = (pixels / 16).astype(np.float32), labels, source
        self.generator = np.random.default_rng(0) if source == "own" else None

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        if self.source == "own":
            noise = self.generator.normal(size=64)
        elif self.source == "numpy":
            noise = np.random.randn(64)  # noqa: NPY002
        elif self.source == "python":
            noise = np.asarray([random.gauss(0, 1) for _ in range(64)])
        else:
            noise = torch.randn(64).numpy()
        return self.rows[index] + 0.1 * noise.astype(np.float32), int(self.labels[index])


def seeded_alike(worker: int) -> None:
    """Seed every worker with the same number."""
    np.random.seed(0)  # noqa: NPY002


def seeded_by_worker(worker: int) -> None:
    """Seed every worker differently, but every epoch alike."""
    np.random.seed(worker)  # noqa: NPY002


def seeded_right(worker: int) -> None:
    """Seed by what PyTorch gives."""
    np.random.seed(torch.initial_seed() % 2**32)  # noqa: NPY002


def setup(source: str, **options: Any) -> dict[str, Any]:
    """A loader with two workers, unless told otherwise."""
    loader = DataLoader(Noisy(source), 32, shuffle=True, **{"num_workers": 2, **options})
    return {"model": nn.Linear(64, 10), "loader": loader}


@failing_example(CHECK, where="loader")
def generator_held_by_the_data_set() -> dict[str, Any]:
    """Each worker gets a copy of the generator, in the same state."""
    return setup("own")  # fixed: return setup("torch")


@failing_example(CHECK, where="loader")
def seed_fixed_in_worker_init() -> dict[str, Any]:
    """All workers begin with the same seed."""
    return setup("numpy", worker_init_fn=seeded_alike)


@failing_example(CHECK, where="loader")
def epochs_alike() -> dict[str, Any]:
    """Workers differ, but each epoch repeats the one before."""
    return setup("numpy", worker_init_fn=seeded_by_worker)


def report(made: dict[str, Any]) -> nbdebug.Report:
    """Run this check alone."""
    return nbdebug.diagnose(**made, checks=[CHECK], progress=False)


@pytest.mark.parametrize("source", ["numpy", "python", "torch"])
def test_global_generators_are_clean(source: str) -> None:
    """PyTorch seeds them all, for each worker and each epoch."""
    assert report(setup(source)).result(CHECK).status == "clean"


def test_seeding_by_torch_is_clean() -> None:
    assert report(setup("numpy", worker_init_fn=seeded_right)).result(CHECK).status == "clean"


def test_no_workers_is_skipped() -> None:
    assert report(setup("own", num_workers=0)).result(CHECK).status == "skipped"


def test_leaves_no_process() -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    report(setup("own"))
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before
