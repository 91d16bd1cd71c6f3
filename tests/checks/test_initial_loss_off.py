"""Failing examples that begin confidently wrong, or too well."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import cancer, digit_rows, seeded, split

CHECK = "initial-loss-off"


def net(inputs: int = 64, outputs: int = 10, gain: float = 1.0) -> nn.Sequential:
    """Return a small network whose last layer is scaled."""
    model = nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs))
    with torch.no_grad():
        model[2].weight.mul_(gain)
    return model


class Peeks(nn.Module):
    """A model that gets the answer among its inputs and passes it on."""

    def __init__(self) -> None:
        super().__init__()
        self.body = net(74, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add what it should not have."""
        return self.body(x) + 5 * x[:, 64:]


@failing_example(CHECK, where="2")
def loud_head() -> dict[str, Any]:
    """The last layer starts a hundred times too large."""
    return {"model": net(gain=100), "loader": split(*digit_rows())[0], "loss_fn": nn.CrossEntropyLoss()}
    # fixed: return {"model": net(), "loader": split(*digit_rows())[0], "loss_fn": nn.CrossEntropyLoss()}


@failing_example(CHECK, where="2")
def loud_number() -> dict[str, Any]:
    """Outputs in the thousands for targets around 1."""
    rows = torch.randn(512, 8, generator=seeded())
    return {
        "model": net(8, 1, gain=5000),
        "loader": split(rows, rows[:, :1])[0],
        "loss_fn": nn.SmoothL1Loss(),
    }


@failing_example(CHECK, where="2")
def loud_odds_by_hand() -> dict[str, Any]:
    """A binary loss that the user's function computes, as a sum."""
    return {
        "model": net(30, 1, gain=300),
        "loader": split(*cancer())[0],
        "loss_fn": nn.BCEWithLogitsLoss(reduction="sum"),
        "compute_loss": lambda model, batch, loss_fn: loss_fn(model(batch[0]), batch[1]),
    }


@failing_example(CHECK, where="model")
def answer_among_inputs() -> dict[str, Any]:
    """Even with fresh weights the loss is near zero."""
    rows, digit = digit_rows()
    told = torch.cat([rows, nn.functional.one_hot(digit, 10).float()], 1)
    return {"model": Peeks(), "loader": split(told, digit)[0], "loss_fn": nn.CrossEntropyLoss()}


def status(model: nn.Module, loader: Any, loss: Any) -> str:
    """Diagnose with this check only."""
    return nbdebug.diagnose(model, loader, loss, checks=[CHECK], progress=False).result(CHECK).status


def test_a_trained_model_may_know() -> None:
    """A low loss that fresh weights do not have is what training is for."""
    model, loader = net(), split(*digit_rows())[0]
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(10):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert status(model, loader, nn.CrossEntropyLoss()) == "clean"


def test_large_targets_are_another_matter() -> None:
    """A start at zero is no worse than a guess."""
    rows = torch.randn(512, 8, generator=seeded())
    assert status(net(8, 1), split(rows, 1000 + rows[:, :1])[0], nn.MSELoss()) == "clean"


def test_weighted_and_summed_losses() -> None:
    """Weights and sums change the guess as they change the loss."""
    loader = split(*digit_rows())[0]
    for loss in (
        nn.CrossEntropyLoss(weight=torch.logspace(-2, 1, 10)),
        nn.CrossEntropyLoss(reduction="sum", label_smoothing=0.2),
    ):
        assert status(net(), loader, loss) == "clean"


def test_a_margin_has_no_chance_level() -> None:
    """A margin lowers the score of the true class, so that an untrained model is far above ln C, as it should be."""
    model = net(outputs=16)
    centers = nn.Parameter(torch.randn(10, 16))

    def angular(rows: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        cosine = F.linear(F.normalize(rows), F.normalize(centers))
        return F.cross_entropy(16 * (cosine - 0.5 * F.one_hot(labels, 10)), labels)

    optimizer = torch.optim.Adam([*model.parameters(), centers], lr=1e-3)
    loader = DataLoader(TensorDataset(*digit_rows()), 64)
    report = nbdebug.diagnose(model, loader, angular, optimizer, progress=False, checks=[CHECK])
    result = report.result(CHECK)
    assert result.status == "skipped" and "margins" in result.reason, result
