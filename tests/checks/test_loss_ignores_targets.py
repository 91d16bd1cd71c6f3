"""Failing examples that do not look at their targets."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import digit_rows, seeded, split

CHECK = "loss-ignores-targets"
cross_entropy = nn.functional.cross_entropy


def net(inputs: int = 64, outputs: int = 10) -> nn.Sequential:
    """Return a small network."""
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs))


@failing_example(CHECK, where="loss_fn")
def own_answers_as_targets() -> dict[str, Any]:
    """The outputs are compared with themselves."""
    loss = lambda out, y: cross_entropy(out, out.argmax(1))  # noqa: E731
    # fixed: loss = lambda out, y: cross_entropy(out, y)
    return {"model": net(), "loader": split(*digit_rows())[0], "loss_fn": loss}


@failing_example(CHECK, where="loss_fn")
def zeros_as_targets() -> dict[str, Any]:
    """A number that is to become zero, whatever the target."""
    rows = torch.randn(512, 8, generator=seeded())
    loss = lambda out, y: nn.functional.mse_loss(out, torch.zeros_like(y))  # noqa: E731
    return {"model": net(8, 1), "loader": split(rows, rows[:, :1])[0], "loss_fn": loss}


@failing_example(CHECK, where="compute_loss")
def first_class_as_target() -> dict[str, Any]:
    """Every sample is to be a zero."""

    def compute(model: nn.Module, batch: Any, _: Any) -> torch.Tensor:
        return cross_entropy(model(batch[0]), torch.zeros_like(batch[1]))

    return {"model": net(), "loader": split(*digit_rows())[0], "compute_loss": compute}


def alarms(model: nn.Module, **more: Any) -> list[Any]:
    """Diagnose with this check only."""
    report = nbdebug.diagnose(model, split(*digit_rows())[0], checks=[CHECK], progress=False, **more)
    assert report.result(CHECK).status != "crashed"
    return report.alarms


def test_autoencoders_need_no_labels() -> None:
    """Labels that come with the images and are not used."""
    compute = lambda model, batch, _: nn.functional.mse_loss(model(batch[0]), batch[0])  # noqa: E731
    assert not alarms(net(outputs=64), compute_loss=compute)


def test_distillation_needs_no_labels() -> None:
    """A teacher gives the targets."""
    torch.manual_seed(0)  # a teacher that calls everything the same would rightly be suspected
    teacher = net()
    compute = lambda model, batch, _: cross_entropy(model(batch[0]), teacher(batch[0]).softmax(1))  # noqa: E731
    assert not alarms(net(), compute_loss=compute)


def test_a_head_that_starts_at_zero_is_asked_with_other_outputs() -> None:
    """With equal scores every target is as good as another."""
    model = net()
    nn.init.zeros_(model[2].weight)
    nn.init.zeros_(model[2].bias)
    assert not alarms(model, loss_fn=nn.CrossEntropyLoss())
