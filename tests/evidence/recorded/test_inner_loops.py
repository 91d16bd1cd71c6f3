"""Loops within loops: weights that are put back, and data that the model makes, are no illness of the outer one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from tests.examples import failing_recording
from tests.real_runs import mlp
from tests.zoo.tabular import digits

cross_entropy, mse_loss = nn.functional.cross_entropy, nn.functional.mse_loss


@failing_recording("repeated-batches", where="loader")
def batch_chosen_by_the_epoch() -> dict[str, Any]:
    """The wrong counter says which batch comes, so that each comes for a whole epoch."""
    batches = list(digits())
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with nbdebug.watch(model, optimizer) as live:
        for epoch in range(6):
            for _ in range(30):
                x, y = batches[epoch]
                optimizer.zero_grad()
                cross_entropy(model(x), y).backward()
                optimizer.step()
    return {"recording": live.recording()}


def put_back_by_data(parameter: torch.Tensor, old: torch.Tensor) -> None:
    parameter.data.copy_(old + 0.1 * (parameter.data - old))


def put_back_in_place(parameter: torch.Tensor, old: torch.Tensor) -> None:
    with torch.no_grad():
        parameter.copy_(old + 0.1 * (parameter - old))


@pytest.mark.parametrize("is_one_batch", [False, True])
@pytest.mark.parametrize("put_back", [put_back_by_data, put_back_in_place])
def test_tasks_that_are_learned_one_after_the_other(put_back: Callable[..., None], is_one_batch: bool) -> None:
    """Reptile: ten steps on a task, and then a small way from the old weights to those."""

    def task() -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
        high, phase = 0.1 + 4.9 * torch.rand(()), 3.14 * torch.rand(())

        def points() -> tuple[torch.Tensor, torch.Tensor]:
            x = 10 * torch.rand(10, 1) - 5
            return x, high * torch.sin(x + phase)

        return points

    model = nn.Sequential(nn.Linear(1, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.02)
    with nbdebug.watch(model, optimizer) as live:
        for _ in range(80):
            old, points = [p.detach().clone() for p in model.parameters()], task()
            x, y = points()
            for _ in range(10):
                x, y = (x, y) if is_one_batch else points()
                optimizer.zero_grad()
                mse_loss(model(x), y).backward()
                optimizer.step()
            for parameter, before in zip(model.parameters(), old, strict=True):
                put_back(parameter, before)
    # Before every tenth step, so that the first 64 have six.
    assert live.recording().tally.changed_outside == tuple(range(10, 65, 10))
    assert not live.report().alarms, [str(finding) for finding in live.report().alarms]


def test_data_that_the_model_makes_itself() -> None:
    """PPO: twenty steps on what the policy did, and then it does something else."""
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(policy.parameters(), 3e-3)
    rewards = []
    with nbdebug.watch(policy, optimizer) as live:
        for _ in range(20):
            states = torch.randn(100, 4)
            with torch.no_grad():
                drawn = [torch.distributions.Categorical(logits=policy(state)) for state in states]
            actions = torch.stack([one.sample() for one in drawn])
            chances = torch.stack([one.log_prob(action) for one, action in zip(drawn, actions, strict=True)])
            reward = ((states[:, 0] > 0).long() == actions).float()
            rewards.append(float(reward.mean()))
            gain = (reward - reward.mean()) / (reward.std() + 1e-8)
            for _ in range(20):
                now = torch.distributions.Categorical(logits=policy(states)).log_prob(actions)
                ratio = (now - chances).exp()
                loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    assert rewards[-1] > 0.9 > rewards[0]
    assert not live.report().alarms, [str(finding) for finding in live.report().alarms]


def test_an_ordinary_loop_changes_nothing_outside_of_its_steps() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with nbdebug.watch(model, optimizer) as live:
        for x, y in digits():
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
        model.double()  # another type is no other value
        optimizer.step()
    assert live.recording().tally.changed_outside == () and not live.recording().unseen
