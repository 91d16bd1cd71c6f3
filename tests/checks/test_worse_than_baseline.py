"""Models that guessing beats."""

from __future__ import annotations

from typing import Any

import torch
from sklearn.datasets import load_diabetes
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests import loops
from tests.examples import failing_example
from tests.zoo.tabular import digits


@failing_example("worse-than-baseline", where="model")
def dead_network() -> dict[str, Any]:
    """Every unit is off, so every answer is the same."""
    model = loops.mlp()
    with torch.no_grad():
        model[0].bias.fill_(-1e4)  # type: ignore[union-attr,operator]
        # fixed: nn.init.zeros_(model[0].bias)
        model[2].bias.fill_(-1e4)  # type: ignore[union-attr,operator]
        # fixed: nn.init.zeros_(model[2].bias)
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


@failing_example("worse-than-baseline", where="model")
def targets_out_of_reach() -> dict[str, Any]:
    """The output is squeezed below one, and the targets are in the hundreds."""
    rows, targets = load_diabetes(return_X_y=True, scaled=True)
    data = TensorDataset(
        torch.tensor(rows * 20, dtype=torch.float32), torch.tensor(targets, dtype=torch.float32)[:, None]
    )
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1), nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    return {
        "model": model,
        "loader": DataLoader(data, 64, shuffle=True),
        "loss_fn": nn.MSELoss(),
        "optimizer": optimizer,
    }


def test_a_learning_model_is_clean_or_too_early() -> None:
    """A model that is on its way is not compared before it has settled."""
    for rate in (1e-5, 1e-3, 1e-2):
        report = nbdebug.diagnose(**loops.setup(None, rate), checks=["worse-than-baseline"], progress=False)
        assert not report.findings
