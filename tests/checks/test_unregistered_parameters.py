"""Failing examples that hide their layers from torch."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits


class InAList(nn.Module):
    """Layers in a plain list."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(64, 64), nn.Linear(64, 64)]
        # fixed: self.layers = nn.ModuleList([nn.Linear(64, 64), nn.Linear(64, 64)])
        self.last = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Go through the list."""
        for layer in self.layers:
            x = layer(x).relu()
        return self.last(x)


class InADict(nn.Module):
    """A part of a part that keeps its heads in a dict of tuples."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Module()
        self.body.heads = {"one": (nn.Linear(64, 32), nn.Tanh())}
        self.last = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Use the hidden head."""
        linear, tanh = self.body.heads["one"]
        return self.last(tanh(linear(x)))


class PlainTensor(nn.Module):
    """A weight that is only a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = (0.1 * torch.randn(64, 32)).requires_grad_()
        self.last = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply by hand."""
        return self.last((x @ self.weight).relu())


class Warm(nn.Module):
    """A loss with a temperature that learns."""

    def __init__(self) -> None:
        super().__init__()
        self.temperature = nn.Parameter(torch.ones(()))

    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Scale and compare."""
        return nn.functional.cross_entropy(output * self.temperature, target)


def setup(model: nn.Module, loss_fn: Any = None, **more: Any) -> dict[str, Any]:
    """Train on digits."""
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    return {
        "model": model,
        "loader": digits(),
        "loss_fn": loss_fn or nn.CrossEntropyLoss(),
        "optimizer": optimizer,
    } | more


@failing_example("unregistered-parameters", where="layers")
def layers_in_a_list() -> dict[str, Any]:
    """A list instead of a ModuleList."""
    return setup(InAList())


@failing_example("unregistered-parameters", where="body.heads")
def layers_in_a_dict() -> dict[str, Any]:
    """A dict of tuples inside a submodule."""
    return setup(InADict())


@failing_example("unregistered-parameters", where="weight")
def weight_is_a_tensor() -> dict[str, Any]:
    """A tensor that asks for a gradient instead of a Parameter."""
    return setup(PlainTensor())


class MadeInForward(nn.Module):
    """A layer whose size is known when data come; `keep` keeps that of the first pass."""

    def __init__(self, keep: bool = False) -> None:
        super().__init__()
        self.first, self.last, self.keep, self.middle = nn.Linear(64, 32), nn.Linear(16, 10), keep, None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Make the layer in between."""
        x = self.first(x).relu()
        middle = self.middle or nn.Linear(x.shape[1], 16)
        if self.keep:
            self.middle = middle
        return self.last(middle(x).relu())


@failing_example("unregistered-parameters", where="model")
def layer_made_in_each_forward_pass() -> dict[str, Any]:
    """A layer that every pass creates anew."""
    return setup(MadeInForward())


@failing_example("unregistered-parameters", where="model")
def layer_made_behind_the_optimizer() -> dict[str, Any]:
    """A layer that the first pass creates, when the optimizer exists."""
    return setup(MadeInForward(keep=True))


@failing_example("unregistered-parameters", where="loss_fn.temperature")
def loss_learns_alone() -> dict[str, Any]:
    """The optimizer does not know of the loss's parameter."""
    return setup(nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)), Warm())


def severities(**setup: Any) -> list[str]:
    """Run the check alone."""
    report = nbdebug.diagnose(**setup, checks=["unregistered-parameters"], progress=False)
    assert report.results[0].status in ("found", "clean"), report.results[0]
    return [finding.severity for finding in report.findings]


def test_loss_in_the_optimizer_is_fine() -> None:
    """A temperature that the optimizer holds is trained."""
    model, loss = nn.Linear(64, 10), Warm()
    optimizer = torch.optim.Adam([*model.parameters(), *loss.parameters()])
    assert severities(model=model, loader=digits(), loss_fn=loss, optimizer=optimizer) == []


def test_critic_of_the_loss_is_no_stranger() -> None:
    """A second network that only the loss calls belongs to somebody else."""
    model, critic = nn.Linear(64, 64), nn.Linear(64, 1)

    def adversarial(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        return -critic(model(batch[0])).mean()

    assert severities(model=model, loader=digits(), compute_loss=adversarial) == []


def test_layers_that_wait_for_their_size_are_fine() -> None:
    """Lazy layers are parameters before they have a size, and a model may be run before its optimizer is made."""
    lazy = nn.Sequential(nn.LazyLinear(16), nn.ReLU(), nn.LazyLinear(10))
    assert severities(**setup(lazy)) == []
    model = MadeInForward(keep=True)
    assert severities(model=model, loader=digits(), loss_fn=nn.CrossEntropyLoss()) == []
    model(torch.zeros(2, 64))
    assert severities(**setup(model)) == []


def test_copies_that_learn_inside_the_loss_are_fine() -> None:
    """A loss that adapts a copy of the model creates no layer."""

    def adapted(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        return nn.functional.cross_entropy(model(batch[0]) + 0 * copy.deepcopy(model)(batch[0]), batch[1])

    assert severities(**setup(nn.Linear(64, 10), compute_loss=adapted)) == []


def test_hidden_but_unused_is_fine() -> None:
    """A list of layers that forward does not use is nobody's business."""
    model = nn.Linear(64, 10)
    model.spare = [nn.Linear(3, 3)]
    model.record = {"best": torch.zeros(3, requires_grad=True)}
    assert severities(**setup(model)) == []


def test_layers_without_weights_may_be_made_anywhere() -> None:
    """A loss that makes its activation and its criterion in each call trains nothing of its own."""

    class Loss(nn.Module):
        def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return nn.CrossEntropyLoss()(nn.Softplus()(output), target)

    assert severities(**{**setup(nn.Linear(64, 10)), "loss_fn": Loss()}) == []
