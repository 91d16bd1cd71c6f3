"""Changing the weights of a copy changes its outputs; where it does not, only live tensors in the run are a leak."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

import nbdebug
from nbdebug.core.control import Control
from nbdebug.errors import SandboxRefused
from nbdebug.sandbox import make_sandbox
from nbdebug.sandbox.weight_perturbation import outputs_change
from nbdebug.setup import Setup
from tests.sandbox.odd_models import HEALTHY, WITHOUT_WEIGHTS, Lazy
from tests.sandbox.verified_copies import changes, sandbox_of
from tests.sandbox.wrapped_models import MODELS, Net, made


@pytest.mark.parametrize("name", MODELS)
def test_outputs_change_with_the_weights(name: str) -> None:
    assert changes(MODELS[name]) is True


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy(name: str) -> None:
    if name == "lazy":
        sandbox = make_sandbox(Setup(Lazy(), made(Net)["loader"], nn.CrossEntropyLoss()), Control())
        assert outputs_change(sandbox, sandbox.batch()) is True
    else:
        assert changes(HEALTHY[name]) is True


@pytest.mark.parametrize("kind", WITHOUT_WEIGHTS)
def test_outputs_without_weights_are_no_leak(kind: type[nn.Module]) -> None:
    assert changes(kind) is False
    report = nbdebug.diagnose(**made(kind), checks=["forward-fails", "untrained-parameters"], progress=False)
    assert not [note for note in report.notes if "on its own" in note]
    assert [note for note in report.notes if "did not change when all of its weights" in note]


def test_no_parameters() -> None:
    loader = made(Net)["loader"]
    sandbox = make_sandbox(Setup(nn.Identity(), loader, nn.CrossEntropyLoss()), Control())
    assert outputs_change(sandbox, sandbox.batch()) is None


def test_it_costs_two_passes_once() -> None:
    entered: list[str] = []
    sandbox = sandbox_of(Net)
    watch = nn.modules.module.register_module_forward_pre_hook(
        lambda module, args: entered.append(type(module).__name__)
    )
    try:
        sandbox.forward(sandbox.batch())
        assert entered.count("Net") == 3
        sandbox.fresh().forward(sandbox.batch())
        assert entered.count("Net") == 4
    finally:
        watch.remove()


def test_generators_and_the_copy_stay_as_they_were() -> None:
    sandbox = sandbox_of(lambda: nn.Sequential(nn.BatchNorm1d(20), nn.Dropout(0.5), Net()))
    again, batch = sandbox.fresh(), sandbox.batch()
    states = []
    for copied in (sandbox, again):  # the first is verified before it runs
        torch.manual_seed(5), np.random.seed(5), random.seed(5)
        output = copied.forward(batch)
        tensors = [t.clone() for t in (output.detach(), *copied.model.state_dict().values(), torch.get_rng_state())]
        states.append((tensors, np.random.random(), random.random()))
    assert all(torch.equal(a, b) for a, b in zip(states[0][0], states[1][0], strict=True))
    assert states[0][1:] == states[1][1:]


def test_an_interrupt_is_no_verification() -> None:
    sandbox = sandbox_of(Net)
    batch = sandbox.batch()
    sandbox.fresh = lambda: sandbox.control.interrupted.set() or make_sandbox(sandbox.setup, sandbox.control)  # type: ignore
    with pytest.raises(KeyboardInterrupt):
        sandbox.forward(batch)
    assert sandbox.setup.isolation == {}


@torch.compile(backend="eager")
def doubled(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) * 2


class Doubling(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(doubled(self.fc1(x)))


def test_no_graph_break_in_a_compiled_function() -> None:
    """After one, torch may give up on a function of the user's for the whole process."""
    sandbox = sandbox_of(Doubling)
    counters.clear()
    sandbox.forward(sandbox.batch())
    assert counters["frames"]["ok"] == counters["frames"]["total"] > 0 and not counters["unimplemented"]


def test_a_copy_that_cannot_be_made_twice_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = sandbox_of(Net)
    tries: list[int] = []

    def fresh() -> Any:
        tries.append(1)
        raise SandboxRefused("no memory is left")

    monkeypatch.setattr(sandbox, "fresh", fresh)
    sandbox.forward(sandbox.batch())
    sandbox.forward(sandbox.batch())
    assert len(tries) == 1 and not any(sandbox.setup.isolation.values())
