"""Healthy learners of values and choices from logged data."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from tests.examples import healthy
from tests.zoo.samples import digit_rows, seeded, setup, split


class Transitions(Dataset[Any]):
    """A log of a walk on a line: the goal is at the right end, and steps fail now and then."""

    def __init__(self, count: int = 2000) -> None:
        generator = seeded(5)
        place = torch.rand(count, generator=generator) * 2 - 1
        action = torch.randint(0, 2, (count,), generator=generator)
        step = (action * 2 - 1) * 0.25 + 0.05 * torch.randn(count, generator=generator)
        after = (place + step).clamp(-1, 1)
        self.done, self.reward = after > 0.9, (after > 0.9).float() - 0.05
        self.state, self.after = (torch.stack([s, s.square(), torch.sin(3 * s)], 1) for s in (place, after))
        self.action = action

    def __len__(self) -> int:
        """Count the steps."""
        return len(self.action)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        """Return one step by names."""
        names = ("state", "action", "reward", "after", "done")
        return {name: getattr(self, name)[index] for name in names}


class QNetwork(nn.Module):
    """Values of both actions, and an older copy of itself that says what comes after."""

    def __init__(self) -> None:
        super().__init__()
        self.online = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
        self.older = copy.deepcopy(self.online).requires_grad_(False)

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        """Return the value of each action."""
        return self.online(state)


def td_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Compare the value with the reward and the best value after, as the older copy sees it."""
    value = model(batch["state"]).gather(1, batch["action"][:, None])[:, 0]
    with torch.no_grad():
        best = model.older(batch["after"]).max(1).values
    return F.smooth_l1_loss(value, batch["reward"] + 0.9 * best * (~batch["done"]))


def q_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """Take a step, and let the older copy follow slowly."""
    optimizer.zero_grad(set_to_none=True)
    loss = td_loss(model, batch, loss_fn)
    loss.backward()
    nn.utils.clip_grad_norm_(model.online.parameters(), 10.0)
    optimizer.step()
    with torch.no_grad():
        for old, new in zip(model.older.parameters(), model.online.parameters(), strict=True):
            old.lerp_(new, 0.02)
    return loss


def values(**more: Any) -> dict[str, Any]:
    """Put the learner of values together."""
    model = QNetwork()
    optimizer = torch.optim.Adam(model.online.parameters(), lr=1e-3)
    return {"model": model, "loader": DataLoader(Transitions(), 64, shuffle=True), "optimizer": optimizer, **more}


@healthy(epochs=20, good=lambda first, last: last < 0.6 * first)
def values_of_actions() -> dict[str, Any]:
    """Deep Q-learning from a log, with a target network that nobody trains by gradient."""
    return values(compute_loss=td_loss, train_step=q_step)


def bandit() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return contexts, actions that chance took, and whether they paid: a digit pays if it is named."""
    rows, labels = digit_rows()
    labels = labels % 4
    action = torch.randint(0, 4, labels.shape, generator=seeded(6))
    return rows, action, (action == labels).float()


def importance_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """The reward of the log, weighted by how likely the policy is to do the same."""
    x, action, reward = batch
    chance = model(x).softmax(1).gather(1, action[:, None])[:, 0]
    return -(reward * chance / 0.25).mean()


@healthy(epochs=30, good=lambda first, last: last < first - 0.2 and last < -0.75)
def policy_from_a_log() -> dict[str, Any]:
    """A loss below zero whose best value depends on the rewards."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
    return setup(model, split(*bandit(), batch_size=128), compute_loss=importance_loss)
