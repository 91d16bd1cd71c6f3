"""Failing examples with a gradient that somebody derived wrongly."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits


class Swish(torch.autograd.Function):
    """x · sigmoid(x), with half of its derivative."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """Keep the input."""
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        """Forget the second term."""
        (x,) = ctx.saved_tensors
        return gradient * x.sigmoid()


class Activation(nn.Module):
    """A module around a function; the function can be any."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply it."""
        return self.function.apply(x)


class Product(torch.autograd.Function):
    """A linear layer whose weight gets the wrong sign."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Multiply."""
        ctx.save_for_backward(x, weight)
        return x @ weight.t()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Get the first argument right, and the second wrong."""
        x, weight = ctx.saved_tensors
        return gradient @ weight, -gradient.t() @ x


class HandMade(nn.Module):
    """A model that calls the function in its own forward."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.last = nn.Parameter(torch.randn(32, 64) / 8), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Use it as a layer."""
        return self.last(Product.apply(x, self.weight).relu())


class ForgetfulRelu(torch.autograd.Function):
    """A rectifier that lets every gradient through."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """Cut off what is negative."""
        return x.clamp_min(0)
        # fixed: ctx.save_for_backward(x)
        # fixed: return x.clamp_min(0)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        """Forget that it was cut off."""
        return gradient  # fixed: return gradient * (ctx.saved_tensors[0] > 0)


def around(function: Any) -> dict[str, Any]:
    """Put a function into the middle of a network."""
    model = nn.Sequential(nn.Linear(64, 32), Activation(function), nn.Linear(32, 10))
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


@failing_example("custom-backward-wrong", where="1")
def half_a_derivative() -> dict[str, Any]:
    """A term is missing."""
    return around(Swish)


@failing_example("custom-backward-wrong", where="model")
def sign_of_the_weight() -> dict[str, Any]:
    """The weight climbs instead of descending."""
    return {"model": HandMade(), "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


@failing_example("custom-backward-wrong", where="1")
def mask_forgotten() -> dict[str, Any]:
    """The gradient of a rectifier without its mask."""
    return around(ForgetfulRelu)


class RightSwish(Swish):
    """The whole derivative."""

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        """Differentiate both factors."""
        (x,) = ctx.saved_tensors
        s = x.sigmoid()
        return gradient * (s + x * s * (1 - s))


class Rounded(torch.autograd.Function):
    """Round, and let the gradient through."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """Move in steps."""
        return (4 * x).round() / 4

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        """Pretend to be the identity."""
        return gradient


class Turned(torch.autograd.Function):
    """The identity, with its gradient turned round."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """Do nothing."""
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        """Work against what follows."""
        return -0.5 * gradient


class WithContext(torch.autograd.Function):
    """A function in the newer style, whose context is set up apart."""

    @staticmethod
    def forward(x: torch.Tensor, power: int) -> torch.Tensor:
        """Raise to a power."""
        return x**power

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Keep what the gradient needs."""
        ctx.save_for_backward(inputs[0])
        ctx.power = inputs[1]

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Lower the power by one."""
        return gradient * ctx.power * ctx.saved_tensors[0] ** (ctx.power - 1), None


def result(**setup: Any) -> Any:
    """Run the check alone."""
    return nbdebug.diagnose(**setup, checks=["custom-backward-wrong"], progress=False).result("custom-backward-wrong")


def test_right_gradients_are_clean() -> None:
    assert result(**around(RightSwish)).status == "clean"

    class Squared(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return WithContext.apply(x, 2)

    model = nn.Sequential(nn.Linear(64, 32), Squared(), nn.Linear(32, 10))
    assert result(model=model, loader=digits(), loss_fn=nn.CrossEntropyLoss()).status == "clean"


def test_estimators_and_reversals_are_meant() -> None:
    for function in (Rounded, Turned):
        assert not [f for f in result(**around(function)).findings if f.is_alarm]


def test_names_the_argument() -> None:
    (finding,) = result(**sign_of_the_weight()).findings
    assert "`weight`" in finding.says and finding.evidence["given / measured"] < 0


def test_nothing_to_say_without_such_functions() -> None:
    found = result(model=nn.Linear(64, 10), loader=digits(), loss_fn=nn.CrossEntropyLoss())
    assert found.status == "skipped"
