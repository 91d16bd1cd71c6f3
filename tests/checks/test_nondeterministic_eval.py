"""Failing examples whose chance stays on in eval mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits

CHECK = "nondeterministic-eval"


class Always(nn.Module):
    """A network with something in the middle that knows no modes."""

    def __init__(self, middle: Any) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 32), nn.Linear(32, 10)
        self.middle = [middle]  # in a plain list, where train() and eval() do not reach
        # fixed: self.middle = nn.ModuleList([middle])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply it between two layers."""
        return self.last(self.middle[0](self.first(x).relu()))


def on_digits(model: nn.Module) -> dict[str, Any]:
    """Put a set-up together."""
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


def masked(x: torch.Tensor) -> torch.Tensor:
    """Dropout by hand."""
    return x * (torch.rand_like(x) > 0.5) * 2


def numpy_noise(x: torch.Tensor) -> torch.Tensor:
    """Noise that PyTorch does not know of."""
    return x + torch.from_numpy(np.random.randn(*x.shape)).float()  # noqa: NPY002


@failing_example(CHECK)
def dropout_in_a_list() -> dict[str, Any]:
    """eval() never reaches a layer in a plain list."""
    return on_digits(Always(nn.Dropout(0.3)))


@failing_example(CHECK, where="model")
def functional_dropout() -> dict[str, Any]:
    """F.dropout is on unless it is told otherwise."""
    return on_digits(Always(lambda x: F.dropout(x, 0.3)))


@failing_example(CHECK, where="model")
def mask_by_hand() -> dict[str, Any]:
    """A random mask without a look at the mode."""
    return on_digits(Always(masked))


@failing_example(CHECK, where="model")
def noise_by_hand() -> dict[str, Any]:
    """Gaussian noise without a look at the mode."""
    return on_digits(Always(lambda x: x + 0.5 * torch.randn_like(x)))


@failing_example(CHECK, where="model")
def noise_from_numpy() -> dict[str, Any]:
    """The noise comes from another library."""
    return on_digits(Always(numpy_noise))


def report(setup: dict[str, Any]) -> nbdebug.Report:
    """Run this check alone."""
    return nbdebug.diagnose(**setup, checks=[CHECK], progress=False)


def test_dropout_that_obeys_is_clean() -> None:
    model = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 10))
    assert report(on_digits(model)).result(CHECK).status == "clean"


class Variational(nn.Module):
    """An autoencoder that samples its code in every mode."""

    def __init__(self) -> None:
        super().__init__()
        self.code, self.back = nn.Linear(64, 16), nn.Linear(8, 64)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the reconstruction, and mean and spread of the code."""
        mean, log_variance = self.code(x).chunk(2, 1)
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.back(code), mean, log_variance


def test_sampling_by_design_is_no_alarm() -> None:
    def loss(output: Any, target: torch.Tensor) -> torch.Tensor:
        return output[0].square().mean() + output[1].square().mean()

    assert not report({"model": Variational(), "loader": digits(), "loss_fn": loss}).alarms


class Bayesian(nn.Module):
    """A layer whose outputs are drawn, with a learned scale (local reparameterization), or a fixed one."""

    def __init__(self, inputs: int, outputs: int, learned: bool = True) -> None:
        super().__init__()
        self.mean, self.learned = nn.Linear(inputs, outputs), learned
        self.log_scale = nn.Parameter(torch.full((outputs, inputs), -2.0)) if learned else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Draw the outputs."""
        mean = self.mean(x)
        if self.log_scale is None:
            return mean + 0.5 * torch.randn_like(mean)
        return mean + F.linear(x.square(), self.log_scale.exp().square()).sqrt() * torch.randn_like(mean)


def test_noise_of_a_learned_scale_is_no_alarm() -> None:
    found = report(on_digits(nn.Sequential(Bayesian(64, 32), nn.ReLU(), nn.Linear(32, 10))))
    assert [f.severity for f in found.findings] == ["note"]


def test_noise_of_a_fixed_scale_is_found() -> None:
    found = report(on_digits(nn.Sequential(Bayesian(64, 32, learned=False), nn.ReLU(), nn.Linear(32, 10))))
    assert [f.severity for f in found.findings] == ["suspect"]
