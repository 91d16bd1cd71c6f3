"""A reference with one changed layer: the first divergence is that layer, with its reason."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from tests.improve.digits import pixels


class Net(nn.Module):
    """A small convolutional network whose details can be got wrong."""

    def __init__(self, **wrong: Any) -> None:
        super().__init__()
        self.wrong = wrong
        self.conv = nn.Conv2d(1, 8, 3, padding=wrong.get("padding", 1))
        self.norm = nn.BatchNorm2d(8, eps=wrong.get("eps", 1e-5))
        self.act = wrong.get("act", nn.LeakyReLU)(*wrong.get("slope", ()))
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.norm(self.conv(x)) * self.wrong.get("scale", 1.0) + self.wrong.get("shift", 0.0)
        hidden = self.pool(self.act(hidden))
        if "swap" in self.wrong:
            hidden = hidden.transpose(2, 3)
        if "cut" in self.wrong:
            hidden = hidden.detach()
        return self.head(self.drop(hidden.flatten(1))) * self.wrong.get("sign", 1.0)


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    x, y = pixels()
    return x[:32].reshape(-1, 1, 8, 8), y[:32]


CASES: list[tuple[dict[str, Any], str, str]] = [
    ({"eps": 1e-2}, "norm", "eps is 0.01 instead of 1e-05"),
    ({"padding": 0}, "conv", "padding is (0, 0) instead of (1, 1)"),
    ({"slope": (0.3,)}, "act", "negative_slope is 0.3 instead of 0.01"),
    ({"act": nn.ReLU}, "act", "ReLU instead of LeakyReLU"),
    ({"scale": 0.125}, "before act", "a factor of 0.125"),
    ({"shift": 0.5}, "before act", "a constant 0.5 is added"),
    ({"swap": True}, "before drop", "another order along the last dimension"),
    ({"sign": -1.0}, "after head", "the sign is flipped"),
]


@pytest.mark.parametrize(("wrong", "place", "reason"), CASES, ids=[str(next(iter(case[0]))) for case in CASES])
def test_names_the_changed_layer(wrong: dict[str, Any], place: str, reason: str) -> None:
    result = nbdebug.compare(Net(**wrong), Net(), batch(), nn.CrossEntropyLoss(), progress=False)
    assert result.divergence is not None and result.divergence.direction == "forward"
    assert reason in result.divergence.reason
    assert result.divergence.layer == place


def test_agrees_with_itself_whatever_the_weights() -> None:
    result = nbdebug.compare(Net(), Net(), batch(), nn.CrossEntropyLoss(), progress=False)
    assert result.agrees and result.output_apart < 1e-9 and result.weights.how == "by name"
    assert not nbdebug.compare(Net(), Net(), batch(), share_weights=False, progress=False).agrees


def test_a_cut_graph_shows_in_the_gradients() -> None:
    result = nbdebug.compare(Net(cut=True), Net(), batch(), nn.CrossEntropyLoss(), progress=False)
    assert result.divergence is not None and result.divergence.direction == "backward"
    assert result.divergence.layer.startswith("norm.") and "no gradient" in result.divergence.reason


def test_other_names_are_mapped_by_order() -> None:
    """The same network written by somebody else, as a sequence, with one weight the other way round."""

    class Turned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.randn(32, 10)), nn.Parameter(torch.zeros(10))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.weight + self.bias

    reference = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
    ours = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.Tanh(), Turned())
    x, y = pixels()
    result = nbdebug.compare(ours, reference, (x[:16], y[:16]), nn.CrossEntropyLoss(), progress=False)
    assert result.agrees, str(result)
    assert result.weights.how == "by order" and result.weights.transposed == ("3.weight",)


def test_another_mode() -> None:
    model = Net()
    result = nbdebug.compare(model.eval(), Net(), batch(), progress=False)
    assert result.divergence is not None and result.divergence.direction == "mode"


def test_leaves_both_as_they_were() -> None:
    model, reference = Net(), Net()
    before = [copy.deepcopy(part.state_dict()) for part in (model, reference)]
    nbdebug.compare(model, reference, batch(), nn.CrossEntropyLoss(), progress=False)
    for part, known in zip((model, reference), before, strict=True):
        assert part.training and all(p.grad is None for p in part.parameters())
        assert all(torch.equal(known[name], value) for name, value in part.state_dict().items())


def test_written_down() -> None:
    result = nbdebug.compare(Net(eps=1e-2), Net(), batch(), progress=False)
    assert json.loads(json.dumps(result.to_dict()))["divergence"]["layer"] == "norm"
    assert "eps" in str(result)


BAD: list[Callable[[], Any]] = [
    lambda: nbdebug.compare(3, Net(), batch()),  # type: ignore[arg-type]
    lambda: nbdebug.compare(Net(), Net(), batch(), tolerance=0),
    lambda: nbdebug.compare(Net(), nn.Linear(3, 7), batch(), progress=False),
]


@pytest.mark.parametrize("call", BAD)
def test_bad_input(call: Callable[[], Any]) -> None:
    with pytest.raises(nbdebug.BadInput, match="compare"):
        call()
