"""Losses of padded sequences whose mask is right, and those whose mask is inverted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.checks.position_programs import Program, program
from tests.zoo.samples import seeded

PAD = 9
Loss = Callable[..., torch.Tensor]


def lengths() -> torch.Tensor:
    """Return how long each sequence is."""
    return torch.randint(3, 9, (48,), generator=seeded(21))


def there() -> torch.Tensor:
    """Return which positions are real."""
    return torch.arange(10) < lengths()[:, None]


class Reader(nn.Module):
    """A recurrent network with scores for each position."""

    def __init__(self, width: int = 4, out: int = 10) -> None:
        super().__init__()
        self.rnn, self.out = nn.GRU(width, 16, batch_first=True), nn.Linear(16, out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Score each position."""
        return self.out(self.rnn(x)[0])


def tags(loss: Loss, filler: int = PAD, left: bool = False) -> Program:
    """Return a program with a tag at each position, filled up behind the end or before the beginning."""
    x = torch.randn(48, 10, 4, generator=seeded(22))
    real = there().flip(1) if left else there()
    y = torch.where(real, x.argmax(-1) * 2 + (x[..., 0] > 0).long(), filler)

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        return loss(model(batch[0]), batch[1], batch[2])

    return program(Reader(), x, y, real, compute_loss=compute_loss)


def values(loss: Loss) -> Program:
    """Return a program with a number at each position, filled up with zeros."""
    x = torch.randn(48, 10, 4, generator=seeded(23))
    y = torch.where(there(), x.sum(-1), 0.0)

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        return loss(model(batch[0]).squeeze(-1), batch[1], batch[2])

    return program(Reader(out=1), x, y, there(), compute_loss=compute_loss)


def each(scores: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the cross-entropy of each position."""
    return F.cross_entropy(scores.transpose(1, 2), y, reduction="none")


def ignoring(index: int) -> Program:
    """Return a program whose loss ignores one tag."""
    return tags(lambda s, y, m: F.cross_entropy(s.flatten(0, 1), y.flatten(), ignore_index=index))


COUNTS_CONTENT: dict[str, Callable[[], Program]] = {
    "product": lambda: tags(lambda s, y, m: (each(s, y) * m).sum() / m.sum()),
    "selected": lambda: tags(lambda s, y, m: F.cross_entropy(s[m], y[m])),
    "ignored": lambda: ignoring(PAD),
    "filled-with-minus-100": lambda: tags(lambda s, y, m: F.cross_entropy(s.flatten(0, 1), y.flatten()), filler=-100),
    "everything": lambda: tags(lambda s, y, m: each(s, y).mean()),
    "numbers": lambda: values(lambda p, y, m: ((p - y).square() * m).sum() / m.sum()),
    "last-real": lambda: tags(lambda s, y, m: each(s, y).gather(1, m.sum(1, keepdim=True) - 1).mean()),
    "one-tag": lambda: tags(lambda s, y, m: (each(s, y) * (y == 4)).sum() / (y == 4).sum()),
    "left": lambda: tags(lambda s, y, m: (each(s, y) * m).sum() / m.sum(), left=True),
}
COUNTS_PADDING: dict[str, Callable[[], Program]] = {
    "product": lambda: tags(lambda s, y, m: (each(s, y) * ~m).sum() / (~m).sum()),
    "filled": lambda: tags(lambda s, y, m: each(s, y).masked_fill(m, 0.0).sum() / len(s)),
    "selected": lambda: tags(lambda s, y, m: F.cross_entropy(s[~m], y[~m])),
    "weights": lambda: tags(lambda s, y, m: (each(s, y) * (y == PAD).float()).mean()),
    "numbers": lambda: values(lambda p, y, m: ((p - y).square() * ~m).sum() / (~m).sum()),
    "left": lambda: tags(lambda s, y, m: (each(s, y) * ~m).sum() / (~m).sum(), left=True),
    "looked-up": lambda: tags(
        lambda s, y, m: -(s.log_softmax(-1).gather(2, y[..., None]).squeeze(-1) * (y == PAD)).sum() / len(s)
    ),
}
