"""Averaged weights that are no average."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from tests.checks.networks import WIDTH, alarms, blend, classifier, copied, loader, taught
from tests.examples import failing_example

CHECK = "moving-average-wrong"


@failing_example(CHECK, where="teacher")
def decay_reversed() -> dict[str, Any]:
    """The teacher takes 99 % from the student."""
    return taught(blend(0.01))  # fixed: return taught(blend(0.99))


@failing_example(CHECK, where="teacher")
def teacher_in_the_optimizer() -> dict[str, Any]:
    """Weight decay moves the teacher as well."""
    return taught(blend(0.99), trained=True, model=nn.Sequential(nn.Linear(WIDTH, 2)))


class Agent(nn.Module):
    """Action values, with a target network in the same module."""

    def __init__(self) -> None:
        super().__init__()
        self.online = nn.Sequential(nn.Linear(WIDTH, 16), nn.ReLU(), nn.Linear(16, 3))
        self.target = copy.deepcopy(self.online).requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the online values."""
        return self.online(x)


def agent(sync: Any) -> dict[str, Any]:
    """Return an agent whose target network is updated in this way."""
    model, calls = Agent(), [0]

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        x = batch[0]
        optimizer.zero_grad()
        with torch.no_grad():
            wanted = x[:, :1] + 0.9 * model.target(x.roll(1, 0)).max(1, keepdim=True).values
        loss = nn.functional.smooth_l1_loss(model.online(x)[:, :1], wanted)
        loss.backward()
        optimizer.step()
        calls[0] += 1
        with torch.no_grad():
            sync(model.target, model.online, calls[0])
        return loss

    optimizer = torch.optim.Adam(model.online.parameters(), 1e-3)
    return {"model": model, "loader": loader(), "optimizer": optimizer, "train_step": step}


@failing_example(CHECK, where="target")
def target_copied_in_every_step() -> dict[str, Any]:
    """The target is always the online network."""
    return agent(lambda slow, fast, step: copied(slow, fast))


@failing_example(CHECK, where="target")
def target_loads_its_own_weights() -> dict[str, Any]:
    """Every eighth step, from the wrong network."""

    def refresh(slow: nn.Module, fast: nn.Module, step: int) -> None:
        if step % 8 == 0:
            slow.load_state_dict(slow.state_dict())  # fixed: slow.load_state_dict(fast.state_dict())

    return agent(refresh)


def target_copied_seldom() -> dict[str, Any]:
    """Every third step, for a short test."""
    return agent(lambda slow, fast, step: copied(slow, fast) if step % 3 == 0 else None)


def target_never_copied_here() -> dict[str, Any]:
    """The outer loop does it."""
    return agent(lambda slow, fast, step: None)


def decay_that_warms_up() -> dict[str, Any]:
    """The decay rises from 0.18."""
    return agent(lambda slow, fast, step: blend(min(0.999, (1 + step) / (10 + step)))(slow, fast))


def averaged_by_torch() -> dict[str, Any]:
    """The mean over all steps, by torch's own class."""
    model = classifier()
    averaged = torch.optim.swa_utils.AveragedModel(model)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        averaged.update_parameters(model)
        return loss

    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return {"model": model, "loader": loader(targets=True), "optimizer": optimizer, "train_step": step}


def old_policy() -> dict[str, Any]:
    """Several updates against the policy as it was before, as in PPO."""
    policy = classifier()
    old = copy.deepcopy(policy)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        old.load_state_dict(model.state_dict())
        for _ in range(3):
            optimizer.zero_grad()
            with torch.no_grad():
                before = old(batch[0]).log_softmax(1).gather(1, batch[1][:, None])
            ratio = (model(batch[0]).log_softmax(1).gather(1, batch[1][:, None]) - before).exp()
            loss = -torch.minimum(ratio, ratio.clamp(0.8, 1.2)).mean()
            loss.backward()
            optimizer.step()
        return loss

    optimizer = torch.optim.Adam(policy.parameters(), 1e-3)
    return {"model": policy, "loader": loader(targets=True), "optimizer": optimizer, "train_step": step}


def slow_teacher() -> dict[str, Any]:
    """As it should be."""
    return taught(blend(0.99))


@pytest.mark.parametrize(
    "make",
    [slow_teacher, target_copied_seldom, target_never_copied_here, decay_that_warms_up, averaged_by_torch, old_policy],
    ids=lambda make: make.__name__,
)
def test_silent(make: Any) -> None:
    assert not alarms(CHECK, **make())
    assert not alarms("optimizer-without-effect", **make())
    assert not alarms("parameters-missing-from-optimizer", **make())


@failing_example(CHECK, where="model")
def best_weights_kept_by_reference() -> dict[str, Any]:
    """What is to be restored is the network itself."""
    model, kept = classifier(), {"calls": 0, "best": None}

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        kept["calls"] += 1
        if kept["calls"] % 8 == 1:
            kept["best"] = model.state_dict()  # fixed: kept["best"] = copy.deepcopy(model.state_dict())
        if kept["calls"] % 8 == 0:
            model.load_state_dict(kept["best"])
        return loss

    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return {"model": model, "loader": loader(targets=True), "optimizer": optimizer, "train_step": step}


def normalized_teacher(*, buffers: bool) -> dict[str, Any]:
    """A teacher with running statistics, in eval mode."""
    model = nn.Sequential(nn.Linear(WIDTH, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
    teacher = copy.deepcopy(model).requires_grad_(False).eval()

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        output = model(batch[0])
        loss = nn.functional.cross_entropy(output, batch[1]) + (output - teacher(batch[0])).square().mean()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            blend(0.95)(teacher, model)
            for slow, fast in zip(teacher.buffers(), model.buffers(), strict=True) if buffers else ():
                slow.copy_(fast)
        return loss

    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    return {"model": model, "loader": loader(targets=True), "optimizer": optimizer, "train_step": step}


@failing_example(CHECK, where="teacher")
def statistics_left_behind() -> dict[str, Any]:
    """Only the parameters are averaged."""
    return normalized_teacher(buffers=False)  # fixed: return normalized_teacher(buffers=True)
