"""Small programs of every shape that the tape has to read, all of one kind: 12 samples, 5 features, 3 classes."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from nbdebug.core.control import Control
from nbdebug.experiments.tape import Tape, record
from nbdebug.sandbox import Sandbox, make_sandbox
from nbdebug.setup import Setup

X = torch.randn(12, 5, generator=torch.Generator().manual_seed(0))
Y = torch.arange(12) % 3


class Net(nn.Module):
    """Two layers; with targets it returns its own loss beside the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(5, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        return self.head(self.body(x).relu())


class OwnLoss(Net):
    """A model that returns (logits, loss)."""

    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> Any:
        """Return logits and their loss."""
        logits = super().forward(x)
        return logits, F.cross_entropy(logits, y) if y is not None else None


class LossAttribute(Net):
    """A model that returns an object with `.loss`."""

    def forward(self, x: torch.Tensor, wanted: torch.Tensor) -> Any:
        """Return a mapping with the loss."""
        logits = super().forward(x)
        return {"loss": F.cross_entropy(logits, wanted), "logits": logits}


def in_a_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """Take one training step."""
    x, y = batch
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def sandbox_of(model: nn.Module | None = None, loss_fn: Any = None, batch: Any = None, **parts: Any) -> Sandbox:
    """Copy a small program, ready to be recorded."""
    model = model if model is not None else Net()
    optimizer = parts.pop("optimizer", None) or torch.optim.SGD(model.parameters(), 0.1)
    setup = Setup(model, [batch if batch is not None else (X, Y)], loss_fn, optimizer, **parts)
    sandbox = make_sandbox(setup, Control())
    sandbox.ready_to_train()
    return sandbox


def tape_of(sandbox: Sandbox, **options: Any) -> Tape:
    """Record the first batch."""
    return record(sandbox, sandbox.batch(), **options)


def computed(function: Any, model: nn.Module | None = None, batch: Any = None) -> Sandbox:
    """Copy a program whose loss is computed by `function(model, x, y)`."""
    return sandbox_of(model, batch=batch, compute_loss=lambda model, batch, loss_fn: function(model, *batch))


# What a sandbox copies with a program's functions cannot be looked at from outside; what a module names is not copied.
NOTES: list[Any] = []
OTHER = nn.Linear(1, 1)


def train_the_other() -> None:
    """Take a real step of a model that no tape looks at."""
    optimizer = torch.optim.SGD(OTHER.parameters(), 0.1)
    OTHER(torch.ones(1, 1)).sum().backward()
    optimizer.step()
