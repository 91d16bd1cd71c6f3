"""Failing examples with many layers that do the work of one."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits


def setup(model: nn.Module, **more: Any) -> dict[str, Any]:
    """Look at digits."""
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss(), **more}


class Words(nn.Module):
    """A bag of words with too many linear layers behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.one, self.two = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Average and project, twice."""
        return self.two(self.one(self.words(ids).mean(1)))


class Convolved(nn.Module):
    """Convolutions, a normalization and a softmax at the end, and not one activation."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.norm, self.two = nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.Conv2d(8, 8, 3)
        self.last = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Forget the activations."""
        x = self.two(self.norm(self.one(x.unflatten(1, (1, 8, 8)))))
        return self.last(x.flatten(1)).log_softmax(1)


@failing_example("missing-nonlinearity", where="0")
def three_linear_layers() -> dict[str, Any]:
    """Linear, dropout, linear, linear."""
    return setup(nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.1), nn.Linear(64, 32), nn.Linear(32, 10)))
    # fixed: return setup(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)))


@failing_example("missing-nonlinearity", where="one")
def convolutions_without_activation() -> dict[str, Any]:
    """Found behind a log-softmax as well."""
    return setup(Convolved(), loss_fn=nn.NLLLoss())


@failing_example("missing-nonlinearity", where="one")
def words_without_activation() -> dict[str, Any]:
    """Token ids cannot be mixed; what the embedding gives can."""
    ids = torch.randint(0, 50, (256, 12))
    return setup(Words(), loader=DataLoader(TensorDataset(ids, ids[:, 0] % 4), 32))


class Gated(nn.Module):
    """A residual branch that starts switched off."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer, self.last = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10)
        self.gate = nn.Parameter(torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Affine at the start, and not for long."""
        return self.last(x + self.gate * self.outer(self.inner(x).relu()))


def alarms(model: nn.Module) -> list[nbdebug.Finding]:
    """Run the check alone."""
    report = nbdebug.diagnose(**setup(model), checks=["missing-nonlinearity"], progress=False)
    assert report.results[0].status != "crashed", report.results[0]
    return report.alarms


def test_what_bends_is_silent() -> None:
    """Rectifiers that never close on the data, branches that start at zero, a trained slope."""
    open_wide = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    nn.init.constant_(open_wide[0].bias, 10.0)
    sloped = nn.Sequential(nn.Linear(64, 32), nn.PReLU(init=1.0), nn.Linear(32, 10))
    for model in (open_wide, Gated(), sloped):
        assert not alarms(model)


def test_linear_models_on_purpose() -> None:
    """Logistic regression, a sum of two linear parts, and a low-rank map."""

    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(64, 10), nn.Linear(64, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.one(x) + self.two(x.flip(1))

    for model in (nn.Linear(64, 10), Sum(), nn.Sequential(nn.Linear(64, 4, bias=False), nn.Linear(4, 10))):
        assert not alarms(model)


class OwnLoss(nn.Module):
    """A layer with weights that returns a loss, as a conditional random field does."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(10))

    def forward(self, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return one number."""
        return nn.functional.cross_entropy(scores @ self.weight, labels)


def test_a_layer_that_returns_a_loss_has_no_units() -> None:
    """It is left out, and nothing crashes."""
    model = nn.ModuleDict({"body": nn.Linear(64, 10), "loss": OwnLoss()})

    def compute_loss(model: nn.ModuleDict, batch: Any, loss_fn: Any) -> torch.Tensor:
        total: torch.Tensor = model["loss"](model["body"](batch[0]), batch[1])
        return total

    made: dict[str, Any] = {"model": model, "loader": digits(), "compute_loss": compute_loss}
    checks = ["missing-nonlinearity", "vanishing-gradients", "activations-off-scale"]
    report = nbdebug.diagnose(**made, checks=checks, progress=False)
    assert not report.alarms and not [result for result in report.results if result.status == "crashed"]
