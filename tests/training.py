"""Train a set-up as its user would, on itself, and say how well it did."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.setup import Batch, Setup
from nbdebug.setup.loss import main_output, own_loss


@dataclass(frozen=True)
class Training:
    """The mean loss of every epoch, and the share of right answers at the end where there is such a thing."""

    losses: tuple[float, ...]
    accuracy: float | None


def train(given: dict[str, Any], epochs: int) -> Training:
    """Train for so many epochs with the set-up's own step, loss, optimizer and scheduler."""
    setup = Setup(**given)
    given["model"].train()
    losses = []
    for _ in range(epochs):
        taken = [_step(given, setup, raw) for raw in given["loader"]]
        losses.append(sum(taken) / len(taken))
    return Training(tuple(losses), accuracy(given))


def _step(given: dict[str, Any], setup: Setup, raw: Any) -> float:
    optimizer, scheduler = given["optimizer"], given.get("scheduler")
    if "train_step" in given:
        loss = given["train_step"](given["model"], raw, given.get("loss_fn"), optimizer)
    else:
        loss = optimizer.step(lambda: _backward(given, setup, raw))
    if scheduler is not None:
        scheduler.step()
    return float(loss.detach() if isinstance(loss, torch.Tensor) else loss)


def _backward(given: dict[str, Any], setup: Setup, raw: Any) -> torch.Tensor:
    given["optimizer"].zero_grad()
    loss = loss_of(given, setup.wrap(raw))
    loss.backward()
    return loss


def loss_of(given: dict[str, Any], batch: Batch) -> torch.Tensor:
    """Return the loss as the user's loop would compute it."""
    if "compute_loss" in given:
        return given["compute_loss"](given["model"], batch.raw, given.get("loss_fn"))
    output = given["model"](*batch.args, **batch.kwargs)
    if given.get("loss_fn") is None:
        loss = own_loss(output)
        assert loss is not None, "a set-up without loss_fn has to return its own loss"
        return loss
    return given["loss_fn"](output, batch.target)


@torch.no_grad()
def accuracy(given: dict[str, Any]) -> float | None:
    """Return the share of right answers on the validation data, or on the training data where there is no other."""
    setup, right = Setup(**given), []
    if "compute_loss" in given and not _takes(given, setup):
        return None
    given["model"].eval()
    for raw in given.get("val_loader") or given["loader"]:
        batch = setup.wrap(raw)
        found = _right(main_output(given["model"](*batch.args, **batch.kwargs)), batch.target)
        if found is None:
            break
        right.append(found)
    given["model"].train()
    return float(torch.cat(right).double().mean()) if right else None


def _takes(given: dict[str, Any], setup: Setup) -> bool:
    """Return whether the model can be called with what is in a batch; only its own loss may know how to call it."""
    batch = setup.wrap(next(iter(given["loader"])))
    try:
        inspect.signature(given["model"].forward).bind(*batch.args, **batch.kwargs)
    except TypeError:
        return False
    return True


def _right(predicted: torch.Tensor | None, target: Any) -> torch.Tensor | None:
    """Say which answers are right, whichever dimension holds the classes; None where nothing is right or wrong."""
    if predicted is None or not isinstance(target, torch.Tensor):
        return None
    if predicted.shape == target.shape and bool(((target == 0) | (target == 1)).all()):
        between = bool(((predicted >= 0) & (predicted <= 1)).all())
        return ((predicted > (0.5 if between else 0.0)) == (target > 0.5)).flatten()
    if predicted.shape == target.shape and target.is_floating_point():
        soft = target.dim() == 2 and bool((target.sum(1) - 1).abs().max() < 1e-3)
        return predicted.argmax(1) == target.argmax(1) if soft else None
    if predicted.dim() != target.dim() + 1:
        return None
    dim = 1 if predicted.shape[2:] == target.shape[1:] else predicted.dim() - 1
    if predicted.select(dim, 0).shape != target.shape:  # answers that have no place of their own, as CTC gives
        return None
    counted = (target >= 0) & (target < predicted.shape[dim])
    return (predicted.argmax(dim) == target)[counted]
