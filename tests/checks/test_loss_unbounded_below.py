"""Failing examples whose loss falls for ever, and sound losses that are negative, signed or steep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import nbdebug
from tests.examples import failing_example
from tests.programs import SHAPES, program
from tests.zoo.samples import digit_rows, friedman, seeded

CHECK = "loss-unbounded-below"
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def net(inputs: int, outputs: int, *last: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs), *last)


@failing_example(CHECK, where="loss_fn")
def accuracy_like_score_as_loss() -> dict[str, Any]:
    """The distance to the target is maximized, through a function of the user's own."""

    def loss(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return -(output - y).abs().pow(1.5).mean()  # fixed: return (output - y).abs().pow(1.5).mean()

    return program("plain", net(10, 1), *friedman(), loss)


@failing_example(CHECK, where="compute_loss")
def score_of_the_right_class() -> dict[str, Any]:
    """The logit of the right class is raised, and nothing lowers the others."""
    return program("compute_loss", net(64, 10), *digit_rows(), lambda o, y: -o.gather(1, y[:, None]).mean())


@failing_example(CHECK, where="train_step")
def margin_without_a_hinge() -> dict[str, Any]:
    """The clamp of a margin loss is missing."""

    def loss(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        right = output.gather(1, y[:, None])
        return (1 + output - right).mean()

    return program("train_step", net(64, 10), *digit_rows(), loss)


def rewards(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the loss of a policy gradient, whose advantages have both signs."""
    advantage = torch.randn(len(y), generator=seeded(1))
    return -(output.log_softmax(1).gather(1, y[:, None])[:, 0] * advantage).mean()


def focal(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    log_p = output.log_softmax(1).gather(1, y[:, None])[:, 0]
    return -((1 - log_p.exp()) ** 2 * log_p).mean()


def hinge(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.multi_margin_loss(output, y)


def smoothed(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(output, y, label_smoothing=0.1)


def mixed(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return 0.7 * F.cross_entropy(output, y) + 0.3 * F.cross_entropy(output, y.flip(0))


def energy(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return output.logsumexp(1).mean() - output.gather(1, y[:, None]).mean()


OF_CLASSES = (rewards, focal, hinge, smoothed, mixed, energy)


def gaussian(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    mean, log_scale = output.chunk(2, 1)
    return -torch.distributions.Normal(mean, log_scale.exp()).log_prob(y).mean()


def quantiles(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    error, levels = y - output, torch.tensor([0.1, 0.9])
    return torch.maximum(levels * error, (levels - 1) * error).mean()


def log_cosh(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (output[:, :1] - y).cosh().log().mean()


def poisson(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.poisson_nll_loss(output[:, :1], y.abs().round())


def cox(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    risk = output[y[:, 0].argsort(descending=True), 0]
    return (risk.logcumsumexp(0) - risk).mean()


def correlation(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return -F.cosine_similarity(output[:, 0] - output[:, 0].mean(), y[:, 0] - y[:, 0].mean(), dim=0)


def tanh_of_error(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return 1 - 1 / (1 + (output[:, :1] - y) ** 2).mean()


OF_NUMBERS = (gaussian, quantiles, log_cosh, poisson, cox, correlation, tanh_of_error)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("loss", [*OF_CLASSES, *OF_NUMBERS], ids=lambda loss: loss.__name__)
def test_losses_with_a_minimum_are_healthy(loss: Loss, shape: str) -> None:
    """Negative likelihoods, steep errors, margins and signed weights."""
    torch.manual_seed(0)
    data, model = (digit_rows(), net(64, 10)) if loss in OF_CLASSES else (friedman(), net(10, 2))
    report = nbdebug.diagnose(**program(shape, model, *data, loss), progress=False, checks=[CHECK])
    assert not report.alarms, [str(f) for f in report.alarms]
    assert report.result(CHECK).status in ("clean", "skipped"), report.result(CHECK)
