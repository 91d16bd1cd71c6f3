"""Healthy set-ups whose loss, targets or sampling are out of the ordinary, and right."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from tests.examples import healthy
from tests.zoo.samples import cancer, digit_rows, friedman, seeded, setup, split, wine


def mlp(inputs: int, outputs: int, *last: nn.Module, width: int = 48) -> nn.Sequential:
    """A network with one hidden layer."""
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, outputs), *last)


@healthy(epochs=10, accuracy=0.9)
def sigmoid_and_bce() -> dict[str, Any]:
    """Probabilities go where probabilities are due."""
    return setup(mlp(30, 1, nn.Sigmoid()), split(*cancer(), batch_size=32), nn.BCELoss())


@healthy(epochs=5, accuracy=0.9)
def log_softmax_and_nll() -> dict[str, Any]:
    """Log-probabilities go where log-probabilities are due."""
    return setup(mlp(64, 10, nn.LogSoftmax(1)), split(*digit_rows()), nn.NLLLoss())


@healthy(epochs=6, good=lambda first, last: last < 0.6 * first, accuracy=0.9)
def label_smoothing() -> dict[str, Any]:
    """A loss that cannot reach zero."""
    return setup(mlp(64, 10), split(*digit_rows()), nn.CrossEntropyLoss(label_smoothing=0.1))


@healthy(epochs=6, good=lambda first, last: last < 0.8 * first, accuracy=0.9)
def soft_labels() -> dict[str, Any]:
    """Targets that are distributions over the classes, as a teacher gives them."""
    rows, labels = digit_rows()
    soft = 0.8 * nn.functional.one_hot(labels, 10) + 0.2 * torch.softmax(torch.randn(1797, 10, generator=seeded(1)), 1)
    return setup(mlp(64, 10), split(rows, soft.float()), nn.CrossEntropyLoss())


def rare_eights() -> tuple[torch.Tensor, torch.Tensor]:
    """Return all digits but most of the eights, and ask whether it is an eight: 50 against 1,623."""
    rows, labels = digit_rows()
    eights = (labels == 8).nonzero().flatten()
    keep = torch.cat([(labels != 8).nonzero().flatten(), eights[:50]])
    return rows[keep], (labels[keep] == 8).long()


@healthy(epochs=8, good=lambda first, last: last < 0.7 * first, accuracy=0.9)
def weighted_cross_entropy() -> dict[str, Any]:
    """A rare class that the loss weighs up."""
    loss_fn = nn.CrossEntropyLoss(weight=torch.tensor([0.52, 16.0]))
    return setup(mlp(64, 2), split(*rare_eights()), loss_fn)


@healthy(epochs=8, good=lambda first, last: last < 0.7 * first, accuracy=0.9)
def weighted_sampler() -> dict[str, Any]:
    """A rare class that is drawn as often as the others."""
    train, val = split(*rare_eights())
    labels = train.dataset.tensors[1]
    weights = (1.0 / torch.bincount(labels).double())[labels]
    data = DataLoader(train.dataset, 64, sampler=WeightedRandomSampler(weights, len(labels)))
    return setup(mlp(64, 2), (data, val), nn.CrossEntropyLoss())


@healthy(epochs=8, accuracy=0.9)
def multi_label() -> dict[str, Any]:
    """Four questions about each digit, answered independently: odd, large, round, prime."""
    rows, labels = digit_rows()
    sets = ({1, 3, 5, 7, 9}, {5, 6, 7, 8, 9}, {0, 6, 8, 9}, {2, 3, 5, 7})
    answers = torch.tensor([[float(int(label) in chosen) for chosen in sets] for label in labels])
    return setup(mlp(64, 4), split(rows, answers), nn.BCEWithLogitsLoss())


@healthy(epochs=10, accuracy=0.85)
def ordinal_levels() -> dict[str, Any]:
    """Ordered grades, each coded by the levels that it exceeds."""
    rows, target = friedman()
    levels = (target > torch.tensor([[-1.0, -0.3, 0.3, 1.0]])).float()
    return setup(mlp(10, 4), split(rows, levels, batch_size=32), nn.BCEWithLogitsLoss())


@healthy(epochs=10, good=lambda first, last: last < first - 0.3)
def poisson_counts() -> dict[str, Any]:
    """Counts, whose rate is the exponential of the output."""
    rows = torch.randn(800, 6, generator=seeded(2))
    rate = torch.exp(1 + 0.6 * rows[:, 0] - 0.4 * rows[:, 1] * rows[:, 2]).clamp(max=40)
    counts = torch.poisson(rate, generator=seeded(3))
    return setup(mlp(6, 1), split(rows, counts[:, None], batch_size=32), nn.PoissonNLLLoss())


class MeanAndSpread(nn.Module):
    """A network that says how sure it is."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 48), nn.ReLU())
        self.mean, self.spread = nn.Linear(48, 1), nn.Linear(48, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a mean and a variance that is positive."""
        hidden = self.body(x)
        return self.mean(hidden), nn.functional.softplus(self.spread(hidden)) + 1e-3


def gaussian_loss(output: tuple[torch.Tensor, torch.Tensor], target: torch.Tensor) -> torch.Tensor:
    """Judge mean and variance together; a good model makes it negative."""
    return nn.functional.gaussian_nll_loss(output[0], target, output[1])


@healthy(epochs=10, good=lambda first, last: last < first - 0.5)
def gaussian_with_two_outputs() -> dict[str, Any]:
    """A loss that may fall below zero, of two outputs."""
    return setup(MeanAndSpread(), split(*friedman(), batch_size=32), gaussian_loss)


@healthy(epochs=10, good=lambda first, last: last < 0.7 * first)
def huber_with_outliers() -> dict[str, Any]:
    """One target in fifty is far off, and the loss can bear it."""
    rows, target = friedman()
    target = target + 8 * (torch.rand(len(target), 1, generator=seeded(4)) < 0.02)
    return setup(mlp(10, 1), split(rows, target, batch_size=32), nn.HuberLoss())


class ScaledHead(nn.Module):
    """A network whose head knows the size of what it predicts."""

    def __init__(self, mean: float, spread: float) -> None:
        super().__init__()
        self.body, self.mean, self.spread = mlp(10, 1), mean, spread

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Predict in the units of the targets."""
        return self.mean + self.spread * self.body(x)


@healthy(epochs=10, good=lambda first, last: last < 0.3 * first)
def large_targets_handled() -> dict[str, Any]:
    """House prices around 200,000, which the head reaches."""
    rows, target = friedman()
    model = ScaledHead(2e5, 5e4)
    return setup(model, split(rows, 2e5 + 5e4 * target, batch_size=32), nn.MSELoss())


def two_terms(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross-entropy with a little punishment for large logits."""
    return nn.functional.cross_entropy(output, target) + 1e-3 * output.square().mean()


@healthy(epochs=15, accuracy=0.9)
def loss_of_two_terms() -> dict[str, Any]:
    """A function of one's own as the loss."""
    return setup(mlp(13, 3), split(*wine(), batch_size=16), two_terms)


def focal(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross-entropy that looks away from what is easy."""
    each = nn.functional.cross_entropy(output, target, reduction="none")
    return ((1 - torch.exp(-each)) ** 2 * each).mean()


@healthy(epochs=6, accuracy=0.9)
def focal_loss() -> dict[str, Any]:
    """The loss at chance is not ln C."""
    return setup(mlp(64, 10), split(*digit_rows()), focal)


@healthy(epochs=6, accuracy=0.9)
def summed_loss() -> dict[str, Any]:
    """A loss that is the sum over the batch, with a learning rate to match."""
    model = mlp(64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=2e-3, momentum=0.9)
    return setup(model, split(*digit_rows()), nn.CrossEntropyLoss(reduction="sum"), optimizer=optimizer)


@healthy(epochs=8, accuracy=0.9)
def binary_with_positive_weight() -> dict[str, Any]:
    """A flat vector of labels, squeezed outputs, and a weight for the rarer answer."""
    rows, labels = cancer()
    model = mlp(30, 1, nn.Flatten(0))
    loss_fn = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(0.6))
    return setup(model, split(rows, labels[:, 0], batch_size=32), loss_fn)


@healthy(epochs=10, good=lambda first, last: last < 0.3 * first)
def flat_regression() -> dict[str, Any]:
    """Targets of shape (N,) and a model that squeezes its last dimension."""
    rows, target = friedman()
    data = DataLoader(TensorDataset(rows, target[:, 0]), 32, shuffle=True)
    model = mlp(10, 1, nn.Flatten(0))
    return {
        "model": model, "loader": data, "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }  # fmt: skip
