"""Transformers that add rows of a table to their tokens: one for each position, or the same one for all."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from tests.checks.position_programs import Program, program
from tests.checks.structure_programs import chains


class Tabled(nn.Module):
    """A text classifier with a table, and a way to read it."""

    def __init__(self, read: Callable[[nn.Module, torch.Tensor], torch.Tensor], causal_first: bool = False) -> None:
        super().__init__()
        self.words, self.head, self.read = nn.Embedding(30, 32), nn.Linear(32, 2), read
        self.register_buffer("waves", torch.randn(1, 40, 32))
        self.rows = nn.Parameter(0.1 * torch.randn(40, 32))
        self.embedding, self.few = nn.Embedding(40, 32), nn.Embedding(2, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.body, self.layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), 3

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Score two classes."""
        x = self.words(tokens)
        return self.head(self.body(x + self.read(self, x)).mean(1))


def classifier(read: Callable[[nn.Module, torch.Tensor], torch.Tensor]) -> Program:
    """Return a classifier of texts by the order of two of their tokens."""
    tokens = chains()
    return program(Tabled(read), tokens, (tokens[:, 1] > tokens[:, 0]).long(), loss_fn=nn.CrossEntropyLoss())


def depths(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Return the sum of rows that number layers."""
    return model.waves[:, : x.shape[1]] + sum((model.rows[i] for i in range(model.layers)), torch.zeros(32))


ROW_EACH: dict[str, Callable[[], Program]] = {
    "slice": lambda: classifier(lambda m, x: m.waves[:, : x.shape[1]]),
    "learned": lambda: classifier(lambda m, x: m.rows[: x.shape[1]]),
    "embedding": lambda: classifier(lambda m, x: m.embedding(torch.arange(x.shape[1]))),
    "depths": lambda: classifier(depths),
    "kind-of-text": lambda: classifier(lambda m, x: m.waves[:, : x.shape[1]] + m.rows[12]),
    "kind-alone": lambda: classifier(lambda m, x: m.rows[3]),
    "kinds": lambda: classifier(lambda m, x: m.waves[:, : x.shape[1]] + m.few(torch.zeros(x.shape[1]).long())),
    "first-and-others": lambda: classifier(lambda m, x: torch.cat([m.rows[:1] - 1, m.rows[1 : x.shape[1]]])),
}
ROW_FOR_ALL: dict[str, Callable[[], Program]] = {
    "no-slice": lambda: classifier(lambda m, x: m.waves[:, x.shape[1], :]),
    "short": lambda: classifier(lambda m, x: m.waves[:, x.shape[1]]),
    "learned": lambda: classifier(lambda m, x: m.rows[x.shape[1]]),
    "embedding": lambda: classifier(lambda m, x: m.embedding(torch.tensor(x.shape[1]))),
    "embedding-of-a-list": lambda: classifier(lambda m, x: m.embedding(torch.tensor([x.size(1)]))),
    "zeros": lambda: classifier(lambda m, x: m.embedding(torch.zeros(x.shape[:2]).long())),
    "first": lambda: classifier(lambda m, x: m.rows[None, :1]),
    "kept-dim": lambda: classifier(lambda m, x: m.rows[x.size(1)].view(1, 1, -1)),
}
