"""A third round: what goes wrong in flows, denoisers, agents and equations."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.unseen import unseen
from tests.zoo.odd_agents import QNetwork, bandit, q_step, td_loss, values
from tests.zoo.odd_generators import RealNvp, diffusion_of_points, moons
from tests.zoo.odd_physics import (
    Hamiltonian,
    movement_from_an_energy,
)
from tests.zoo.samples import cancer, setup, split


def likelihood_as_a_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """The minus was forgotten."""
    return model(batch[0]).mean()


@unseen("loss-sign-flipped")
def likelihood_brought_down() -> dict[str, Any]:
    """A flow whose likelihood is made small."""
    return setup(RealNvp(), split(moons()), compute_loss=likelihood_as_a_loss)


def other_noise(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
    """The noise that was added is not the noise that is asked for."""
    (x,) = batch
    t = torch.randint(0, 50, (len(x),))
    kept = model.kept[t, None]
    return loss_fn(model(kept.sqrt() * x + (1 - kept).sqrt() * torch.randn_like(x), t), torch.randn_like(x))


@unseen("cannot-overfit-batch", "labels-unrelated-to-inputs", "loss-flat", "worse-than-baseline")
def noise_drawn_twice() -> dict[str, Any]:
    """Nothing can be learnt from a target that is drawn anew."""
    return {**diffusion_of_points(), "compute_loss": other_noise}


@unseen("parameters-missing-from-optimizer", "step-never-taken", where="online")
def optimizer_of_the_older_copy() -> dict[str, Any]:
    """The target network is given to the optimizer."""
    made = values(compute_loss=td_loss, train_step=q_step)
    return {**made, "optimizer": torch.optim.Adam(made["model"].older.parameters(), lr=1e-3)}


def broadcast_td(model: QNetwork, batch: Any, loss_fn: Any) -> torch.Tensor:
    """A column against a row."""
    value = model(batch["state"]).gather(1, batch["action"][:, None])
    with torch.no_grad():
        best = model.older(batch["after"]).max(1).values
    return F.smooth_l1_loss(value, batch["reward"] + 0.9 * best * (~batch["done"]))


@unseen("incompatible-target-shape")
def values_against_all_rewards() -> dict[str, Any]:
    """`gather` without taking the column away again."""
    return values(compute_loss=broadcast_td)


def counted_reward(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """The reward of those actions that the policy would have taken."""
    x, action, reward = batch
    same = (model(x).argmax(1) == action).float()
    return -(reward * same / 0.25).mean() + 0 * model(x).sum()


@unseen("loss-not-differentiable")
def reward_of_the_best_action() -> dict[str, Any]:
    """argmax in the place of a probability."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
    return setup(model, split(*bandit(), batch_size=128), compute_loss=counted_reward)


class FlatHamiltonian(Hamiltonian):
    """The slope is taken without its own graph."""

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        """Return the movement."""
        with torch.enable_grad():
            state = state.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self.energy(state).sum(), state)
        return torch.stack([slope[:, 1], -slope[:, 0]], 1)


@unseen("loss-not-differentiable", "untrained-parameters", "forward-fails")
def slope_without_a_graph() -> dict[str, Any]:
    """create_graph=True is missing."""
    made = movement_from_an_energy()
    model = FlatHamiltonian()
    return {**made, "model": model, "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3)}


class LateStatistics(nn.Module):
    """Batch norm whose running averages hardly move."""

    def __init__(self) -> None:
        super().__init__()
        self.rise = nn.Sequential(nn.Linear(30, 48), nn.BatchNorm1d(48, momentum=1e-4), nn.ReLU())
        self.out = nn.Linear(48, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return one logit."""
        return self.out(self.rise(4 * x + 6))


@unseen("train-eval-gap", "batchnorm-misused", where="rise.1")
def statistics_that_never_arrive() -> dict[str, Any]:
    """momentum=1e-4, as another library would mean 0.9999."""
    return setup(LateStatistics(), split(*cancer()), nn.BCEWithLogitsLoss())
