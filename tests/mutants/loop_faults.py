"""Faults of the training loop and of the optimizer."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.mutants import fault
from tests.mutants.case import Case


def _scale_rates(case: Case, factor: float) -> None:
    optimizer = case.setup["optimizer"]
    case.require("scheduler" not in case.setup and not isinstance(optimizer, torch.optim.LBFGS))
    for group in optimizer.param_groups:
        group["lr"] *= factor


@fault("learning-rate-too-high", "update-ratio-off")
def rate_times_1000(case: Case) -> None:
    """A learning rate with a misplaced point."""
    _scale_rates(case, 1000)


@fault("learning-rate-too-low", "update-ratio-off")
def rate_divided_by_100000(case: Case) -> None:
    """A learning rate at which nothing moves."""
    _scale_rates(case, 1e-5)


def _plain_pairs(case: Case) -> None:
    """Return up unless a batch is an input and a target and the loop is the plain one."""
    case.require_plain()
    case.require(isinstance(case.batch.raw, (list, tuple)) and len(case.batch.raw) == 2)
    case.require(not isinstance(case.setup["optimizer"], torch.optim.LBFGS))


@fault("accumulated-gradients")
def zero_grad_forgotten(case: Case) -> None:
    """Gradients add up for ever."""
    _plain_pairs(case)

    def train_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss

    case.setup["train_step"] = train_step


@fault("step-never-taken")
def step_forgotten(case: Case) -> None:
    """Gradients are computed and never used."""
    _plain_pairs(case)

    def train_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        return loss

    case.setup["train_step"] = train_step


@fault("step-never-taken")
def zeroed_before_the_step(case: Case) -> None:
    """Gradients are thrown away just before they are used."""
    _plain_pairs(case)

    def train_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.zero_grad()
        optimizer.step()
        return loss

    case.setup["train_step"] = train_step


@fault("step-never-taken")
def backward_forgotten(case: Case) -> None:
    """A step without gradients."""
    _plain_pairs(case)

    def train_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        optimizer.step()
        return loss

    case.setup["train_step"] = train_step


@fault("clipping-too-tight")
def clipped_to_a_millionth(case: Case) -> None:
    """Clipping that leaves nothing of the gradient."""
    _plain_pairs(case)

    def train_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1e-6)
        optimizer.step()
        return loss

    case.setup["train_step"] = train_step


@fault("graph-kept-alive")
def losses_added_up_with_their_graphs(case: Case) -> None:
    """`total += loss` keeps every graph of the epoch."""
    _plain_pairs(case)
    kept: list[torch.Tensor] = []

    def train_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        kept.append(loss)
        return loss

    case.setup["train_step"] = train_step


@fault("excessive-weight-decay", "unusual-optimizer")
def weight_decay_of_ten(case: Case) -> None:
    """A decay that pulls all weights to zero."""
    optimizer = case.setup["optimizer"]
    case.require("weight_decay" in optimizer.defaults)
    for group in optimizer.param_groups:
        group["weight_decay"] = 10.0


@fault("unusual-optimizer", "learning-rate-too-low", "update-ratio-off")
def epsilon_of_ten(case: Case) -> None:
    """An epsilon of Adam that swallows every gradient."""
    optimizer = case.setup["optimizer"]
    case.require(type(optimizer) in (torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop))
    for group in optimizer.param_groups:
        group["eps"] = 10.0


@fault("unusual-optimizer")
def no_memory_of_squares(case: Case) -> None:
    """The betas of Adam in the wrong order."""
    optimizer = case.setup["optimizer"]
    case.require(type(optimizer) in (torch.optim.Adam, torch.optim.AdamW))
    for group in optimizer.param_groups:
        group["betas"] = (0.999, 0.1)


@fault("schedule-reaches-zero")
def schedule_that_stops_the_training(case: Case) -> None:
    """The rate is halved at every batch instead of every epoch."""
    case.require("scheduler" not in case.setup)
    case.setup["scheduler"] = torch.optim.lr_scheduler.ExponentialLR(case.setup["optimizer"], 0.5)
