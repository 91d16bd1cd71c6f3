"""The state of a copied optimizer: not there before it is looked at, and the same as the live one from then on."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.core.control import Control
from nbdebug.experiments.tape import record
from nbdebug.sandbox import Sandbox, make_sandbox
from nbdebug.sandbox.late_state import LateState
from nbdebug.setup import Setup

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "Adam": lambda ps: torch.optim.Adam(ps, 1e-2),
    "AdamW, fused": lambda ps: torch.optim.AdamW(ps, 1e-2, fused=True),
    "SGD with momentum": lambda ps: torch.optim.SGD(ps, 1e-2, momentum=0.9),
    "RMSprop": lambda ps: torch.optim.RMSprop(ps, 1e-2),
    "Adafactor": lambda ps: torch.optim.Adafactor(ps, 1e-2),
}


def trained(make: Callable[[Any], torch.optim.Optimizer]) -> tuple[nn.Module, torch.optim.Optimizer, Setup]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = make(model.parameters())
    x, y = torch.randn(32, 6), torch.randint(0, 3, (32,))
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model, optimizer, Setup(model, DataLoader(TensorDataset(x, y), 8), nn.CrossEntropyLoss(), optimizer)


def values(optimizer: torch.optim.Optimizer) -> list[Any]:
    return [v for kept in optimizer.state.values() for v in kept.values()]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_copy_steps_like_the_live_one(name: str) -> None:
    model, optimizer, setup = trained(OPTIMIZERS[name])
    sandbox = make_sandbox(setup, Control())
    state = sandbox.optimizer.state
    assert isinstance(state, LateState) and not dict.__len__(state), "copied before it was needed"
    before = [copy.deepcopy(v) for v in values(optimizer)]
    batch = sandbox.batch()
    sandbox.plain_step(batch)
    assert all(
        torch.equal(torch.as_tensor(a), torch.as_tensor(b)) for a, b in zip(before, values(optimizer), strict=True)
    )
    assert {id(p) for p in sandbox.optimizer.state} == {id(p) for p in sandbox.model.parameters()}
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(batch.raw[0]), batch.raw[1]).backward()
    optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), sandbox.model.parameters(), strict=True))


def test_a_copy_of_the_copy_has_the_state() -> None:
    _, optimizer, setup = trained(OPTIMIZERS["Adam"])
    again = copy.deepcopy(make_sandbox(setup, Control()).optimizer)
    assert len(values(again)) == len(values(optimizer)) == 12
    loaded = torch.optim.Adam(nn.Linear(6, 8).parameters())
    loaded.load_state_dict({**optimizer.state_dict(), "state": {}, "param_groups": loaded.state_dict()["param_groups"]})
    assert not loaded.state


def test_tensors_that_share_memory_are_copied_together() -> None:
    _, optimizer, setup = trained(OPTIMIZERS["Adam"])
    first, second = (kept for kept in list(optimizer.state.values())[:2])
    second["exp_avg"] = first["exp_avg"]
    made = make_sandbox(setup, Control()).optimizer
    one, two = list(made.state.values())[:2]
    assert one["exp_avg"] is two["exp_avg"]


def held_after(run: Callable[[Sandbox], Any]) -> list[str]:
    """Return the tensors of a copy that only the garbage collector would free."""
    _, _, setup = trained(OPTIMIZERS["Adam"])
    sandbox = make_sandbox(setup, Control())
    run(sandbox)
    found = {name: weakref.ref(p) for name, p in sandbox.model.named_parameters()}
    gc.collect()
    gc.disable()
    try:
        del sandbox
        return [name for name, reference in found.items() if reference() is not None]
    finally:
        gc.enable()


def test_a_copy_goes_when_its_experiment_ends() -> None:
    """Or several would be there at a time, until the garbage collector comes."""
    assert not held_after(lambda sandbox: sandbox.plain_step(sandbox.batch()))
    assert not held_after(lambda sandbox: record(sandbox, sandbox.batch()))
