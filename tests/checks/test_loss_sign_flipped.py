"""Failing examples that walk away from their targets."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import cancer, digit_rows, seeded, split

CHECK = "loss-sign-flipped"
cross_entropy, mse = nn.functional.cross_entropy, nn.functional.mse_loss


def net(*last: nn.Module, inputs: int = 64, outputs: int = 10) -> nn.Sequential:
    """Return a small network."""
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs), *last)


def numbers() -> Any:
    """Return rows with a number to predict."""
    rows = torch.randn(512, 8, generator=seeded())
    return split(rows, rows[:, :1] - rows[:, 1:2])[0]


@failing_example(CHECK, where="loss_fn")
def likelihood_is_minimized() -> dict[str, Any]:
    """The minus of the negative log-likelihood was forgotten."""
    loss = lambda out, y: out.log_softmax(1).gather(1, y[:, None]).mean()  # noqa: E731
    # fixed: loss = lambda out, y: -out.log_softmax(1).gather(1, y[:, None]).mean()
    return {"model": net(), "loader": split(*digit_rows())[0], "loss_fn": loss}


@failing_example(CHECK, where="compute_loss")
def one_minus_too_many() -> dict[str, Any]:
    """A squared error with a minus in front, computed by the user's function."""
    return {
        "model": net(inputs=8, outputs=1),
        "loader": numbers(),
        "compute_loss": lambda model, batch, _: -mse(model(batch[0]), batch[1]),
    }


@failing_example(CHECK, where="loss_fn")
def binary_reward() -> dict[str, Any]:
    """The logarithm of the probability of the truth, handed over as it is."""
    loss = lambda out, y: -nn.functional.binary_cross_entropy(out, y)  # noqa: E731
    return {"model": net(nn.Sigmoid(), inputs=30, outputs=1), "loader": split(*cancer())[0], "loss_fn": loss}


@failing_example(CHECK, where="loss_fn")
def absolute_error_is_maximized() -> dict[str, Any]:
    """An absolute error, negated."""
    loss = lambda out, y: -nn.functional.l1_loss(out, y)  # noqa: E731
    return {"model": net(inputs=8, outputs=1), "loader": numbers(), "loss_fn": loss}


@failing_example(CHECK, where="train_step")
def backward_of_the_negative() -> dict[str, Any]:
    """The loop goes backward from the negative of the loss that it reports."""

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> float:
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        (-loss).backward()
        optimizer.step()
        return float(loss.item())

    model = net()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    loader = split(*digit_rows())[0]
    return {
        "model": model,
        "loader": loader,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "train_step": step,
    }


@pytest.mark.parametrize(
    "loss",
    [
        nn.CrossEntropyLoss(),
        lambda out, y: -out.log_softmax(1).gather(1, y[:, None]).mean(),
        lambda out, y: -out.softmax(1).gather(1, y[:, None]).mean(),
        lambda out, y: cross_entropy(out, y) - 5,
        lambda out, y: -out.softmax(1).square().sum(1).mean(),
        lambda out, y: cross_entropy(out, y) - 0.1 * (-out.softmax(1) * out.log_softmax(1)).sum(1).mean(),
        lambda out, y: (cross_entropy(out, y, reduction="none") * torch.randn(len(y))).mean(),
    ],
)
def test_right_signs(loss: Any) -> None:
    """Negative losses, entropy bonuses and rewards of both signs are legitimate."""
    assert not nbdebug.diagnose(net(), split(*digit_rows())[0], loss, checks=[CHECK], progress=False).findings


def test_cosine_similarity() -> None:
    """A similarity is maximized by its negative."""
    rows, _ = digit_rows()
    loss = lambda out, y: -nn.functional.cosine_similarity(out, y).mean()  # noqa: E731
    model = net(outputs=64)
    assert not nbdebug.diagnose(model, split(rows, rows)[0], loss, checks=[CHECK], progress=False).findings
