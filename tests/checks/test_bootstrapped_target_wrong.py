"""Failing examples whose bootstrapped target is trained, or is kept only at the end of an episode."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from tests.checks.families import alarms_of
from tests.checks.objective_programs import Loss, Program, kinds, network, rows, trained
from tests.examples import failing_example

CHECK = "bootstrapped-target-wrong"


def values(target: Loss, compare: Loss = F.smooth_l1_loss) -> Program:
    """Return a program that learns values of actions; the target is made of reward, next values and ends."""
    model = network(4)
    older = copy.deepcopy(model).requires_grad_(False)
    done = torch.arange(96) % 6 == 0

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        state, action, reward, after, done = batch
        value = model(state).gather(1, action[:, None]).squeeze(1)
        return compare(value, target(reward, model(after), older(after), done))

    return trained(model, rows(), kinds(), rows()[:, 0], rows(seed=28), done, compute_loss=compute_loss)


@failing_example("bootstrapped-target-wrong", where="compute_loss")
def value_only_at_the_end() -> Program:
    """`done` stands in the place of `1 - done`."""
    return values(lambda reward, now, older, done: reward + 0.9 * older.max(1).values * done.float())
    # fixed: return values(lambda reward, now, older, done: reward + 0.9 * older.max(1).values * (~done).float())


@failing_example("bootstrapped-target-wrong", where="compute_loss")
def target_that_is_trained() -> Program:
    """The target is computed by the network itself, with a gradient."""
    return values(lambda reward, now, older, done: reward + 0.9 * now.max(1).values * (1 - done.float()))


SOUND: dict[str, Callable[[], Program]] = {
    "target-network": lambda: values(lambda r, now, older, done: r + 0.9 * older.max(1).values * ~done),
    "detached": lambda: values(lambda r, now, older, done: r + 0.9 * now.max(1).values.detach() * (1 - done.float())),
    "without-ends": lambda: values(lambda r, now, older, done: r + 0.9 * older.mean(1)),
    "residual-by-hand": lambda: values(
        lambda r, now, older, done: r + 0.9 * older.max(1).values * ~done,
        compare=lambda value, target: (value - target).square().mean(),
    ),
    "plain": lambda: values(lambda r, now, older, done: r),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_programs_are_silent(name: str) -> None:
    assert not alarms_of(SOUND[name], CHECK)
