"""Healthy set-ups whose loop, optimizer or precision is out of the ordinary."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.examples import healthy
from tests.zoo.samples import cancer, digit_images, digit_rows, friedman, setup, split, wine


def mlp(inputs: int, outputs: int, width: int = 48) -> nn.Sequential:
    """A network with one hidden layer."""
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, outputs))


def mixup_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """Train on mixtures of two samples each."""
    x, y = batch
    share = float(torch.distributions.Beta(0.3, 0.3).sample())
    other = torch.randperm(len(x))
    optimizer.zero_grad()
    said = model(share * x + (1 - share) * x[other])
    loss = share * loss_fn(said, y) + (1 - share) * loss_fn(said, y[other])
    loss.backward()
    optimizer.step()
    return loss


@healthy(epochs=7, good=lambda first, last: last < 0.7 * first, accuracy=0.9)
def mixup() -> dict[str, Any]:
    """Inputs and labels are mixed inside the step."""
    return setup(mlp(64, 10), split(*digit_rows()), nn.CrossEntropyLoss(), train_step=mixup_step)


class EveryFourth:
    """A step that lets gradients add up over four batches on purpose."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        """Divide, add up, and step on every fourth call."""
        x, y = batch
        loss = loss_fn(model(x), y)
        (loss / 4).backward()
        self.seen += 1
        if self.seen % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss


@healthy(epochs=8, accuracy=0.9)
def accumulation_over_calls() -> dict[str, Any]:
    """Gradients add up over four small batches before each step."""
    data = split(*digit_rows(), batch_size=16)
    return setup(mlp(64, 10), data, nn.CrossEntropyLoss(), train_step=EveryFourth(), lr=5e-3)


def halves_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> float:
    """Do a batch in two halves, and step once."""
    x, y = batch
    optimizer.zero_grad()
    total = 0.0
    for part_x, part_y in zip(x.chunk(2), y.chunk(2), strict=True):
        loss = loss_fn(model(part_x), part_y) * len(part_x) / len(x)
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


@healthy(epochs=6, accuracy=0.9)
def accumulation_within_a_step() -> dict[str, Any]:
    """The step returns a plain number."""
    return setup(mlp(64, 10), split(*digit_rows()), nn.CrossEntropyLoss(), train_step=halves_step)


SCALER = torch.amp.GradScaler("cpu", enabled=False)


def scaler_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """The recipe for mixed precision, with clipping after unscaling."""
    x, y = batch
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cpu", torch.bfloat16):
        loss = loss_fn(model(x), y)
    SCALER.scale(loss).backward()
    SCALER.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    SCALER.step(optimizer)
    SCALER.update()
    return loss


@healthy(epochs=6, accuracy=0.9)
def mixed_precision_step() -> dict[str, Any]:
    """A gradient scaler that is switched off, as on every CPU."""
    return setup(mlp(64, 10), split(*digit_rows()), nn.CrossEntropyLoss(), train_step=scaler_step)


class InBfloat16(nn.Module):
    """A model that computes in bfloat16 and answers in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.body = mlp(64, 10, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute in low precision."""
        with torch.autocast("cpu", torch.bfloat16):
            return self.body(x).float()


@healthy(epochs=6, accuracy=0.9)
def bfloat16_autocast() -> dict[str, Any]:
    """Three digits of precision are enough."""
    return setup(InBfloat16(), split(*digit_rows()), nn.CrossEntropyLoss())


@healthy(epochs=6, good=lambda first, last: last < 0.2, accuracy=0.85)
def lbfgs() -> dict[str, Any]:
    """A second-order optimizer that calls its closure many times a step."""
    model = nn.Sequential(nn.Linear(13, 8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.3, max_iter=8)
    return setup(model, split(*wine(), batch_size=142), nn.CrossEntropyLoss(), optimizer=optimizer)


@healthy(epochs=8, accuracy=0.9)
def adam_with_weight_decay() -> dict[str, Any]:
    """Decay that is large for Adam and still does no harm."""
    model = mlp(30, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=0.01)
    return setup(model, split(*cancer(), batch_size=32), nn.BCEWithLogitsLoss(), optimizer=optimizer)


@healthy(epochs=5, accuracy=0.9)
def two_parameter_groups() -> dict[str, Any]:
    """A body and a head with learning rates of their own; biases without decay."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.PReLU(), nn.Linear(64, 10))
    weights, biases = [model[1].weight], [model[1].bias, model[2].weight]
    groups = [
        {"params": weights, "weight_decay": 0.01},
        {"params": biases},
        {"params": model[3].parameters(), "lr": 1e-2},
    ]
    optimizer = torch.optim.AdamW(groups, lr=2e-3, weight_decay=0.0)
    return setup(model, split(*digit_images()), nn.CrossEntropyLoss(), optimizer=optimizer)


@healthy(epochs=8, accuracy=0.9)
def plain_sgd_with_warm_up() -> dict[str, Any]:
    """The first steps are tiny on purpose."""
    model = mlp(64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.05, 1.0, total_iters=40)
    return setup(model, split(*digit_rows()), nn.CrossEntropyLoss(), optimizer=optimizer, scheduler=scheduler)


@healthy(epochs=10, good=lambda first, last: last < 0.3 * first)
def rmsprop_regression() -> dict[str, Any]:
    """An optimizer between SGD and Adam."""
    model = mlp(10, 1)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=3e-3)
    return setup(model, split(*friedman(), batch_size=32), nn.MSELoss(), optimizer=optimizer)


@healthy(epochs=6, accuracy=0.9)
def assumed_loss_and_optimizer_given() -> dict[str, Any]:
    """The loss is not passed on by name but lives inside `compute_loss`."""

    def by_hand(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        x, y = batch
        return nn.functional.cross_entropy(model(x), y)

    return setup(mlp(64, 10), split(*digit_rows()), compute_loss=by_hand)
