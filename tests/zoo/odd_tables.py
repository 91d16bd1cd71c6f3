"""Healthy set-ups of those who work with tables: steps of a scale, and columns as tokens."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import default_collate

from tests.examples import healthy
from tests.zoo.odd_texts import loaded
from tests.zoo.samples import friedman, seeded, setup, split


class Coral(nn.Module):
    """One score, and a threshold for each step of a scale."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1, bias=False))
        self.steps = nn.Parameter(torch.tensor([1.0, 0.0, -1.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a logit for each step."""
        return self.body(x) + self.steps


def coral_loss(logits: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
    """Each step is a question of its own."""
    return F.binary_cross_entropy_with_logits(logits, (level[:, None] > torch.arange(3)).float())


@healthy(epochs=25, good=lambda first, last: last < 0.4 * first)
def steps_of_a_scale() -> dict[str, Any]:
    """Four levels, three logits: one fewer than classes."""
    x, y = friedman()
    level = torch.bucketize(y[:, 0], torch.quantile(y[:, 0], torch.tensor([0.25, 0.5, 0.75])))
    return setup(Coral(), split(x, level), coral_loss, lr=5e-3)


class ColumnTokens(nn.Module):
    """Each column is a token, numbers and kinds alike, and a first token answers."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.scale, self.shift = (nn.Parameter(0.3 * torch.randn(3, width)) for _ in range(2))
        self.kinds = nn.ModuleList(nn.Embedding(n, width) for n in (4, 7))
        self.first = nn.Parameter(0.1 * torch.randn(1, 1, width))
        self.layer = nn.TransformerEncoderLayer(width, 3, 48, 0.05, batch_first=True, norm_first=True)
        self.head = nn.Linear(width, 1)

    def forward(self, features: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """Return one logit, flat."""
        kinds, numbers = features
        tokens = [numbers[..., None] * self.scale + self.shift]
        tokens += [emb(kinds[:, k])[:, None] for k, emb in enumerate(self.kinds)]
        seen = self.layer(torch.cat([self.first.expand(len(numbers), -1, -1), *tokens], 1))
        return self.head(seen[:, 0]).squeeze(-1)


def columns_as_tokens() -> dict[str, Any]:
    """A nested input, and a single batch for validation."""
    generator = seeded(24)
    kinds = torch.stack([torch.randint(0, n, (1200,), generator=generator) for n in (4, 7)], 1)
    numbers = torch.randn(1200, 3, generator=generator)
    worth = torch.randn(4, generator=generator)[kinds[:, 0]] * 2 + numbers[:, 0] * (kinds[:, 1] > 3) * 2
    samples = list(zip(zip(kinds, numbers, strict=True), (worth > 0).float(), strict=True))
    model = ColumnTokens()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    parts = loaded(samples, default_collate, 64)
    return {"model": model, "optimizer": optimizer, "loss_fn": nn.BCEWithLogitsLoss(), **parts}
