"""Failing examples that normalize over the wrong dimension."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import digit_images, digit_rows, seeded, split

CHECK = "softmax-over-wrong-dim"


def mlp(*last: nn.Module) -> nn.Sequential:
    """Return a small network on digits."""
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10), *last)


class Tagger(nn.Module):
    """Gives (batch, time, classes), normalized over time."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.embed, self.head, self.dim = nn.Embedding(12, 16), nn.Linear(16, 4), dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return log-probabilities, as it believes."""
        return self.head(self.embed(x)).log_softmax(self.dim)


class Attention(nn.Module):
    """Weighs the rows of an image; by mistake, over the samples."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.scores, self.weigh, self.head = nn.Linear(8, 1), nn.Softmax(dim=dim), nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of the weighted mean of the rows."""
        rows = x[:, 0]
        return self.head((self.weigh(self.scores(rows)) * rows).sum(1))


def tags() -> Any:
    """Return sequences with a tag for every token."""
    tokens = torch.randint(0, 12, (256, 9), generator=seeded())
    return split(tokens, tokens % 4)[0]


def tag_loss(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Flatten and compare."""
    return nn.functional.nll_loss(out.flatten(0, 1), y.flatten())


@failing_example(CHECK, where="3")
def softmax_over_samples() -> dict[str, Any]:
    """The classic: dim=0."""
    return {"model": mlp(nn.LogSoftmax(0)), "loader": split(*digit_rows())[0], "loss_fn": nn.NLLLoss()}


@failing_example(CHECK, where="model")
def softmax_over_time() -> dict[str, Any]:
    """dim=1 of (batch, time, classes) is time."""
    return {"model": Tagger(1), "loader": tags(), "loss_fn": tag_loss}


@failing_example(CHECK, where="1")
def softmax_over_width() -> dict[str, Any]:
    """dim=-1 of (batch, classes, height, width) is the width."""
    images, _ = digit_images()
    model = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.Softmax(dim=-1))
    # fixed: model = nn.Conv2d(1, 2, 3, padding=1)
    return {"model": model, "loader": split(images, (images[:, 0] > 0.5).long())[0], "loss_fn": nn.CrossEntropyLoss()}


@failing_example(CHECK, where="loss_fn")
def softmax_over_samples_in_the_loss() -> dict[str, Any]:
    """The loss takes the log-softmax over the batch."""
    loss = lambda out, y: nn.functional.nll_loss(nn.functional.log_softmax(out, 0), y)  # noqa: E731
    return {"model": mlp(), "loader": split(*digit_rows())[0], "loss_fn": loss}


@failing_example(CHECK, where="weigh")
def attention_over_samples() -> dict[str, Any]:
    """Inside of the model, samples compete for attention."""
    return {"model": Attention(0), "loader": split(*digit_images())[0], "loss_fn": nn.CrossEntropyLoss()}


def test_right_dimensions() -> None:
    """The dimension of the classes, and attention within a sample, are right."""
    for model, loader, loss in (
        (Tagger(-1), tags(), tag_loss),
        (Attention(1), split(*digit_images())[0], nn.CrossEntropyLoss()),
        (mlp(nn.LogSoftmax(1)), split(*digit_rows())[0], nn.NLLLoss()),
    ):
        assert not nbdebug.diagnose(model, loader, loss, checks=[CHECK], progress=False).findings
