"""Failing examples whose numbers leave the finite ones on the way forward."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits


class LogOfPixels(nn.Module):
    """Takes the logarithm of pixels, many of which are 0."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return -inf for black."""
        return torch.log(x)


class Normalized(nn.Module):
    """Divides by a spread that may be 0."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 32), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Lose the samples whose hidden values are all alike."""
        hidden = self.first(x).relu()
        rare = hidden * (x[:, :1] > 2)
        return self.last(rare / rare.std(1, keepdim=True))


def own_cross_entropy(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross-entropy by hand, without subtracting the maximum."""
    scores = (200 * output).exp()
    return -(scores / scores.sum(1, keepdim=True)).gather(1, target[:, None]).log().mean()


@failing_example("non-finite-forward", where="1")
def logarithm_of_zero() -> dict[str, Any]:
    """The second module makes -inf."""
    model = nn.Sequential(nn.Identity(), LogOfPixels(), nn.Linear(64, 10))
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


@failing_example("non-finite-forward", where="model")
def zero_by_zero() -> dict[str, Any]:
    """The division is in the forward of the whole model."""
    return {"model": Normalized(), "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


@failing_example("non-finite-forward", where="loss_fn")
def overflow_in_the_loss() -> dict[str, Any]:
    """The exponential in the loss is too large for its type."""
    return {"model": nn.Linear(64, 10), "loader": digits(), "loss_fn": own_cross_entropy}


@failing_example("non-finite-forward", where="1.weight")
def weight_never_set() -> dict[str, Any]:
    """A parameter that holds NaN."""
    model = nn.Sequential(nn.Linear(64, 32), nn.Linear(32, 10))
    nn.init.constant_(model[1].weight, float("nan"))  # fixed: nn.init.kaiming_normal_(model[1].weight)
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


class RareBatch(nn.Module):
    """Makes a NaN for one sample of a thousand."""

    def __init__(self) -> None:
        super().__init__()
        self.root, self.head = Root(), nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Take roots."""
        return self.head(self.root(x))


class Root(nn.Module):
    """A square root."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Take it, also of the one negative number."""
        return x.sqrt()


@failing_example("non-finite-forward", where="root")
def one_bad_sample_in_a_later_batch() -> dict[str, Any]:
    """The third batch holds one negative number."""
    rows = torch.rand(400, 4) + 0.1
    rows[100, 2] = -1
    return {
        "model": RareBatch(),
        "loader": DataLoader(TensorDataset(rows, rows.sum(1, keepdim=True)), 40),
        "loss_fn": nn.MSELoss(),
    }


class Masked(nn.Module):
    """Attention behind a mask of minus infinity."""

    def __init__(self, whole_rows: bool) -> None:
        super().__init__()
        self.attention, self.head = Attention(whole_rows), nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attend."""
        return self.head(self.attention(x.view(-1, 8, 8)).mean(1))


class Attention(nn.Module):
    """Plain attention; the mask may cover whole rows."""

    def __init__(self, whole_rows: bool) -> None:
        super().__init__()
        self.register_buffer("mask", torch.full((8, 8), float("-inf")).triu(0 if whole_rows else 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Mask, and weigh."""
        return torch.softmax(x @ x.transpose(1, 2) + self.mask, -1) @ x


@failing_example("non-finite-forward", where="attention")
def row_masked_entirely() -> dict[str, Any]:
    """The softmax of a row of minus infinity is NaN."""
    return {"model": Masked(True), "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


def found(**setup: Any) -> Any:
    """Run the check alone."""
    return nbdebug.diagnose(**setup, checks=["non-finite-forward"], progress=False).result("non-finite-forward")


def test_masks_of_minus_infinity_are_fine() -> None:
    assert found(model=Masked(False), loader=digits(), loss_fn=nn.CrossEntropyLoss()).status == "clean"


def test_names_operation_line_and_values() -> None:
    result = found(**logarithm_of_zero())
    says = result.findings[0].says
    assert "`log` of 0" in says and "test_non_finite_forward.py" in says and "torch.log(x)" in says


def test_overflow_is_blamed_on_the_exponential() -> None:
    torch.manual_seed(0)
    assert "`exp`" in found(**overflow_in_the_loss()).findings[0].says


def test_later_batch_names_value_and_sample() -> None:
    finding = found(**one_bad_sample_in_a_later_batch()).findings[0]
    assert "`sqrt` of -1" in finding.says and finding.evidence["position"] == [20, 2]


def test_nan_inputs_belong_to_the_data() -> None:
    rows, target = torch.rand(64, 4), torch.rand(64, 1)
    rows[3, 1] = float("nan")
    result = found(model=nn.Linear(4, 1), loader=[(rows, target)], loss_fn=nn.MSELoss())
    assert result.status == "skipped" and "non-finite-inputs" in result.reason


def test_nan_that_the_loss_never_sees_is_a_note() -> None:
    def masked_loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return output.detach()[:, 1:].mean() + output[:, 1:].mean()

    class Padded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            said = self.layer(x)
            return torch.cat([torch.full_like(said[:, :1], float("nan")), said], 1)

    result = found(model=Padded(), loader=[(torch.rand(8, 4), torch.rand(8, 1))], loss_fn=masked_loss)
    assert [f.severity for f in result.findings] in ([], ["note"])
