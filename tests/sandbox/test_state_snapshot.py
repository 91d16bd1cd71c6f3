"""What touches the user's things in spite of all is seen, named, and put back where that writes no tensor."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.sandbox.state_snapshot import StateSnapshot
from tests.trust.fingerprint import difference, fingerprint
from tests.trust.setups import adam, classify, mlp

VALUES = {
    "data": lambda m: m[0].weight.data.add_(1),
    "in place": lambda m: m[0].weight.detach().mul_(2),
    "numpy": lambda m: m[0].weight.detach().numpy().__setitem__(0, 9),
    "batch statistics": lambda m: m(torch.randn(4, 6)),
    "gradient in place": lambda m: m[3].weight.grad.add_(1),
}
STRUCTURE = {
    "attribute": lambda m: setattr(m, "new", 1),
    "hook": lambda m: m[0].register_forward_hook(lambda *_: None),
    "flag": lambda m: m.eval(),
    "parameter": lambda m: setattr(m[0], "weight", nn.Parameter(torch.zeros(8, 6))),
    "submodule": lambda m: m.append(nn.ReLU()),
    "new gradient": lambda m: m[0].weight.sum().backward(),
    "gradient gone": lambda m: m.zero_grad(),
}


def model() -> nn.Sequential:
    made = mlp(nn.BatchNorm1d(8), nn.ReLU())
    made[3].weight.grad = torch.ones(3, 8)
    return made


@pytest.mark.parametrize("touch", VALUES)
def test_values_are_named(touch: str) -> None:
    live = model()
    snapshot = StateSnapshot(live)
    assert not snapshot.touched()
    VALUES[touch](live)
    snapshot.restore()
    assert any(line.startswith("model") for line in snapshot.touched())


@pytest.mark.parametrize("touch", STRUCTURE)
def test_structure_is_put_back(touch: str) -> None:
    live = model()
    before, snapshot = fingerprint(live), StateSnapshot(live)
    STRUCTURE[touch](live)
    snapshot.restore()
    snapshot.restore()
    assert not difference(before, fingerprint(live))
    assert snapshot.touched()


def test_optimizer_state_is_seen() -> None:
    live = model()
    optimizer = adam(live, fused=True)
    optimizer.step()
    snapshot = StateSnapshot(live, optimizer)
    optimizer.step()
    assert any("exp_avg" in line for line in snapshot.touched())


def test_looking_is_cheap_and_changes_nothing() -> None:
    live = model()
    before = fingerprint(live)
    StateSnapshot(live).touched()
    assert not difference(before, fingerprint(live))


class Registry:
    """Hides a live model behind an attribute of a class, where no copy reaches."""

    models: Any = None


def test_a_session_says_it_loudly() -> None:
    class Reaching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = model()
            self.calls = torch.zeros(())  # neither parameter nor buffer: those are refused before they are written

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            Registry.models["main"].calls.add_(1)
            return self.body(x)

    live = Reaching()
    Registry.models = {"main": live}
    report = nbdebug.diagnose(**classify(live), checks=["forward-fails"], progress=False)
    assert any(note.startswith("ATTENTION") and "trial_run" in note for note in report.notes)
    assert live.body[0].weight.grad is None
