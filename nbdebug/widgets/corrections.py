"""What can be corrected on the first screen: the task, the loss, the optimizer, and which part of a batch is what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from nbdebug.setup import Reading, Setup, unwrap

__all__ = ["LOSSES", "OPTIMIZERS", "TASKS", "changes_for"]

LOSSES = ("CrossEntropyLoss", "BCEWithLogitsLoss", "MSELoss", "L1Loss", "NLLLoss", "BCELoss")
TASKS = {"classification": "CrossEntropyLoss", "binary or multi-label": "BCEWithLogitsLoss", "regression": "MSELoss"}
# Each over all trainable parameters, with the settings that are usual for it.
OPTIMIZERS: dict[str, tuple[str, dict[str, float]]] = {
    "Adam, lr 0.0003": ("Adam", {"lr": 3e-4}),
    "Adam, lr 0.001": ("Adam", {"lr": 1e-3}),
    "AdamW, lr 0.001": ("AdamW", {"lr": 1e-3, "weight_decay": 0.01}),
    "SGD, lr 0.1": ("SGD", {"lr": 0.1}),
    "SGD, lr 0.01, momentum 0.9": ("SGD", {"lr": 0.01, "momentum": 0.9}),
}


def changes_for(setup: Setup, kind: str, chosen: str, readings: Mapping[str, Reading]) -> dict[str, Any]:
    """Return the arguments of the wizard, or the `reading` of a batch, that a choice on the first screen stands for."""
    if kind == "batch":
        return {"reading": readings[chosen]}
    if kind == "optimizer":
        name, settings = OPTIMIZERS[chosen]
        trained = [p for p in unwrap(setup.model).parameters() if p.requires_grad]
        return {"optimizer": getattr(torch.optim, name)(trained, **settings)}
    return {"loss_fn": getattr(nn, TASKS.get(chosen, chosen))()}
