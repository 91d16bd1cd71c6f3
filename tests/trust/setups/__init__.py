"""Set-ups of every kind that a user may have, each with what must not change: models, batches, loaders, loops.

A set-up is a function that returns the keyword arguments of `nbdebug.diagnose`, and under `also` whatever else of the
user's has to stay as it is.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

Make = Callable[[], dict[str, Any]]
KINDS = ("models", "uncopyable", "batches", "loaders", "loops")


@dataclass(frozen=True)
class Case:
    """One set-up: how it is made, what surrounds the call, and whether nbdebug has to refuse it."""

    name: str
    make: Make
    refused: bool = False
    around: Callable[[], AbstractContextManager[Any]] = nullcontext
    in_thread: bool = False
    quick: bool = False

    def made(self) -> tuple[dict[str, Any], list[Any]]:
        """Make it from its own seed: the arguments, and everything live."""
        torch.manual_seed(0)
        arguments = self.make()
        also = arguments.pop("also", [])
        return arguments, [*arguments.values(), also]


CASES: list[Case] = []


def case(**how: Any) -> Callable[[Make], Make]:
    """Register a set-up."""

    def register(make: Make) -> Make:
        CASES.append(Case(make.__name__, make, **how))
        return make

    return register


def all_cases() -> list[Case]:
    """Return every set-up of every kind."""
    for kind in KINDS:
        importlib.import_module(f"{__name__}.{kind}")
    return CASES


def rows(count: int = 24, width: int = 6, classes: int = 3) -> TensorDataset:
    """Return rows of numbers whose class can be learned."""
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(count, width, generator=generator)
    return TensorDataset(values, values[:, :classes].argmax(1))


def loader(data: Any = None, size: int = 8, **options: Any) -> DataLoader[Any]:
    """Return a loader of small batches."""
    return DataLoader(rows() if data is None else data, size, **options)


def mlp(*middle: nn.Module) -> nn.Sequential:
    """Return the smallest network that is one."""
    return nn.Sequential(nn.Linear(6, 8), *(middle or (nn.ReLU(),)), nn.Linear(8, 3))


def classify(model: nn.Module, **more: Any) -> dict[str, Any]:
    """Return the usual rest around a model."""
    return {"model": model, "loader": loader(shuffle=True), "loss_fn": nn.CrossEntropyLoss(), **more}


def adam(model: nn.Module, **options: Any) -> torch.optim.Optimizer:
    """Return the usual optimizer."""
    return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2, **options)


def trained(model: nn.Module, optimizer: Any, steps: int = 2) -> None:
    """Take a few steps, so that there is optimizer state and a gradient that waits."""
    for values, labels in loader():
        loss = nn.functional.cross_entropy(model(values), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps -= 1
        if steps == 0:
            return


def names() -> Iterator[str]:
    """Return the names of all set-ups."""
    yield from (one.name for one in all_cases())
