"""Healthy set-ups on tables as tutorials write them: prices, rare events, recommendations, several tasks, graphs."""

from __future__ import annotations

import copy
from typing import Any

import torch
from sklearn.datasets import make_classification, make_friedman1, make_multilabel_classification
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from tests.examples import healthy
from tests.zoo.samples import digit_images, digit_rows, iris, scaled, seeded, setup, split


def deep(inputs: int, outputs: int, width: int = 64, dropout: float = 0.1) -> nn.Sequential:
    """Two hidden layers with dropout."""
    return nn.Sequential(
        nn.Linear(inputs, width), nn.ReLU(), nn.Dropout(dropout),
        nn.Linear(width, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, outputs),
    )  # fmt: skip


@healthy(epochs=12, good=lambda first, last: last < 0.3 * first)
def prices_as_they_are() -> dict[str, Any]:
    """Targets between 0 and 30 that nobody has standardized, under `SmoothL1Loss`."""
    rows, target = make_friedman1(900, noise=0.5, random_state=1)
    price = torch.tensor(target, dtype=torch.float32)[:, None]
    return setup(deep(10, 1), split(scaled(rows), price, batch_size=32), nn.SmoothL1Loss(), 3e-3)


def rare_events() -> tuple[torch.Tensor, torch.Tensor]:
    """Return a table of which six rows in a hundred are events."""
    rows, labels = make_classification(
        1600, 16, n_informative=8, n_redundant=2, weights=[0.94], class_sep=1.5, flip_y=0.0, random_state=2
    )
    return scaled(rows), torch.tensor(labels, dtype=torch.float32)


@healthy(epochs=8, good=lambda first, last: last < 0.6 * first)
def rare_events_weighted() -> dict[str, Any]:
    """`pos_weight` by the ratio of the classes, BatchNorm, and AdamW."""
    rows, labels = rare_events()
    model = nn.Sequential(
        nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.2),
        nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0),
    )  # fmt: skip
    loss_fn = nn.BCEWithLogitsLoss(pos_weight=(labels == 0).sum() / (labels == 1).sum())
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    return setup(model, split(rows, labels), loss_fn, optimizer=optimizer)


@healthy(epochs=6, accuracy=0.9)
def rare_events_drawn_often() -> dict[str, Any]:
    """A sampler that draws both kinds alike; what is judged by comes as it is."""
    rows, labels = rare_events()
    kinds = labels[:1200].long()
    weights = (1.0 / torch.bincount(kinds))[kinds]
    sampler = WeightedRandomSampler(weights.tolist(), len(kinds), replacement=True)
    train = DataLoader(TensorDataset(rows[:1200], kinds), 64, sampler=sampler)
    val = DataLoader(TensorDataset(rows[1200:], labels[1200:].long()), 256)
    return setup(deep(16, 2), (train, val), nn.CrossEntropyLoss(), 2e-3)


@healthy(epochs=60, accuracy=0.9)
def all_flowers_in_one_batch() -> dict[str, Any]:
    """The whole of iris in every step, as first tutorials do, at a high rate."""
    rows, labels = iris()
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    return setup(model, split(rows, labels, batch_size=150), nn.CrossEntropyLoss(), 0.02)


class Factors(nn.Module):
    """Matrix factorization with biases."""

    def __init__(self, users: int, items: int, width: int = 8) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(users, width), nn.Embedding(items, width)
        self.user_bias, self.item_bias = nn.Embedding(users, 1), nn.Embedding(items, 1)
        self.mean = nn.Parameter(torch.tensor(3.0))
        for table in (self.users, self.items):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, user: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
        """Return the stars that a user would give."""
        fit = (self.users(user) * self.items(item)).sum(1)
        return self.mean + fit + self.user_bias(user)[:, 0] + self.item_bias(item)[:, 0]


def ratings(count: int = 5000) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return users, items and stars between 1 and 5 by a taste of three kinds."""
    generator = seeded(31)
    user, item = (torch.randint(0, n, (count,), generator=generator) for n in (120, 80))
    taste = torch.randn(120, 3, generator=generator), torch.randn(80, 3, generator=generator)
    stars = 3 + 0.8 * (taste[0][user] * taste[1][item]).sum(1) + 0.2 * torch.randn(count, generator=generator)
    return user, item, stars.clamp(1, 5).round()


@healthy(epochs=10, good=lambda first, last: last < 0.7 * first)
def stars_by_factors() -> dict[str, Any]:
    """A recommender whose inputs are two numbers of rows."""
    return setup(Factors(120, 80), split(*ratings(), batch_size=128), nn.MSELoss(), 1e-2)


class TwoTasks(nn.Module):
    """A trunk for two heads, and how sure each of them is."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        self.digit, self.ink = nn.Linear(256, 10), nn.Linear(256, 1)
        self.log_vars = nn.Parameter(torch.zeros(2))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the scores of the digits, and the ink."""
        hidden = self.trunk(x)
        return {"digit": self.digit(hidden), "ink": self.ink(hidden).squeeze(-1)}


def both_tasks(model: TwoTasks, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Weigh the tasks by what is learnt about their noise."""
    x, digit, ink = batch
    out = model(x)
    losses = torch.stack([F.cross_entropy(out["digit"], digit), F.mse_loss(out["ink"], ink)])
    return (torch.exp(-model.log_vars) * losses + model.log_vars).sum()


def two_answers() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return digits, what they are, and how much ink their upper half took, standardized."""
    images, labels = digit_images()
    ink = images[:, 0, :4].sum((1, 2))
    return images, labels, (ink - ink.mean()) / ink.std()


@healthy(epochs=6, good=lambda first, last: last < first - 1)
def two_tasks_at_once() -> dict[str, Any]:
    """A class and a number, weighted by uncertainty."""
    return setup(TwoTasks(), split(*two_answers()), compute_loss=both_tasks, lr=2e-3)


def tags() -> tuple[torch.Tensor, torch.Tensor]:
    """Return counts of words and the tags that they carry."""
    rows, labels = make_multilabel_classification(900, 30, n_classes=6, n_labels=2, random_state=4)
    return torch.log1p(torch.tensor(rows, dtype=torch.float32)), torch.tensor(labels, dtype=torch.float32)


def focal(logits: torch.Tensor, target: torch.Tensor, gamma: float = 2.0, alpha: float = 0.4) -> torch.Tensor:
    """The focal loss, written by hand for several answers at once."""
    bce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    p = torch.sigmoid(logits)
    right = p * target + (1 - p) * (1 - target)
    return ((alpha * target + (1 - alpha) * (1 - target)) * (1 - right) ** gamma * bce).mean()


@healthy(epochs=10, good=lambda first, last: last < 0.7 * first)
def tags_by_focal_loss() -> dict[str, Any]:
    """Several tags a text."""
    return setup(deep(30, 6), split(*tags(), batch_size=32), focal, 3e-3)


class Visits(nn.Module):
    """The logarithm of a rate, with the time of watching beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, x: torch.Tensor, days: torch.Tensor) -> torch.Tensor:
        """Return the logarithm of how many are expected."""
        return self.net(x) + torch.log(days)


@healthy(epochs=10, good=lambda first, last: last < first - 0.3)
def visits_in_so_many_days() -> dict[str, Any]:
    """Poisson with an offset."""
    generator = seeded(32)
    rows, days = torch.randn(900, 5, generator=generator), 1 + 9 * torch.rand(900, 1, generator=generator)
    rate = torch.exp(0.7 * rows[:, :1] - 0.5 * rows[:, 1:2] * rows[:, 2:3]).clamp(max=6)
    visits = torch.poisson(rate * days, generator=generator)
    return setup(Visits(), split(rows, days, visits, batch_size=32), nn.PoissonNLLLoss(log_input=True), 5e-3)


class Averaged:
    """A step in bfloat16 with a moving average of the weights beside it."""

    def __init__(self, model: nn.Module) -> None:
        self.average = copy.deepcopy(model).requires_grad_(False)

    def __call__(self, model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        """Train, clip, and move the average."""
        x, y = batch
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss: torch.Tensor = loss_fn(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(self.average.parameters(), model.parameters(), strict=True):
                slow.lerp_(fast, 0.01)
        return loss


@healthy(epochs=6, accuracy=0.88)
def averaged_weights_in_bfloat16() -> dict[str, Any]:
    """Mixed precision, clipping and an exponential moving average."""
    model = deep(64, 10)
    return setup(model, split(*digit_rows()), nn.CrossEntropyLoss(), train_step=Averaged(model))


class Categories(nn.Module):
    """Embeddings for the categories beside the numbers."""

    def __init__(self, sizes: tuple[int, ...] = (7, 12, 4)) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, min(8, (n + 1) // 2)) for n in sizes)
        width = sum(table.embedding_dim for table in self.tables)
        self.norm = nn.BatchNorm1d(4)
        self.net = nn.Sequential(nn.Linear(width + 4, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, 1))

    def forward(self, categories: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        """Return one number a row."""
        known = [table(categories[:, i]) for i, table in enumerate(self.tables)]
        return self.net(torch.cat([*known, self.norm(numbers)], 1)).squeeze(1)


def sales() -> dict[str, torch.Tensor]:
    """Return shops, weekdays and kinds with four numbers of very different size, and the logarithm of sales."""
    generator = seeded(33)
    kinds = torch.stack([torch.randint(0, n, (1000,), generator=generator) for n in (7, 12, 4)], 1)
    numbers = torch.randn(1000, 4, generator=generator)
    effects = [torch.randn(n, generator=generator) for n in (7, 12, 4)]
    log_sales = sum(effect[kinds[:, i]] for i, effect in enumerate(effects)) + numbers[:, 0] - 0.5 * numbers[:, 1] ** 2
    units = torch.tensor([1.0, 30.0, 0.2, 5.0])
    return {"categories": kinds, "numbers": numbers * units + units, "sales": log_sales + 8}


def sales_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """A batch by names."""
    return loss_fn(model(batch["categories"], batch["numbers"]), batch["sales"])


@healthy(epochs=12, good=lambda first, last: last < 0.1 * first)
def sales_of_shops() -> dict[str, Any]:
    """Entity embeddings; the numbers are normalized within the model, the target is not at all."""
    table = sales()
    rows: Any = [{name: column[i] for name, column in table.items()} for i in range(1000)]
    loaders = DataLoader(rows[:800], 32, shuffle=True), DataLoader(rows[800:], 128)
    return setup(Categories(), loaders, nn.MSELoss(), 1e-2, compute_loss=sales_loss)
