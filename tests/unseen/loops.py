"""Training loops and optimizers that get nowhere."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.unseen import unseen
from tests.unseen.objectives import conv_net
from tests.zoo.samples import cancer, digit_images, digit_rows, friedman, setup, split


def net(inputs: int = 64, outputs: int = 10) -> nn.Sequential:
    """A network with two hidden layers."""
    return nn.Sequential(nn.Linear(inputs, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, outputs))


def with_optimizer(kind: Any, **settings: Any) -> dict[str, Any]:
    """Digits and an optimizer of these settings."""
    model = net()
    return setup(model, split(*digit_rows()), nn.CrossEntropyLoss(), optimizer=kind(model.parameters(), **settings))


@unseen("learning-rate-too-high", "update-ratio-off")
def rate_of_ten() -> dict[str, Any]:
    """SGD at 10."""
    return with_optimizer(torch.optim.SGD, lr=10.0, momentum=0.9)


@unseen("learning-rate-too-low", "update-ratio-off")
def rate_of_a_millionth() -> dict[str, Any]:
    """SGD at a millionth."""
    return with_optimizer(torch.optim.SGD, lr=1e-6)


@unseen("unusual-optimizer", "learning-rate-too-high")
def momentum_without_end() -> dict[str, Any]:
    """Momentum 0.999."""
    return with_optimizer(torch.optim.SGD, lr=0.05, momentum=0.999)


@unseen("unusual-optimizer", "learning-rate-too-low", "update-ratio-off")
def epsilon_of_a_hundred() -> dict[str, Any]:
    """Adam with an epsilon that swallows every gradient."""
    return with_optimizer(torch.optim.Adam, lr=1e-3, eps=100.0)


@unseen("excessive-weight-decay", "unusual-optimizer")
def decay_of_five() -> dict[str, Any]:
    """Weights that shrink faster than they learn."""
    return with_optimizer(torch.optim.AdamW, lr=3e-2, weight_decay=5.0)


@unseen("schedule-reaches-zero")
def tenth_of_the_rate_every_batch() -> dict[str, Any]:
    """A schedule meant for epochs, stepped with every batch."""
    made = with_optimizer(torch.optim.SGD, lr=0.1, momentum=0.9)
    return {**made, "scheduler": torch.optim.lr_scheduler.StepLR(made["optimizer"], 1, gamma=0.1)}


def with_step(step: Any) -> dict[str, Any]:
    """Tumours and a loop body of one's own."""
    model = net(30, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return setup(model, split(*cancer(), batch_size=32), nn.BCEWithLogitsLoss(), optimizer=optimizer, train_step=step)


@unseen("accumulated-gradients")
def gradients_never_cleared() -> dict[str, Any]:
    """`zero_grad` on the wrong thing: a list of gradients that is thrown away."""

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        inputs, labels = batch
        loss = loss_fn(model(inputs), labels)
        loss.backward()
        optimizer.step()
        _ = [torch.zeros_like(p.grad) for p in model.parameters()]
        return loss

    return with_step(step)


@unseen("step-never-taken")
def step_before_backward() -> dict[str, Any]:
    """Clear, step, and only then look for the gradient."""

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        inputs, labels = batch
        loss = loss_fn(model(inputs), labels)
        optimizer.zero_grad(set_to_none=False)
        optimizer.step()
        loss.backward()
        return loss

    return with_step(step)


@unseen("loss-not-differentiable", "step-never-taken", "forward-fails", "untrained-parameters")
def gradients_switched_off() -> dict[str, Any]:
    """`no_grad` was left around the training step, and the error was swallowed."""

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        inputs, labels = batch
        optimizer.zero_grad()
        with torch.no_grad():
            loss = loss_fn(model(inputs), labels)
        if loss.requires_grad:
            loss.backward()
            optimizer.step()
        return loss

    return with_step(step)


@unseen("clipping-too-tight")
def clipped_to_nothing() -> dict[str, Any]:
    """Gradients clipped at a hundred-millionth."""

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        inputs, labels = batch
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), labels)
        loss.backward()
        torch.nn.utils.clip_grad_value_(model.parameters(), 1e-8)
        optimizer.step()
        return loss

    return with_step(step)


@unseen("graph-kept-alive")
def history_of_losses() -> dict[str, Any]:
    """A running mean of the loss that keeps every graph."""
    history: dict[str, Any] = {"mean": 0.0}

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        inputs, labels = batch
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), labels)
        loss.backward()
        optimizer.step()
        history["mean"] = 0.9 * history["mean"] + 0.1 * loss
        return history["mean"]

    return with_step(step)


@unseen("left-in-eval-mode")
def validated_and_never_back() -> dict[str, Any]:
    """`model.train(False)` for a look at the batch, and nothing after it."""
    model = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 10))

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        model.train(False)
        with torch.no_grad():
            model(batch[0]).argmax(1)
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss

    return setup(model, split(*digit_rows()), nn.CrossEntropyLoss(), train_step=step)


@unseen("loss-terms-unbalanced", "initial-loss-off", "cannot-overfit-batch", "worse-than-baseline")
def penalty_that_drowns_the_loss() -> dict[str, Any]:
    """A penalty on the outputs a thousand times too large."""
    model = conv_net()

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        said = model(batch[0])
        return F.cross_entropy(said, batch[1]) + 1e3 * said.square().mean()

    return setup(model, split(*digit_images()), compute_loss=compute_loss)


@unseen("step-never-taken", "parameters-missing-from-optimizer")
def copy_is_trained() -> dict[str, Any]:
    """The loop trains a copy of the model that it makes at every step."""
    import copy

    model = net(10, 1)

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        trained = copy.deepcopy(model)
        optimizer.zero_grad()
        loss = loss_fn(trained(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss

    return setup(model, split(*friedman(), batch_size=32), nn.MSELoss(), train_step=step)
