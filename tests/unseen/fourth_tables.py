"""A fourth round: what goes wrong in tutorials on tables, as forums tell it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from tests.unseen import unseen
from tests.zoo.samples import digit_rows, friedman, raw_cancer, seeded, setup, split
from tests.zoo.tutorial_graphs import GraphNet, graphs
from tests.zoo.tutorial_tables import Averaged, Factors, TwoTasks, deep, rare_events, ratings, two_answers


@unseen("samples-dropped", "repeated-batches", "duplicate-samples", "constant-inputs")
def weights_of_classes_drawn() -> dict[str, Any]:
    """The sampler wants a weight for each sample and gets one for each class."""
    rows, labels = rare_events()
    sampler = WeightedRandomSampler((1.0 / torch.bincount(labels.long())).tolist(), len(labels), replacement=True)
    train = DataLoader(TensorDataset(rows[:1200], labels[:1200].long()), 64, sampler=sampler)
    val = DataLoader(TensorDataset(rows[1200:], labels[1200:].long()), 256)
    return setup(deep(16, 2), (train, val), nn.CrossEntropyLoss(), 2e-3)


@unseen("forward-fails", "sample-fails", "invalid-labels")
def users_count_from_one() -> dict[str, Any]:
    """The last user is outside the table."""
    user, item, stars = ratings()
    return setup(Factors(120, 80), split(user + 1, item, stars, batch_size=128), nn.MSELoss(), 1e-2)


def first_task_only(model: TwoTasks, batch: Any, loss_fn: Any) -> torch.Tensor:
    """The loss of the second head is computed and left lying."""
    x, digit, ink = batch
    out = model(x)
    loss = F.cross_entropy(out["digit"], digit)
    loss + F.mse_loss(out["ink"], ink)
    return loss


@unseen("untrained-parameters", "loss-ignores-targets", where=("ink", "log_vars"))
def second_head_left_lying() -> dict[str, Any]:
    """`loss + …` for `loss += …`."""
    return setup(TwoTasks(), split(*two_answers()), compute_loss=first_task_only, lr=2e-3)


@unseen("missing-nonlinearity")
def linear_after_linear() -> dict[str, Any]:
    """Four layers, and no activation between them."""
    model = nn.Sequential(nn.Linear(10, 64), nn.Linear(64, 64), nn.Dropout(0.1), nn.Linear(64, 32), nn.Linear(32, 1))
    return setup(model, split(*friedman(), batch_size=32), nn.MSELoss())


class HeadsInADict(nn.Module):
    """Heads that the module does not know of."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
        self.heads = {"digit": nn.Linear(64, 10), "even": nn.Linear(64, 2)}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of both questions."""
        return torch.cat([head(self.trunk(x)) for head in self.heads.values()], 1)


def both_questions(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Which digit, and whether it is even."""
    return F.cross_entropy(scores[:, :10], labels) + F.cross_entropy(scores[:, 10:], labels % 2)


@unseen("unregistered-parameters")
def heads_in_a_dict() -> dict[str, Any]:
    """A dict for `nn.ModuleDict`."""
    return setup(HeadsInADict(), split(*digit_rows()), both_questions)


def entropy_by_hand(p: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Binary cross-entropy without anything to save the logarithm."""
    return -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()


@unseen(
    "non-finite-loss", "non-finite-backward", "unnormalized-inputs", "feature-scales-differ", "saturated-units",
    "activations-off-scale",
)  # fmt: skip
def logarithm_of_a_full_sigmoid() -> dict[str, Any]:
    """Columns as they were measured, a sigmoid that is full, and a logarithm by hand."""
    model = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 1), nn.Sigmoid())
    return setup(model, split(*raw_cancer(), batch_size=32), entropy_by_hand)


@unseen("activations-off-scale", "exploding-gradients", "initial-loss-off", "initialization-off-scale")
def sums_over_neighbors() -> dict[str, Any]:
    """Eight rounds in which neighbors are added up and never averaged."""
    return graphs(GraphNet(rounds=8, mean=False))


class AverageTakenBack(Averaged):
    """The average is written into the model, after every step."""

    def __call__(self, model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        """Train, and undo nearly all of it."""
        loss = super().__call__(model, batch, loss_fn, optimizer)
        model.load_state_dict(self.average.state_dict())
        return loss


@unseen("step-never-taken", "learning-rate-too-low", "update-ratio-off", "loss-flat", "cannot-overfit-batch")
def average_taken_back() -> dict[str, Any]:
    """The slow weights replace the fast ones: a hundredth of each step is left."""
    model = deep(64, 10)
    return setup(model, split(*digit_rows()), nn.CrossEntropyLoss(), train_step=AverageTakenBack(model))


@unseen("clamped-output", "initial-loss-off", "wrong-loss-for-task")
def rate_taken_for_its_logarithm() -> dict[str, Any]:
    """`Softplus` at the end, and a loss that takes the exponential once more."""
    rows = torch.randn(900, 5, generator=seeded(32))
    rate = torch.exp(0.6 * rows[:, :1] - 0.5 * rows[:, 1:2]).clamp(max=6)
    visits = torch.poisson(rate, generator=seeded(33))
    model = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 1), nn.Softplus())
    return setup(model, split(rows, visits, batch_size=32), nn.PoissonNLLLoss())


def forgotten_parentheses(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """A method that is named and not called."""
    optimizer.zero_grad  # noqa: B018
    loss: torch.Tensor = loss_fn(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss


@unseen("accumulated-gradients")
def zero_grad_named_only() -> dict[str, Any]:
    """`optimizer.zero_grad` without its parentheses."""
    model = deep(10, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    data = split(*friedman(), batch_size=32)
    return setup(model, data, nn.MSELoss(), optimizer=optimizer, train_step=forgotten_parentheses)
