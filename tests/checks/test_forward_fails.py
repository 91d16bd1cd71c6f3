"""Failing examples that do not run: shapes, types, labels, changes in place, graphs that are kept."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import digit_images, digit_rows
from tests.zoo.tabular import digits


def conv_net(features: int = 128) -> nn.Sequential:
    """A small network whose last layer expects so many features; 128 are right."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(features, 10)
    )


def images(**change: Any) -> DataLoader[Any]:
    """Return the digits as images, with inputs or labels changed."""
    x, y = digit_images()
    return DataLoader(TensorDataset(change.get("x", lambda v: v)(x), change.get("y", lambda v: v)(y)), 64)


@failing_example("forward-fails", where="4")
def linear_after_flatten() -> dict[str, Any]:
    """The last layer expects the features of a larger image."""
    return {"model": conv_net(512), "loader": images(), "loss_fn": nn.CrossEntropyLoss()}


@failing_example("forward-fails", where="0")
def channels_last() -> dict[str, Any]:
    """Images as other libraries have them."""
    loader = images(x=lambda v: v.expand(-1, 3, 8, 8).permute(0, 2, 3, 1))
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(288, 10))
    return {"model": model, "loader": loader, "loss_fn": nn.CrossEntropyLoss()}


@failing_example("forward-fails", where="0")
def double_inputs() -> dict[str, Any]:
    """Arrays of NumPy are in double precision."""
    return {"model": conv_net(), "loader": images(x=lambda v: v.double()), "loss_fn": nn.CrossEntropyLoss()}


@failing_example("forward-fails", where="loss_fn")
def labels_from_one() -> dict[str, Any]:
    """The labels count from 1."""
    return {"model": conv_net(), "loader": images(y=lambda v: v + 1), "loss_fn": nn.CrossEntropyLoss()}


@failing_example("forward-fails", where="loss_fn")
def labels_as_column() -> dict[str, Any]:
    """The labels have a dimension too many."""
    return {"model": conv_net(), "loader": images(y=lambda v: v[:, None]), "loss_fn": nn.CrossEntropyLoss()}


@failing_example("forward-fails", where="loss_fn")
def labels_as_floats() -> dict[str, Any]:
    """The labels are real numbers."""
    return {"model": conv_net(), "loader": images(y=lambda v: v.float()), "loss_fn": nn.CrossEntropyLoss()}


class WrongView(nn.Module):
    """A view that fits the number of values, but not the samples."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 32), nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Make two rows of each sample."""
        return self.last(self.first(x).relu().view(-1, 16))


@failing_example("forward-fails", where="last")
def samples_multiplied() -> dict[str, Any]:
    """The loss complains, and the view is at fault."""
    return {"model": WrongView(), "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


class InPlace(nn.Module):
    """Adds in place to what the sigmoid needs for its gradient."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Spoil it."""
        y = torch.sigmoid(x)
        y += 1  # fixed: y = y + 1
        return y


@failing_example("forward-fails", where="1")
def changed_in_place() -> dict[str, Any]:
    """The backward pass finds a value that is not what it was."""
    model = nn.Sequential(nn.Linear(64, 32), InPlace(), nn.Linear(32, 10))
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


class KeepsState(nn.Module):
    """A recurrent network that keeps its state from one batch to the next, with its graph."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head, self.state = nn.GRUCell(64, 16), nn.Linear(16, 10), None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Go on from where the last batch ended."""
        self.state = self.cell(x, self.state)
        return self.head(self.state)


@failing_example("forward-fails", where="model")
def graph_kept_between_batches() -> dict[str, Any]:
    """The second batch fails, not the first."""
    return {"model": KeepsState(), "loader": images(x=lambda v: v.flatten(1)), "loss_fn": nn.CrossEntropyLoss()}


@failing_example("forward-fails", where="loss_fn")
def loss_without_mean() -> dict[str, Any]:
    """The loss is a number for each sample."""
    return {"model": conv_net(), "loader": images(), "loss_fn": nn.CrossEntropyLoss(reduction="none")}


@failing_example("forward-fails", where="words")
def id_beyond_the_table() -> dict[str, Any]:
    """A token that the embedding does not have."""

    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.head = nn.Embedding(16, 8), nn.Linear(8, 10)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.head(self.words(tokens).mean(1))

    rows, labels = digit_rows()
    tokens = (rows * 16).long()
    return {"model": Bag(), "loader": DataLoader(TensorDataset(tokens, labels), 64), "loss_fn": nn.CrossEntropyLoss()}


def forgets_to_return(model: Any, batch: Any, loss_fn: Any) -> None:
    """Compute a loss, and keep it."""
    nn.functional.cross_entropy(model(batch[0]), batch[1])


@failing_example("forward-fails", where="compute_loss")
def loss_not_returned() -> dict[str, Any]:
    """The function ends without return."""
    return {"model": conv_net(), "loader": images(), "compute_loss": forgets_to_return}


def found(**setup: Any) -> Any:
    """Run the check alone."""
    return nbdebug.diagnose(**setup, checks=["forward-fails"], progress=False).result("forward-fails")


def test_words_are_no_code() -> None:
    """What would fit is offered as code only where it can be written down as such."""
    setup = id_beyond_the_table()
    tokens, labels = next(iter(setup["loader"]))
    negative = found(**{**setup, "loader": [(tokens - 20, labels)]}).findings[0]
    assert "non-negative ids" in negative.remedies[0].says and not negative.remedies[0].code
    assert found(**double_inputs()).findings[0].remedies[0].code == "x.float()"


@pytest.mark.parametrize(
    ("setup", "fit"),
    [
        (linear_after_flatten, "in_features=128"),
        (channels_last, "x.movedim(-1, 1)"),
        (double_inputs, "x.float()"),
        (labels_from_one, "target - 1"),
        (labels_as_column, "target.squeeze(1)"),
        (labels_as_floats, "target.long()"),
        (loss_without_mean, "loss.mean()"),
        (graph_kept_between_batches, "self.state.detach()"),
        (id_beyond_the_table, "num_embeddings=17"),
    ],
)
def test_says_what_would_fit(setup: Any, fit: str) -> None:
    torch.manual_seed(0)
    finding = found(**setup()).findings[0]
    assert fit in finding.says and fit in " ".join(finding.evidence["what would fit"])


def test_in_place_names_the_line() -> None:
    assert "y += 1" in found(**changed_in_place()).findings[0].says


def test_own_step_that_runs_is_believed() -> None:
    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1]).mean()
        loss.backward()
        optimizer.step()
        return loss

    result = found(**loss_without_mean(), train_step=step)
    assert result.status == "skipped" and "compute_loss" in result.reason


def test_no_loss_can_be_inferred() -> None:
    result = found(model=nn.Linear(64, 7), loader=[(torch.rand(8, 64), torch.rand(8, 5))])
    assert result.status == "skipped" and "loss_fn" in result.reason
