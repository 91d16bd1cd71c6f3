"""Several networks and optimizers in the place of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.setup import Setup
from nbdebug.setup.several import SeveralOptimizers, as_one_optimizer
from tests.two_players import FAULTY, SOUND, adam, digits, encoder_and_decoder, gan, mlp

A, B = mlp(64, 8), mlp(64, 8)
STEP: Callable[..., Any] = lambda model, batch, loss_fn, optimizer: None  # noqa: E731


def alarms(made: dict[str, Any]) -> list[str]:
    """Return what is said without training, notes left out."""
    report = nbdebug.diagnose(**made, effort="quick", progress=False)
    crashed = [result.check for result in report.results if result.status == "crashed"]
    assert not crashed
    return [finding.check for finding in report.findings if finding.severity != "note"]


@pytest.mark.parametrize("make", SOUND, ids=lambda make: make.__name__)
def test_sound_programs_raise_no_alarm(make: Any) -> None:
    torch.manual_seed(0)
    assert alarms(make()) == []


@pytest.mark.parametrize(("make", "check"), FAULTY.items(), ids=lambda part: getattr(part, "__name__", part))
def test_faults_are_found(make: Any, check: str) -> None:
    torch.manual_seed(0)
    assert check in alarms(make())


def test_nothing_of_the_users_changes() -> None:
    made = gan()
    before = {name: [p.detach().clone() for p in part.parameters()] for name, part in made["model"].items()}
    nbdebug.diagnose(**made, effort="quick", progress=False)
    for name, part in made["model"].items():
        assert all(torch.equal(p, old) for p, old in zip(part.parameters(), before[name], strict=True))
        assert all(p.grad is None for p in part.parameters())
        assert not made["optimizer"][name].state
        assert part.training


def test_report_names_each_part() -> None:
    described = Setup(**gan()).description()
    assert described["model"] == "generator: Sequential, critic: Sequential"
    assert described["optimizer"] == "generator: Adam, critic: Adam"
    assert Setup(**encoder_and_decoder()).description()["optimizer"] == "0: Adam, 1: SGD"


def test_optimizers_are_reached_as_in_the_users_container() -> None:
    one, other = adam(A), torch.optim.SGD(B.parameters(), 0.1)
    as_dict, as_list = ({"a": one, "b": other}, [one, other])
    several = as_one_optimizer(as_dict, has_step=True)
    assert isinstance(several, SeveralOptimizers)
    assert several["b"] is other
    assert list(several) == ["a", "b"]
    assert dict(several.items()) == as_dict
    assert several.get("c") is None
    first, second = as_one_optimizer(as_list, has_step=True)
    assert (first, second) == (one, other)
    assert len(several.param_groups) == 2


def test_optimizers_step_and_clear_together() -> None:
    a, b = nn.Linear(2, 1), nn.Linear(2, 1)
    several = as_one_optimizer([torch.optim.SGD(p.parameters(), 0.1) for p in (a, b)], has_step=False)
    before = [p.detach().clone() for part in (a, b) for p in part.parameters()]
    (a(torch.ones(3, 2)) + b(torch.ones(3, 2))).sum().backward()
    several.step()
    after = [p for part in (a, b) for p in part.parameters()]
    assert not any(torch.equal(x, y) for x, y in zip(before, after, strict=True))
    several.zero_grad()
    assert all(p.grad is None for p in after)


WRONG: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "no program": ({"model": {"a": A, "b": B}}, ("model", "nothing says how they are called", "train_step")),
    "no network": ({"model": [A, "b"], "train_step": STEP}, ("model[1]", "it is a str", "torch.nn.Module")),
    "optimizer among networks": ({"model": {"a": A, "b": adam(A)}, "train_step": STEP}, ("model['b']", "optimizer=")),
    "key with a dot": ({"model": {"a.b": A, "c": B}, "train_step": STEP}, ("'a.b'", "rename the key")),
    "key of a method": ({"model": {"train": A, "c": B}, "train_step": STEP}, ("'train'", "rename the key")),
    "no optimizers": ({"model": A, "optimizer": []}, ("optimizer", "an empty list")),
    "network among optimizers": ({"model": A, "optimizer": {"a": adam(A), "b": B}}, ("optimizer['b']", "it is a Seq")),
    "one twice": ({"model": A, "optimizer": [OPT := adam(A), OPT]}, ("optimizer[1]", "the same object")),
    "a class": ({"model": A, "optimizer": [adam(A), torch.optim.SGD]}, ("optimizer[1]", "torch.optim.Optimizer")),
    "LBFGS without a step": (
        {"model": A, "optimizer": [adam(A), torch.optim.LBFGS(B.parameters())]},
        ("optimizer[1]", "closure", "train_step"),
    ),
    "schedulers": (
        {"model": A, "optimizer": OPT, "scheduler": [torch.optim.lr_scheduler.StepLR(OPT, 1)]},
        ("scheduler", "it is a list", "train_step"),
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_combinations_are_refused(case: str) -> None:
    made, said = WRONG[case]
    with pytest.raises(nbdebug.NbdebugError) as caught:
        Setup(**({"loader": digits()} | made))
    assert all(part in str(caught.value) for part in said), str(caught.value)
