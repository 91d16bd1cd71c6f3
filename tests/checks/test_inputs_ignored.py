"""Failing examples that do not look at all that they are given."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import cancer, digit_images, digit_rows


class TwoInputs(nn.Module):
    """Takes two inputs and forgets the second."""

    def __init__(self, forgets: bool = True) -> None:
        super().__init__()
        self.left, self.right, self.head = nn.Linear(15, 16), nn.Linear(15, 16), nn.Linear(32, 1)
        self.forgets = forgets

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        """Join both, or so it was meant."""
        return self.head(torch.cat([self.left(first), self.right(first if self.forgets else second)], 1))


def two_parts() -> DataLoader[Any]:
    """Return the columns of the tumours in two halves."""
    rows, labels = cancer()
    return DataLoader(TensorDataset(rows[:, :15], rows[:, 15:], labels), 32)


@failing_example("inputs-ignored", where="batch[1]")
def second_input_forgotten() -> dict[str, Any]:
    """A name that was copied and not changed."""
    return {"model": TwoInputs(), "loader": two_parts(), "loss_fn": nn.BCEWithLogitsLoss()}


class Shortened(nn.Module):
    """A slice that is one too short."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(29, 16), nn.ReLU(), nn.Linear(16, 1))
        # fixed: self.layers = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Lose the last column."""
        return self.layers(x[:, :-1])  # fixed: return self.layers(x)


@failing_example("inputs-ignored", where="batch[0]")
def last_column_cut_off() -> dict[str, Any]:
    """One of thirty columns is never read."""
    rows, labels = cancer()
    return {
        "model": Shortened(),
        "loader": DataLoader(TensorDataset(rows, labels), 32),
        "loss_fn": nn.BCEWithLogitsLoss(),
    }


class FirstState(nn.Module):
    """Answers from the first state of a recurrent network."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent, self.head = nn.GRU(8, 16, batch_first=True), nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Take the state that has seen one step only."""
        return self.head(self.recurrent(x)[0][:, 0])


@failing_example("inputs-ignored", where="batch[0]")
def first_state_only() -> dict[str, Any]:
    """Seven of eight steps have no influence."""
    rows, labels = digit_rows()
    loader = DataLoader(TensorDataset(rows.view(-1, 8, 8), labels), 64, shuffle=True)
    return {"model": FirstState(), "loader": loader, "loss_fn": nn.CrossEntropyLoss()}


def result(**setup: Any) -> Any:
    """Run the check alone."""
    return nbdebug.diagnose(**setup, checks=["inputs-ignored"], progress=False).result("inputs-ignored")


def test_names_the_column() -> None:
    finding = result(**last_column_cut_off()).findings[0]
    assert finding.evidence["indices"] == [29] and "1 of 30 columns" in finding.says


def test_both_inputs_used() -> None:
    found = result(model=TwoInputs(False), loader=two_parts(), loss_fn=nn.BCEWithLogitsLoss())
    assert found.status == "clean"


def test_borders_that_pooling_drops_are_fine() -> None:
    x, y = digit_images()
    x = nn.functional.pad(x, (0, 1, 0, 1)) + torch.rand(len(x), 1, 9, 9)
    model = nn.Sequential(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 10))
    loader = DataLoader(TensorDataset(x, y), 64)
    assert result(model=model, loader=loader, loss_fn=nn.CrossEntropyLoss()).status == "clean"


def test_a_gate_that_begins_at_zero_is_fine() -> None:
    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right = nn.Linear(15, 1), nn.Linear(15, 1)
            nn.init.zeros_(self.right.weight)

        def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
            return self.left(first) + self.right(second)

    assert result(model=Gated(), loader=two_parts(), loss_fn=nn.BCEWithLogitsLoss()).status == "clean"


def test_unused_keys_of_a_dictionary_are_no_alarm() -> None:
    class TakesAll(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(30, 1)

        def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
            return self.layer(batch["rows"])

    rows, labels = cancer()
    batches = [
        {"rows": rows[i : i + 32], "number": torch.arange(i, i + 32), "labels": labels[i : i + 32]}
        for i in range(0, 320, 32)
    ]
    found = result(model=TakesAll(), loader=batches, loss_fn=nn.BCEWithLogitsLoss())
    assert not [f for f in found.findings if f.is_alarm]


class Reader(nn.Module):
    """Takes a mask, and sums up its words or reads them one after the other."""

    def __init__(self, reads_on: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(30, 16, padding_idx=0)
        self.memory = nn.GRU(16, 16, batch_first=True) if reads_on else None
        self.head = nn.Linear(16, 2)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        """Leave the mask unread."""
        words = self.words(input_ids)
        hidden = self.memory(words)[0][:, -1] if self.memory is not None else words.sum(1)
        scores: torch.Tensor = self.head(hidden)
        return scores


def masked_texts(reads_on: bool) -> dict[str, Any]:
    """Return padded texts with their masks."""
    torch.manual_seed(0)
    ids = torch.randint(1, 30, (256, 20))
    ids[torch.arange(20) >= torch.randint(4, 20, (256, 1))] = 0
    labels = (ids > 15).sum(1).gt((ids > 0).sum(1) / 2).long()
    loader = DataLoader(TensorDataset(ids, (ids > 0).long(), labels), 32, shuffle=True)

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        loss: torch.Tensor = nn.functional.cross_entropy(model(batch[0], batch[1]), batch[2])
        return loss

    return {"model": Reader(reads_on), "loader": loader, "compute_loss": compute_loss}


@pytest.mark.parametrize("reads_on", [False, True])
def test_an_unread_mask_counts_where_padding_does(reads_on: bool) -> None:
    """A sum over embeddings that are zero for padding needs no mask; a network that reads on to the end does."""
    report = nbdebug.diagnose(**masked_texts(reads_on), checks=["inputs-ignored"], progress=False)
    found = [(f.severity, f.where) for f in report.findings]
    assert found == [("suspect" if reads_on else "note", "batch[1]")]
