"""By whichever way values leave the graph, the patched copy keeps them in it; without the patch the gradient is cut."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from nbdebug.core.control import Control
from nbdebug.core.remedy import Patch, Remedy
from nbdebug.sandbox import make_sandbox
from nbdebug.setup import Setup
from tests.zoo.tabular import digits


class Cut(nn.Module):
    """A body whose result goes to the head by a way that may lose the graph."""

    def __init__(self, way: Callable[[Cut, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.body, self.head, self.scale = nn.Linear(64, 8), nn.Linear(8, 10), nn.Parameter(torch.tensor(1.5))
        self.way = way

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Answer by what the way leaves."""
        return self.head(self.way(self, x))


def without_gradients(model: Cut, x: torch.Tensor) -> torch.Tensor:
    """Run the body as an evaluation would."""
    with torch.no_grad():
        return model.body(x)


def by_slope(model: Cut, x: torch.Tensor) -> torch.Tensor:
    """Take a gradient inside of the forward, without a graph of its own."""
    x = x.detach().requires_grad_()
    (slope,) = torch.autograd.grad(model.body(x).tanh().sum(), x)
    return slope[:, :8]


WAYS: dict[str, tuple[str, Callable[[Cut, torch.Tensor], torch.Tensor]]] = {
    "detach": ("body.weight", lambda model, x: model.body(x).detach()),
    "data": ("body.weight", lambda model, x: model.body(x).data),
    "no_grad": ("body.weight", without_gradients),
    "numpy": ("body.weight", lambda model, x: torch.from_numpy(model.body(x).detach().numpy())),
    "array": ("body.weight", lambda model, x: torch.as_tensor(np.asarray(model.body(x).detach().cpu()))),
    "list": ("body.weight", lambda model, x: torch.tensor(model.body(x).tolist())),
    "item": ("scale", lambda model, x: model.scale.item() * x[:, :8]),
    "float": ("scale", lambda model, x: x[:, :8] / float(model.scale.exp())),
    "copy": ("body.weight", lambda model, x: copy.deepcopy(model.body)(x)),
    "slope": ("body.weight", by_slope),
}


def gradient(way: str, *patches: str) -> torch.Tensor | None:
    """Return the gradient of what the way cuts off, on a copy with these patches."""
    name, function = WAYS[way]
    torch.manual_seed(0)
    setup = Setup(Cut(function), digits(), nn.CrossEntropyLoss())
    for patch in patches:
        setup = Remedy("", "", Patch(patch)).apply(setup)
    sandbox = make_sandbox(setup, Control())
    sandbox.run(sandbox.batch()).loss.backward()
    return dict(sandbox.model.named_parameters())[name].grad


@pytest.mark.filterwarnings("ignore:Converting a tensor")
@pytest.mark.parametrize("way", WAYS)
def test_the_graph_is_kept(way: str) -> None:
    """The part that was cut off learns; before, nothing came to it."""
    cut, kept = gradient(way), gradient(way, "keep-graph")
    assert cut is None or not cut.any()
    assert kept is not None and bool(kept.any()) and bool(torch.isfinite(kept).all())


def test_the_values_stay_what_they_were() -> None:
    """Only the graph is another: the outputs of the patched copy are the same, bit by bit."""
    for _, function in WAYS.values():
        torch.manual_seed(0)
        setup = Setup(Cut(function), digits(), nn.CrossEntropyLoss())
        patched = Remedy("", "", Patch("keep-graph")).apply(setup)
        plain, kept = (make_sandbox(one, Control()) for one in (setup, patched))
        batch = plain.batch()
        assert torch.equal(plain.forward(batch.clone()), kept.forward(batch.clone()))
