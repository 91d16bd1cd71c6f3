"""Losses that are no plain comparison: metric learning, Gaussian processes, equations, agents, rankings."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from tests.field import program
from tests.zoo.samples import digit_rows, seeded


def layers(*widths: int) -> nn.Sequential:
    """Return linear layers with ReLU between them."""
    pairs = itertools.pairwise(widths)
    return nn.Sequential(*[m for i, o in pairs for m in (nn.Linear(i, o), nn.ReLU())][:-1])


def batches(*columns: torch.Tensor, batch_size: int = 64) -> DataLoader[Any]:
    """Return shuffled batches."""
    return DataLoader(TensorDataset(*columns), batch_size, shuffle=True, drop_last=True)


@program("parts", "pytorch_metric_learning", centers_in_no_optimizer=("parameters-missing-from-optimizer",))
def arcface_of_digits(fault: str = "") -> dict[str, Any]:
    """An embedding with an angular margin, whose loss has parameters of its own."""
    from pytorch_metric_learning.losses import ArcFaceLoss

    model, loss_fn = layers(64, 48, 16), ArcFaceLoss(10, 16, margin=28.6, scale=16)
    groups: list[dict[str, Any]] = [{"params": model.parameters()}]
    if fault != "centers_in_no_optimizer":
        groups.append({"params": loss_fn.parameters(), "lr": 1e-2})
    return {
        "model": model,
        "loader": batches(*digit_rows()),
        "loss_fn": loss_fn,
        "optimizer": torch.optim.Adam(groups, lr=1e-3),
    }


@program("loss", "pytorch_metric_learning")
def hard_triplets_of_digits(fault: str = "") -> dict[str, Any]:
    """An embedding that is trained on the hardest triplets of every batch."""
    from pytorch_metric_learning import losses, miners

    model, mine = layers(64, 48, 16), miners.BatchHardMiner()

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        embedded = model(batch[0])
        return loss_fn(embedded, batch[1], mine(embedded, batch[1]))

    return {
        "model": model,
        "loader": batches(*digit_rows()),
        "loss_fn": losses.TripletMarginLoss(margin=0.2),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }


@program("two players", teacher_trained_as_well=("representation-collapse", "moving-average-wrong"))
def student_and_average(fault: str = "") -> dict[str, Any]:
    """BYOL: a predictor on two views of a digit against a moving average of the network."""

    class Views(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.online = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 16))
            self.average = copy.deepcopy(self.online).requires_grad_(False)
            self.predict = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16))

        def forward(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
            if fault == "teacher_trained_as_well":
                return -F.cosine_similarity(self.online(one), self.online(other)).mean()
            with torch.no_grad():
                seen, wanted = self.average(one), self.average(other)
            first = F.cosine_similarity(self.predict(self.online(one)), wanted)
            return -(first + F.cosine_similarity(self.predict(self.online(other)), seen)).mean() / 2

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        x = batch[0]
        loss = model(x + 0.1 * torch.randn_like(x), x * (torch.rand_like(x) > 0.15))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for mean, now in zip(model.average.parameters(), model.online.parameters(), strict=True):
                mean.mul_(0.99).add_(now, alpha=0.01)
        return loss

    model = Views()
    trained = [*model.online.parameters(), *([] if fault else model.predict.parameters())]
    optimizer = torch.optim.Adam(trained, lr=1e-3)
    return {"model": model, "loader": batches(digit_rows()[0]), "train_step": train_step, "optimizer": optimizer}


@program("loss", "gpytorch", likelihood_brought_down=("loss-sign-flipped", "loss-unbounded-below"))
def gpytorch_regression(fault: str = "") -> dict[str, Any]:
    """An exact Gaussian process that is trained on its marginal likelihood."""
    import gpytorch

    x = torch.linspace(0, 1, 50)
    y = torch.sin(9 * x) + 0.1 * torch.randn(50, generator=seeded())

    class Process(gpytorch.models.ExactGP):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(x, y, gpytorch.likelihoods.GaussianLikelihood())
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        likelihood = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)(model(batch[0]), batch[1])
        loss = likelihood if fault else -likelihood
        loss.backward()
        optimizer.step()
        return loss

    model = Process().train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    return {"model": model, "loader": [(x, y)], "train_step": train_step, "optimizer": optimizer}


@program("parts", "torchdiffeq", field_detached=("loss-not-differentiable", "untrained-parameters"))
def torchdiffeq_spiral(fault: str = "") -> dict[str, Any]:
    """A neural differential equation that follows spirals."""
    from torchdiffeq import odeint

    times, turn = torch.linspace(0, 1, 6), torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
    start = torch.randn(200, 2, generator=seeded())
    paths = torch.stack([start @ torch.matrix_exp(turn * time).T for time in times], 1)

    class Field(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))

        def forward(self, time: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
            change = self.layers(state)
            return change.detach() if fault == "field_detached" else change

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        found = odeint(model, batch[0][:, 0], times, method="rk4").transpose(0, 1)
        return F.mse_loss(found, batch[0])

    model = Field()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    return {
        "model": model,
        "loader": batches(paths, batch_size=25),
        "compute_loss": compute_loss,
        "optimizer": optimizer,
    }


@program(
    "two players",
    average_reversed=("moving-average-wrong",),
    wrong_network_in_the_optimizer=("parameters-missing-from-optimizer", "step-never-taken"),
)
def q_learning_from_replay(fault: str = "") -> dict[str, Any]:
    """Deep Q-learning from a replay buffer, with a target network that follows slowly."""
    online = layers(3, 48, 3)
    target = copy.deepcopy(online).requires_grad_(False)

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        state, action, reward, after, done = batch
        with torch.no_grad():
            wanted = reward + 0.9 * (1 - done) * model["target"](after).max(1).values
        value = model["online"](state).gather(1, action[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(value, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        share = 0.99 if fault == "average_reversed" else 0.01
        with torch.no_grad():
            for slow, fast in zip(model["target"].parameters(), model["online"].parameters(), strict=True):
                if fault == "average_reversed":
                    fast.lerp_(slow, share)
                else:
                    slow.lerp_(fast, share)
        return loss

    g = seeded()
    state = torch.rand(600, 3, generator=g) * 2 - 1
    action = torch.randint(0, 3, (600,), generator=g)
    best = torch.bucketize(state[:, 0], torch.tensor([-0.3, 0.3]))
    reward = (action == best).float() + 0.1 * torch.randn(600, generator=g)
    after = (state + 0.2 * (action[:, None] - 1)).clamp(-1, 1)
    done = (torch.rand(600, generator=g) < 0.2).float()
    trained = target if fault == "wrong_network_in_the_optimizer" else online
    return {
        "model": {"online": online, "target": target},
        "loader": batches(state, action, reward, after, done),
        "train_step": train_step,
        "optimizer": torch.optim.Adam(trained.parameters(), lr=1e-3),
    }
