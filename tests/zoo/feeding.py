"""Healthy set-ups whose batches come in unusual forms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from tests.examples import healthy
from tests.zoo.samples import digit_rows, friedman, seeded, setup, split, topic_tokens


@dataclass
class Output:
    """What a model of the Hugging Face kind returns."""

    logits: torch.Tensor
    loss: torch.Tensor | None = None


class Encodings(Dataset[Any]):
    """Samples as dictionaries."""

    def __init__(self, first: int, last: int) -> None:
        tokens, _, topics = topic_tokens()
        self.tokens, self.topics = tokens[first:last], topics[first:last]

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        """Return token ids, the mask and the label."""
        ids = self.tokens[index]
        return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": self.topics[index]}


class OwnLoss(nn.Module):
    """A text classifier that computes its loss when it is given labels."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(40, 32, padding_idx=0)
        self.dense, self.classifier = nn.Linear(32, 32), nn.Linear(32, 3)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, labels: torch.Tensor | None = None
    ) -> Output:
        """Average the words that are there, and classify."""
        there = attention_mask[..., None].float()
        pooled = (self.embeddings(input_ids) * there).sum(1) / there.sum(1)
        logits = self.classifier(torch.tanh(self.dense(pooled)))
        return Output(logits, None if labels is None else nn.functional.cross_entropy(logits, labels))


@healthy(epochs=8, accuracy=0.9)
def dictionary_batches_with_own_loss() -> dict[str, Any]:
    """No loss is passed: the model returns its own."""
    data = DataLoader(Encodings(0, 480), 32, shuffle=True), DataLoader(Encodings(480, 600), 64)
    model = OwnLoss()
    return setup(model, data, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-2))


class TwoInputs(nn.Module):
    """Joins the upper and the lower half of a digit."""

    def __init__(self) -> None:
        super().__init__()
        self.upper, self.lower = nn.Linear(32, 32), nn.Linear(32, 32)
        self.head = nn.Linear(64, 10)

    def forward(self, upper: torch.Tensor, lower: torch.Tensor) -> torch.Tensor:
        """Look at both halves."""
        return self.head(torch.cat([self.upper(upper).relu(), self.lower(lower).relu()], 1))


@healthy(epochs=8, accuracy=0.88)
def several_inputs() -> dict[str, Any]:
    """A batch of three parts: two inputs and the label."""
    rows, labels = digit_rows()
    return setup(TwoInputs(), split(rows[:, :32], rows[:, 32:], labels), nn.CrossEntropyLoss())


class Stream(IterableDataset[Any]):
    """Digits in an order that is new on every pass."""

    def __init__(self) -> None:
        self.rows, self.labels = digit_rows()

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Shuffle, and go through."""
        for index in torch.randperm(len(self.rows)).tolist():
            yield self.rows[index], self.labels[index]


@healthy(epochs=4)
def iterable_dataset() -> dict[str, Any]:
    """A stream without a length."""
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    return {
        "model": model, "loader": DataLoader(Stream(), 64), "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }  # fmt: skip


@healthy(epochs=5)
def list_of_batches() -> dict[str, Any]:
    """Batches that were made beforehand."""
    rows, labels = digit_rows()
    order = torch.randperm(len(rows), generator=seeded(1))
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    return {
        "model": model, "loader": [(rows[part], labels[part]) for part in order.split(64)],
        "loss_fn": nn.CrossEntropyLoss(), "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }  # fmt: skip


class Named(Dataset[Any]):
    """Rows under names, with a key that the model does not ask for."""

    def __init__(self) -> None:
        self.rows, self.target = friedman()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return features, target and where the row comes from."""
        return {"features": self.rows[index], "target": self.target[index], "row": index}


class ByName(nn.Module):
    """Asks for its features by name."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 64), nn.GELU(), nn.Linear(64, 1))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Predict."""
        return self.body(features)


@healthy(epochs=10, good=lambda first, last: last < 0.3 * first)
def dictionary_batches() -> dict[str, Any]:
    """A dictionary with a key that is nobody's input."""
    model = ByName()
    return {
        "model": model, "loader": DataLoader(Named(), 32, shuffle=True), "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }  # fmt: skip
