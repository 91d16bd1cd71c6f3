"""Healthy set-ups of a second round: the same temptations in other clothes."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from tests.examples import healthy
from tests.zoo.losses import mlp
from tests.zoo.samples import digit_rows, friedman, seeded, setup, split, topic_tokens


class BatchDistances(nn.Module):
    """Minibatch discrimination: how near the other samples of the batch are, beside the sample's own features."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.project = nn.Linear(width, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Append a column for each of a few projections."""
        codes = self.project(x)
        near = torch.exp(-(codes[:, None] - codes[None]).abs()).mean(1)
        return torch.cat([x, near], 1)


@healthy(epochs=6, accuracy=0.85)
def minibatch_discrimination() -> dict[str, Any]:
    """Samples that are compared on purpose, in both modes."""
    from tests.zoo.generative import real_and_fake

    model = nn.Sequential(nn.Linear(64, 96), nn.LeakyReLU(0.2), BatchDistances(96), nn.Linear(108, 1))
    return setup(model, split(*real_and_fake()), nn.BCEWithLogitsLoss())


class DoubtfulLayer(nn.Dropout):
    """A dropout that stays on, whatever the mode."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Drop in every mode."""
        return F.dropout(x, self.p, training=True)


@healthy(epochs=6, accuracy=0.85)
def always_on_layers() -> dict[str, Any]:
    """Monte Carlo dropout as a layer of its own."""
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), DoubtfulLayer(0.2), nn.Linear(96, 10))
    return setup(model, split(*digit_rows()), nn.CrossEntropyLoss())


def cosine_pairs(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Turn equal digits to one direction."""
    left, right, sign = batch
    return loss_fn(model(left), model(right), sign)


@healthy(epochs=6, good=lambda first, last: last < 0.6 * first)
def cosine_embedding() -> dict[str, Any]:
    """Pairs under `CosineEmbeddingLoss`, with -1 and 1."""
    rows, labels = digit_rows()
    mates = torch.randperm(len(rows), generator=seeded(1))
    order = labels.argsort()
    mates[order[::2][: len(order) // 2]] = order[1::2][: len(order) // 2]
    sign = torch.where(labels == labels[mates], 1.0, -1.0)
    return setup(
        mlp(64, 16),
        split(rows, rows[mates], sign),
        nn.CosineEmbeddingLoss(margin=0.3),
        compute_loss=cosine_pairs,
        lr=1e-3,
    )


def listwise(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """The best of each list should have the highest score."""
    lists, best = batch
    return F.cross_entropy(model(lists.flatten(0, 1)).view(lists.shape[:2]), best)


@healthy(epochs=15, good=lambda first, last: last < 0.5 * first)
def lists_to_rank() -> dict[str, Any]:
    """Scores that only count against those of the same list, so that a bias is never felt."""
    rows, target = friedman(count=2000)
    return setup(
        mlp(10, 1),
        split(rows.view(400, 5, 10), target.view(400, 5).argmax(1), batch_size=25),
        compute_loss=listwise,
        lr=5e-3,
    )


class Segments(nn.Module):
    """Words of many texts in one row, each with the number of its text."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(40, 24), nn.Linear(24, 3)

    def forward(self, words: torch.Tensor, owner: torch.Tensor, count: int) -> torch.Tensor:
        """Sum the words of each text."""
        return self.head(torch.zeros(count, 24).index_add(0, owner, self.words(words)) / 10)


def segments(samples: list[Any]) -> dict[str, Any]:
    """Join the texts and number their words."""
    owner = torch.cat([torch.full((len(text),), i) for i, (text, _) in enumerate(samples)])
    words, topics = torch.cat([text for text, _ in samples]), torch.stack([topic for _, topic in samples])
    return {"words": words, "owner": owner, "count": len(samples), "labels": topics}


@healthy(epochs=10, good=lambda first, last: last < 0.3 * first)
def texts_in_one_row() -> dict[str, Any]:
    """A batch as graph libraries make it."""
    tokens, lengths, topics = topic_tokens()
    texts = [(t[: int(n)], y) for t, n, y in zip(tokens, lengths, topics, strict=True)]
    model = Segments()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    loader = DataLoader(texts, 32, shuffle=True, collate_fn=segments)
    return {"model": model, "loader": loader, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


@healthy(epochs=8, good=lambda first, last: last < 0.5 * first)
def confident_start() -> dict[str, Any]:
    """A radial network whose first answers are far too sure, and soon better."""
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10, bias=False))
    nn.init.normal_(model[2].weight, std=1.2)
    return setup(model, split(*digit_rows()), nn.CrossEntropyLoss(), lr=1e-2)
