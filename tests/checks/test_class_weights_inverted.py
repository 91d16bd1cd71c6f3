"""Failing examples whose class weights follow the counts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

import nbdebug
from tests.examples import failing_example
from tests.programs import program
from tests.zoo.samples import digit_rows, seeded

CHECK = "class-weights-inverted"
COUNTS = (150, 80, 40, 20, 10)


def uneven() -> tuple[torch.Tensor, torch.Tensor]:
    """Return digits of which each next class is about half as frequent."""
    rows, labels = digit_rows()
    chosen = torch.cat([(labels == c).nonzero().flatten()[:count] for c, count in enumerate(COUNTS)])
    chosen = chosen[torch.randperm(len(chosen), generator=seeded(0))]
    return rows[chosen], labels[chosen]


def weighted(shape: str, weight: torch.Tensor) -> dict[str, Any]:
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, len(COUNTS)))
    return program(shape, net, *uneven(), lambda output, y: F.cross_entropy(output, y, weight=weight))


@failing_example(CHECK, where="loss_fn")
def weights_that_are_the_counts() -> dict[str, Any]:
    """The division was forgotten."""
    counts = torch.tensor(COUNTS, dtype=torch.float32)
    return weighted("plain", counts / counts.mean())  # fixed: return weighted("plain", counts.mean() / counts)


@failing_example(CHECK, where="loss_fn")
def frequencies_in_compute_loss() -> dict[str, Any]:
    """Relative frequencies, in a loop that computes its own loss."""
    return weighted("compute_loss", torch.tensor(COUNTS) / sum(COUNTS))


@failing_example(CHECK, where="loss_fn")
def roots_of_counts_by_hand() -> dict[str, Any]:
    """Square roots of the counts, multiplied with the log-likelihood of each sample."""
    weight = torch.tensor(COUNTS, dtype=torch.float32).sqrt()
    net = nn.Sequential(nn.Linear(64, 24), nn.Tanh(), nn.Linear(24, len(COUNTS)), nn.LogSoftmax(1))
    return program("plain", net, *uneven(), lambda output, y: -(weight[y] * output.gather(1, y[:, None])[:, 0]).mean())


HEALTHY = {
    "inverse counts": 40 / torch.tensor(COUNTS, dtype=torch.float32),
    "effective numbers": (1 - 0.99) / (1 - 0.99 ** torch.tensor(COUNTS, dtype=torch.float32)),
    "no weights": torch.ones(5),
    "costs of the task": torch.tensor([1.0, 4.0, 1.0, 4.0, 2.0]),
}


@pytest.mark.parametrize("name", HEALTHY)
@pytest.mark.parametrize("shape", ["plain", "compute_loss"])
def test_other_weights_are_healthy(name: str, shape: str) -> None:
    """Weights that fall with the counts, or have nothing to do with them."""
    torch.manual_seed(0)
    report = nbdebug.diagnose(**weighted(shape, HEALTHY[name]), progress=False, checks=[CHECK])
    assert not report.findings, [str(f) for f in report.findings]


def drawn_with(power: float) -> dict[str, Any]:
    """Samples drawn by their class's count to this power."""
    rows, labels = uneven()
    weights = torch.bincount(labels).float()[labels] ** power
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, len(COUNTS)))
    sampler = WeightedRandomSampler(weights, len(labels))
    loader = DataLoader(TensorDataset(rows, labels), 32, sampler=sampler)
    return {"model": net, "loader": loader, "loss_fn": nn.CrossEntropyLoss()}


@failing_example(CHECK, where="loader")
def sampler_by_the_counts() -> dict[str, Any]:
    """Frequent classes are drawn still more often."""
    return drawn_with(1.0)  # fixed: return drawn_with(-1.0)


@pytest.mark.parametrize("power", [0.0, -1.0, -2.0])
def test_a_sampler_that_makes_up_for_the_counts_is_fine(power: float) -> None:
    """Also one that does more than that."""
    report = nbdebug.diagnose(**drawn_with(power), checks=[CHECK], progress=False)
    assert report.alarms == []
