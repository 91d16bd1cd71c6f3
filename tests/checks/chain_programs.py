"""Losses that walk along the time of each sequence, and those that walk along the batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.checks.position_programs import Program, program
from tests.zoo.samples import seeded

STATES = 4


class Chain(nn.Module):
    """Emissions of each observation, and transitions between states; time is the given dimension."""

    def __init__(self, time: int = 1) -> None:
        super().__init__()
        self.emit, self.time = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, STATES)), time
        self.step = nn.Parameter(0.1 * torch.randn(STATES, STATES))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Score each state at each time."""
        return self.emit(x)

    def loss(self, scores: torch.Tensor, tags: torch.Tensor) -> torch.Tensor:
        """Return the negative log-likelihood of the tags, as a conditional random field has it."""
        scores, tags = scores.movedim(self.time, 0), tags.movedim(self.time, 0)
        taken = scores.gather(2, tags[..., None]).squeeze(-1).sum(0) + self.step[tags[:-1], tags[1:]].sum(0)
        total = scores[0]
        for now in scores[1:]:
            total = (total[:, :, None] + self.step).logsumexp(1) + now
        return (total.logsumexp(1) - taken).sum() / tags.numel()


def observed() -> tuple[torch.Tensor, torch.Tensor]:
    """Return observations of sticky states."""
    tags = (torch.rand(48, 10, generator=seeded(41)) < 0.3).long().cumsum(1) % STATES
    return F.one_hot(tags, 6) + 0.5 * torch.randn(48, 10, 6, generator=seeded(42)), tags


def tagged(compute_loss: Callable[[Any, Any], torch.Tensor], model: nn.Module | None = None) -> Program:
    """Return a program with a tag for each time."""
    x, y = observed()
    return program(model or Chain(), x, y, compute_loss=lambda model, batch, loss_fn: compute_loss(model, batch))


def own_chain(model: Any, batch: Any) -> torch.Tensor:
    """Return the chain's own loss."""
    return model.loss(model(batch[0]), batch[1])


def smooth(dim: int) -> Callable[[Any, Any], torch.Tensor]:
    """Add the transitions between neighbors along a dimension to a cross-entropy."""

    def compute_loss(model: Any, batch: Any) -> torch.Tensor:
        scores = model(batch[0])
        before, after = scores.softmax(-1).movedim(dim, 0)[:-1], scores.softmax(-1).movedim(dim, 0)[1:]
        jumps = (before @ model.step - after).square().mean()
        return F.cross_entropy(scores.flatten(0, 1), batch[1].flatten()) + jumps

    return compute_loss


def shifted(dim: int) -> Callable[[Any, Any], torch.Tensor]:
    """Predict the next tag along a dimension."""

    def compute_loss(model: Any, batch: Any) -> torch.Tensor:
        scores, tags = model(batch[0]).movedim(dim, 0)[:-1], batch[1].movedim(dim, 0)[1:]
        return F.cross_entropy(scores.flatten(0, 1), tags.flatten())

    return compute_loss


def rolled(dim: int) -> Callable[[Any, Any], torch.Tensor]:
    """Compare with the tags one step on."""
    return lambda model, batch: F.cross_entropy(model(batch[0]).transpose(1, 2), batch[1].roll(-1, dim))


ALONG_TIME: dict[str, Callable[[], Program]] = {
    "chain": lambda: tagged(own_chain),
    "shifted": lambda: tagged(shifted(1)),
    "smooth": lambda: tagged(smooth(1)),
    "rolled": lambda: tagged(rolled(1)),
    "each": lambda: tagged(lambda model, batch: F.cross_entropy(model(batch[0]).transpose(1, 2), batch[1])),
    "own-centers": lambda: tagged(
        lambda model, batch: F.cross_entropy((model(batch[0]) @ model.step).flatten(0, 1), batch[1].flatten())
    ),
}
ALONG_BATCH: dict[str, Callable[[], Program]] = {
    "chain": lambda: tagged(own_chain, Chain(time=0)),
    "shifted": lambda: tagged(shifted(0)),
    "rolled": lambda: tagged(rolled(0)),
}
