"""Failing examples with one loud term."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import digit_rows, split

CHECK = "loss-terms-unbalanced"
cross_entropy, mse = nn.functional.cross_entropy, nn.functional.mse_loss


class TwoTasks(nn.Module):
    """A class and a number from one body."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 32), nn.ReLU())
        self.digit, self.ink = nn.Linear(32, 10), nn.Linear(32, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return both answers."""
        hidden = self.body(x)
        return self.digit(hidden), self.ink(hidden)


def tasks(factor: float) -> Any:
    """Return a function of a batch to both terms, the number in units that make it large."""

    def parts(model: nn.Module, batch: Any, _: Any) -> dict[str, torch.Tensor]:
        digit, ink = model(batch[0])
        number = batch[0].mean(1, keepdim=True) * factor
        return {"digit": cross_entropy(digit, batch[1]), "ink": mse(ink * factor, number)}

    return parts


def setup(factor: float, weight: float = 1.0) -> dict[str, Any]:
    """Return a model, and the total that its terms add up to."""
    parts = tasks(factor)

    def compute(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        named = parts(model, batch, loss_fn)
        return named["digit"] + weight * named["ink"]

    return {
        "model": TwoTasks(),
        "loader": split(*digit_rows())[0],
        "compute_loss": compute,
        "loss_parts": parts,
    }


@failing_example(CHECK, where="ink")
def number_in_small_units() -> dict[str, Any]:
    """One target is measured in units that make its squared error enormous."""
    return setup(3000.0)


@failing_example(CHECK, where="ink")
def terms_returned_by_the_loss() -> dict[str, Any]:
    """The loss returns its terms in a dictionary, and no total."""
    return {
        "model": TwoTasks(),
        "loader": split(*digit_rows())[0],
        "compute_loss": tasks(3000.0),  # fixed: "compute_loss": tasks(1.0),
    }


def findings(**arguments: Any) -> list[Any]:
    """Diagnose with this check only."""
    return nbdebug.diagnose(**arguments, checks=[CHECK], progress=False).findings


def test_terms_of_one_size() -> None:
    """Both tasks have a say."""
    assert not findings(**setup(3.0))


def test_weights_in_the_sum_count() -> None:
    """A loud term that enters with a small weight is fine."""
    assert not findings(**setup(3000.0, weight=1e-6))


def test_nothing_to_say_without_terms() -> None:
    """A loss of one term has no balance."""
    model = nn.Linear(64, 10)
    report = nbdebug.diagnose(model, split(*digit_rows())[0], nn.CrossEntropyLoss(), checks=[CHECK], progress=False)
    assert report.result(CHECK).status == "skipped"
