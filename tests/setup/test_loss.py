"""Which loss is assumed for which outputs and targets, and why."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from nbdebug.errors import BadInput
from nbdebug.setup.loss import infer_loss

IDS = torch.tensor([0, 1, 2, 0])
SOFT = torch.tensor([[0.2, 0.8, 0.0], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.3, 0.3, 0.4]])
MANY = torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 1.0]])

# name -> outputs, targets, the loss, a part of the reason
KNOWN: dict[str, tuple[Any, torch.Tensor, str, str]] = {
    "classes": (torch.randn(4, 3), IDS, "CrossEntropyLoss", "3 classes"),
    "classes as int32": (torch.randn(4, 3), IDS.int(), "CrossEntropyLoss", "3 classes"),
    "pixels": (torch.randn(2, 5, 4, 4), torch.randint(0, 5, (2, 4, 4)), "CrossEntropyLoss", "5 classes"),
    "tokens": (torch.randn(2, 7, 9), torch.randint(0, 9, (2, 7)), "CrossEntropyLoss", "9 classes"),
    "soft labels": (torch.randn(4, 3), SOFT, "CrossEntropyLoss", "sums to 1"),
    "binary logits": (
        torch.tensor([[-2.0], [1.5], [0.5], [3.0]]),
        torch.tensor([0, 1, 1, 0]),
        "BCEWithLogitsLoss",
        "0 and 1",
    ),
    "binary probabilities": (torch.rand(4, 1), torch.tensor([0.0, 1.0, 1.0, 0.0]), "BCELoss", "between 0 and 1"),
    "many labels": (torch.randn(4, 3) * 4, MANY, "BCEWithLogitsLoss", "0 or 1"),
    "regression": (torch.randn(4, 1), torch.randn(4, 1), "MSELoss", "real numbers"),
    "counts": (torch.randn(4), torch.tensor([3, 9, 2, 5]), "MSELoss", "as many elements"),
    "complex": (torch.randn(4, 2, dtype=torch.complex64), torch.randn(4, 2), "the mean squared error", "complex"),
    "several outputs": ({"logits": torch.randn(4, 3), "hidden": torch.randn(4, 9)}, IDS, "CrossEntropyLoss", "3"),
    "a pair of outputs": ((torch.randn(4, 3), torch.randn(4, 9)), IDS, "CrossEntropyLoss", "3"),
}


@pytest.mark.parametrize("name", KNOWN)
def test_assumed(name: str) -> None:
    output, target, loss, reason = KNOWN[name]
    choice = infer_loss(output, target, has_target=True)
    assert choice.name == loss and choice.assumed
    assert reason in choice.reason and reason in str(choice)
    assert torch.isfinite(choice.function(output, target))


@pytest.mark.parametrize(
    "output", [{"loss": torch.tensor(2.0)}, SimpleNamespace(loss=torch.tensor(2.0)), torch.tensor(2.0)]
)
def test_the_models_own(output: Any) -> None:
    choice = infer_loss(output, None, has_target=False)
    assert not choice.assumed and float(choice.function(output, None)) == 2.0


def test_the_input_is_the_target() -> None:
    values = torch.randn(4, 6)
    assert infer_loss(torch.randn(4, 6), values, has_target=False).name == "MSELoss"


@pytest.mark.parametrize(
    ("output", "target"),
    [
        (torch.randn(4, 3), torch.randn(4, 2)),
        (torch.randn(4, 3), "text"),
        (None, IDS),
        (torch.randn(4, 3), torch.arange(7)),
    ],
)
def test_cannot_be_inferred(output: Any, target: Any) -> None:
    with pytest.raises(BadInput, match="compute_loss"):
        infer_loss(output, target, has_target=True)
