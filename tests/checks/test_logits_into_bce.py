"""Failing examples whose loss takes the logarithm of raw scores."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import cancer, digit_rows, split

CHECK = "logits-into-bce"


def net(*last: nn.Module, inputs: int = 30, outputs: int = 1) -> nn.Sequential:
    """Return a small network."""
    return nn.Sequential(nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, outputs), *last)


def clamped(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A binary cross-entropy by hand that hides what it gets."""
    p = out.clamp(1e-7, 1 - 1e-7)
    return -(y * p.log() + (1 - y) * (1 - p).log()).mean()


@failing_example(CHECK, where="2")
def scores_into_bce() -> dict[str, Any]:
    """torch's own loss refuses them."""
    return {"model": net(), "loader": split(*cancer())[0], "loss_fn": nn.BCELoss()}
    # fixed: return {"model": net(), "loader": split(*cancer())[0], "loss_fn": nn.BCEWithLogitsLoss()}


@failing_example(CHECK, where="2")
def scores_into_clamped_bce() -> dict[str, Any]:
    """A loss by hand clamps them and gives no gradient."""
    return {"model": net(), "loader": split(*cancer())[0], "loss_fn": clamped}


@failing_example(CHECK, where="2")
def scores_into_logarithm() -> dict[str, Any]:
    """A cross-entropy by hand takes the logarithm of the score of the right class."""
    loss = lambda out, y: nn.functional.nll_loss(torch.log(out + 1e-9), y)  # noqa: E731
    return {"model": net(inputs=64, outputs=10), "loader": split(*digit_rows())[0], "loss_fn": loss}


def test_explains_the_failing_loss() -> None:
    """The error that torch raises is a symptom."""
    report = nbdebug.diagnose(net(), split(*cancer())[0], nn.BCELoss(), checks=["forward-fails", CHECK], progress=False)
    assert report.findings[0].check == CHECK


def test_probabilities_are_right() -> None:
    """What stays between 0 and 1 may be taken the logarithm of."""
    for loss in (nn.BCELoss(), clamped):
        report = nbdebug.diagnose(net(nn.Sigmoid()), split(*cancer())[0], loss, checks=[CHECK], progress=False)
        assert report.result(CHECK).status == "clean"


def test_rates_are_no_probabilities() -> None:
    """A Poisson likelihood takes the logarithm of a rate, which may be larger than 1."""
    rows, digit = digit_rows()
    model = net(nn.Softplus(), inputs=64)
    loss = nn.PoissonNLLLoss(log_input=False)
    for factor in (1.0, 100.0):
        loader = split(rows, digit[:, None].float() * factor)[0]
        report = nbdebug.diagnose(model, loader, loss, checks=[CHECK], progress=False)
        assert not report.findings
