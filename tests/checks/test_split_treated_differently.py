"""Failing examples whose validation data look like the training data and are prepared otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits, make_friedman1
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.examples import failing_example

CHECK = "split-treated-differently"


def images() -> tuple[torch.Tensor, torch.Tensor]:
    """Digits around 0, and their labels, in random order."""
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    return torch.tensor(pixels[order], dtype=torch.float32).view(-1, 1, 8, 8) / 8 - 1, torch.tensor(labels[order])


def trained_on(x: torch.Tensor, y: torch.Tensor, val: Any, model: nn.Module, loss: nn.Module) -> dict[str, Any]:
    """Put a set-up together."""
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, y), 32, shuffle=True),
        "val_loader": DataLoader(TensorDataset(*val), 64),
        "loss_fn": loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


def convolutions() -> nn.Module:
    """A small network for digits."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))


@failing_example(CHECK, where="val_loader")
def one_map_of_names_per_split() -> dict[str, Any]:
    """Each split numbers its classes in the order in which they occur."""
    x, y = images()
    names = {int(name): number for number, name in enumerate(dict.fromkeys(y[1400:].tolist()))}
    renamed = torch.tensor([names[int(name)] for name in y[1400:]])  # fixed: renamed = y[1400:]
    return trained_on(x[:1400], y[:1400], (x[1400:], renamed), convolutions(), nn.CrossEntropyLoss())


@failing_example(CHECK, where="val_loader")
def images_read_by_columns() -> dict[str, Any]:
    """The validation images were stored by columns."""
    x, y = images()
    return trained_on(x[:1400], y[:1400], (x[1400:].transpose(2, 3), y[1400:]), convolutions(), nn.CrossEntropyLoss())


@failing_example(CHECK, where="val_loader")
def targets_with_the_sign_of_another_file() -> dict[str, Any]:
    """The validation file counts losses where the training file counts gains: mean and scale agree."""
    x, y = make_friedman1(1200, 10, noise=0.3, random_state=0)
    rows, wanted = torch.tensor((x - 0.5) / 0.29).float(), torch.tensor((y - y.mean()) / y.std()).float()[:, None]
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 1))
    return trained_on(rows[:900], wanted[:900], (rows[900:], -wanted[900:]), model, nn.MSELoss())


def alarms(setup: dict[str, Any]) -> list[str]:
    """Return the places of the alarms of this check."""
    report = nbdebug.diagnose(**setup, checks=[CHECK], progress=False, effort="thorough")
    return [finding.where for finding in report.findings if finding.is_alarm]


def test_labels_that_are_hard_to_predict_are_no_other_names() -> None:
    """Wrong labels of half of the validation samples are noise; no names bring the skill back."""
    x, y = images()
    noisy = torch.where(torch.arange(397) % 2 == 0, y[1400:], torch.randint(0, 10, (397,)))
    assert alarms(trained_on(x[:1400], y[:1400], (x[1400:], noisy), convolutions(), nn.CrossEntropyLoss())) == []


def test_a_model_that_does_not_learn_says_nothing_about_splits() -> None:
    x, y = images()
    shuffled = y[torch.randperm(len(y), generator=torch.Generator().manual_seed(1))]
    setup = trained_on(x[:1400], shuffled[:1400], (x[1400:], y[1400:]), convolutions(), nn.CrossEntropyLoss())
    assert alarms(setup) == []


def test_overfitting_is_no_other_treatment() -> None:
    """Few samples, and validation samples of another kind: worse, and not to be brought back."""
    x, y = images()
    noise = x[1400:] + 2.0 * torch.randn(397, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    assert alarms(trained_on(x[:300], y[:300], (noise, y[1400:]), convolutions(), nn.CrossEntropyLoss())) == []


@failing_example(CHECK, where="val_loader")
def columns_sorted_by_name() -> dict[str, Any]:
    """The columns of the validation table stand in another order, and look alike."""
    x, y = (torch.tensor(part, dtype=torch.float32) for part in make_friedman1(1000, noise=0.1, random_state=0))
    x, y = (x - 0.5) * 3.4, ((y - y.mean()) / y.std())[:, None]
    order = [9, 3, 0, 2, 4, 1, 5, 6, 7, 8]  # fixed: order = list(range(10))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 1))
    return trained_on(x[:700], y[:700], (x[700:][:, order], y[700:]), model, nn.MSELoss())


def cities(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Names of cities in an order of their own, an area, and a price that depends on both."""
    random = np.random.default_rng(seed)
    effect = np.random.default_rng(9).normal(0, 1.5, 12)
    city, area = random.integers(0, 12, n), random.normal(0, 1, n)
    return city, area, effect[city] + 0.7 * area + 0.2 * random.standard_normal(n)


class Prices(nn.Module):
    """A table of cities beside a number."""

    def __init__(self) -> None:
        super().__init__()
        self.city = nn.Embedding(12, 8)
        self.head = nn.Sequential(nn.Linear(9, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, city: torch.Tensor, area: torch.Tensor) -> torch.Tensor:
        return self.head(torch.cat([self.city(city), area[:, None]], 1)).squeeze(1)


@failing_example(CHECK, where="val_loader")
def cities_numbered_anew() -> dict[str, Any]:
    """The validation table numbers its cities in the order in which they occur."""
    train, val = cities(1200, 0), cities(300, 1)
    order = list(dict.fromkeys(val[0].tolist()))
    codes = np.array([order.index(c) for c in val[0]])  # fixed: codes = val[0]

    def rows(city: np.ndarray, area: np.ndarray, price: np.ndarray) -> TensorDataset:
        return TensorDataset(torch.tensor(city), torch.tensor(area).float(), torch.tensor(price).float())

    torch.manual_seed(0)
    model = Prices()
    return {
        "model": model,
        "loader": DataLoader(rows(*train), 50, shuffle=True),
        "val_loader": DataLoader(rows(codes, *val[1:]), 100),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=5e-3),
        "compute_loss": lambda model, batch, loss_fn: loss_fn(model(batch[0], batch[1]), batch[2]),
    }


def test_codes_of_two_columns_are_renumbered_together() -> None:
    """Neither column alone brings the skill back; and a column of ids in another table's place fails no run."""
    random = np.random.default_rng(0)
    tables = [random.integers(0, (9, 4), (n, 2)) for n in (1500, 400)]
    effects = random.permutation(np.linspace(-2, 2, 9)), np.array([-1.5, 1.5, 0.4, -0.4])
    wanted = [torch.tensor((effects[0][t[:, 0]] + effects[1][t[:, 1]] > 0).astype(int)) for t in tables]
    other = np.stack(
        [np.array([4, 7, 0, 8, 1, 3, 6, 2, 5])[tables[1][:, 0]], np.array([2, 3, 1, 0])[tables[1][:, 1]]], 1
    )
    torch.manual_seed(0)

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tables = nn.ModuleList([nn.Embedding(9, 6), nn.Embedding(4, 6)])
            self.head = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 2))

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.head(torch.cat([table(rows[:, i].long()) for i, table in enumerate(self.tables)], 1))

    train, val = torch.tensor(tables[0]).float(), torch.tensor(other).float()
    assert alarms(trained_on(train, wanted[0], (val, wanted[1]), Two(), nn.CrossEntropyLoss())) == ["val_loader"]
    sound = torch.tensor(tables[1]).float()
    assert alarms(trained_on(train, wanted[0], (sound, wanted[1]), Two(), nn.CrossEntropyLoss())) == []
