"""Failing examples that compute something and go on without it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import topic_tokens
from tests.zoo.sequences import digit_sequences

CHECK = "discarded-result"


def digits(model: nn.Module, **more: Any) -> dict[str, Any]:
    rows, labels = digit_sequences()
    return {"model": model, "loader": [(rows[:64], labels[:64])], "loss_fn": nn.CrossEntropyLoss()} | more


class Pooled(nn.Module):
    """Averages the words of a text; `assigned` says whether the padding is really set to zero."""

    def __init__(self, assigned: bool) -> None:
        super().__init__()
        self.words, self.mix, self.head, self.assigned = (
            nn.Embedding(40, 32),
            nn.Linear(32, 32),
            nn.Linear(32, 3),
            assigned,
        )

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        padding, x = (tokens == 0)[..., None], self.mix(self.words(tokens))
        if self.assigned:
            x = x.masked_fill(padding, 0.0)
        else:
            x.masked_fill(padding, 0.0)
        return self.head(x.sum(1) / (~padding).sum(1))


@failing_example(CHECK, where="model")
def masked_fill_not_assigned() -> dict[str, Any]:
    """`masked_fill` without an underscore changes nothing by itself."""
    tokens, _, kinds = topic_tokens()
    model = Pooled(assigned=False)  # fixed: model = Pooled(assigned=True)
    return {"model": model, "loader": [(tokens[:32], kinds[:32])], "loss_fn": nn.CrossEntropyLoss()}


class Blocks(nn.Module):
    """Blocks over the rows of a digit, with one of several residual connections."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.first, self.head, self.how = nn.Linear(8, 32), nn.Linear(32, 10), how
        self.mixes = nn.ModuleList(nn.Linear(32, 32) for _ in range(3))
        self.gates = nn.ModuleList(nn.Linear(32, 32) for _ in range(3))
        self.kept = torch.zeros(())

    def forward(self, x: torch.Tensor) -> Any:
        x, seen = self.first(x), []
        for mix, gate in zip(self.mixes, self.gates, strict=True):
            if self.how == "itself":
                x = mix(x).relu()
                x = x + x
            elif self.how == "lost":
                y = mix(x).relu()
                x + y
                x = y
            elif self.how == "activation":
                h = mix(x)
                F.relu(h)
                x = x + h
            else:
                x = x + mix(x).relu()
            x = x + gate(x).tanh()
            seen.append(x + 1.0)
        if self.how == "returned":
            return self.head(x.mean(1)), seen
        self.kept = seen[-1] if self.how == "kept" else self.kept
        return self.head(x.mean(1))


def first_output(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    return F.cross_entropy(model(batch[0])[0], batch[1])


@failing_example(CHECK, where="model")
def sum_with_itself() -> dict[str, Any]:
    """`x = f(x); x = x + x` instead of `x = x + f(x)`."""
    return digits(Blocks("itself"))


@failing_example(CHECK, where="model")
def residual_sum_thrown_away() -> dict[str, Any]:
    """A sum that is assigned to nothing."""
    return digits(Blocks("lost"))


@failing_example(CHECK, where="model")
def activation_thrown_away() -> dict[str, Any]:
    """`F.relu(h)` as a statement of its own, in a training step."""

    def train_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss

    return digits(Blocks("activation"), train_step=train_step)


class Recurrent(nn.Module):
    """An LSTM, attention with weights that nobody asks for, and a metric that the model keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, 32, batch_first=True), nn.Linear(32, 10)
        self.attention, self.drop, self.norm = nn.MultiheadAttention(32, 4, batch_first=True), nn.Dropout(0.1), 0.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden, _ = self.lstm(x)
        mixed, _ = self.attention(hidden, hidden, hidden)
        self.norm = float((hidden + mixed).norm())
        return self.head(self.drop(hidden + mixed)[:, -1])


HEALTHY = {
    "assigned": lambda: digits(Blocks("plain")),
    "returned": lambda: digits(Blocks("returned"), compute_loss=first_output),
    "kept": lambda: digits(Blocks("kept")),
    "recurrent": lambda: digits(Recurrent()),
    "doubled alone": lambda: digits(nn.Sequential(nn.Flatten(), nn.Linear(64, 10), Doubled())),
}


class Doubled(nn.Module):
    """A scale of two, in a model that adds nothing else."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


@pytest.mark.parametrize("name", HEALTHY)
def test_results_that_are_used_are_fine(name: str) -> None:
    torch.manual_seed(0)
    report = nbdebug.diagnose(**HEALTHY[name](), checks=[CHECK], progress=False)
    assert report.results[0].status == "clean", report.results
