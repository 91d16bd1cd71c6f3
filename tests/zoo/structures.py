"""Healthy set-ups whose models are built in unusual ways."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.examples import healthy
from tests.zoo.samples import cancer, digit_rows, friedman, seeded, setup, split


class TwoHeads(nn.Module):
    """One body that answers two questions."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
        self.digit, self.ink = nn.Linear(64, 10), nn.Linear(64, 1)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Say which digit it is, and how much ink it took."""
        hidden = self.body(x)
        return {"digit": self.digit(hidden), "ink": self.ink(hidden)}


def both_tasks(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Add the losses of both questions."""
    x, label, ink = batch
    said = model(x)
    return nn.functional.cross_entropy(said["digit"], label) + nn.functional.mse_loss(said["ink"], ink)


@healthy(epochs=6)
def several_heads() -> dict[str, Any]:
    """A dictionary of outputs and two targets, put together by `compute_loss`."""
    rows, labels = digit_rows()
    ink = rows.sum(1, keepdim=True)
    return setup(TwoHeads(), split(rows, labels, (ink - ink.mean()) / ink.std()), compute_loss=both_tasks)


class Experts(nn.Module):
    """Four experts, mixed by a gate whose weights sum to one."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(64, 4)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10)) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Mix what the experts say."""
        said = torch.stack([expert(x) for expert in self.experts], 1)
        return (torch.softmax(self.gate(x), 1)[..., None] * said).sum(1)


@healthy(epochs=6, accuracy=0.9)
def mixture_of_experts() -> dict[str, Any]:
    """A softmax in the middle, where it belongs."""
    return setup(Experts(), split(*digit_rows()), nn.CrossEntropyLoss())


class Factors(nn.Module):
    """A rating is the product of a user's and an item's factors."""

    def __init__(self, users: int = 60, items: int = 40, width: int = 4) -> None:
        super().__init__()
        self.users = nn.Embedding(users, width, sparse=True)
        self.items = nn.Embedding(items, width, sparse=True)
        for table in (self.users, self.items):
            nn.init.normal_(table.weight, std=0.5)

    def forward(self, user: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
        """Multiply."""
        return (self.users(user) * self.items(item)).sum(1)


@healthy(epochs=20, good=lambda first, last: last < 0.3 * first)
def sparse_embeddings() -> dict[str, Any]:
    """Gradients that are sparse tensors, and an optimizer that wants them so."""
    users, items = torch.randint(60, (2000,), generator=seeded(1)), torch.randint(40, (2000,), generator=seeded(2))
    taste, kind = torch.randn(60, 3, generator=seeded(3)), torch.randn(40, 3, generator=seeded(4))
    ratings = (taste[users] * kind[items]).sum(1) / 3**0.5
    model = Factors()
    optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=2e-2)
    return setup(model, split(users, items, ratings, batch_size=100), nn.MSELoss(), optimizer=optimizer)


class Residual(nn.Module):
    """A block that adds to what comes in; its last layer may begin at zero."""

    def __init__(self, width: int, zero: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        if zero:
            nn.init.zeros_(self.inner[2].weight)
            nn.init.zeros_(self.inner[2].bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add."""
        return x + self.inner(self.norm(x))


def residual_tower(blocks: int, zero: bool) -> nn.Sequential:
    """A deep tower of residual blocks."""
    return nn.Sequential(
        nn.Linear(64, 32), *(Residual(32, zero) for _ in range(blocks)), nn.LayerNorm(32), nn.Linear(32, 10)
    )


@healthy(epochs=3, accuracy=0.85)
def deep_residual_mlp() -> dict[str, Any]:
    """Twenty blocks, forty layers."""
    return setup(residual_tower(20, zero=False), split(*digit_rows()), nn.CrossEntropyLoss(), lr=1e-3)


@healthy(epochs=5, accuracy=0.85)
def zero_initialized_branches() -> dict[str, Any]:
    """Every block begins as the identity."""
    return setup(residual_tower(6, zero=True), split(*digit_rows()), nn.CrossEntropyLoss(), lr=2e-3)


@healthy(epochs=5, accuracy=0.9)
def zero_initialized_head() -> dict[str, Any]:
    """All classes are equally likely at first, to the last bit."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    nn.init.zeros_(model[2].weight)
    nn.init.zeros_(model[2].bias)
    return setup(model, split(*digit_rows()), nn.CrossEntropyLoss())


class Sets(nn.Module):
    """The sum over a set of points, whatever their order."""

    def __init__(self) -> None:
        super().__init__()
        self.each = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.whole = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        """Average what is said about each point."""
        return self.whole(self.each(points).mean(1))


@healthy(epochs=10, good=lambda first, last: last < 0.2 * first)
def deep_sets() -> dict[str, Any]:
    """How far a cloud of points is spread."""
    spread = 0.5 + torch.rand(600, 1, 1, generator=seeded(5))
    points = spread * torch.randn(600, 12, 2, generator=seeded(6))
    size = points.square().mean((1, 2))[:, None]
    return setup(Sets(), split(points, (size - size.mean()) / size.std(), batch_size=32), nn.MSELoss(), lr=3e-3)


class Sign(torch.autograd.Function):
    """The sign forward, the identity (clipped) backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """Return -1 or 1."""
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        """Let the gradient through where the input was small."""
        (x,) = ctx.saved_tensors
        return gradient * (x.abs() <= 1)


class Binary(nn.Module):
    """A network with binary activations, trained by a straight-through estimator."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(64, 96), nn.BatchNorm1d(96), nn.Linear(96, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Binarise what is hidden."""
        return self.last(Sign.apply(self.norm(self.first(x))))


@healthy(epochs=6, accuracy=0.85)
def straight_through_estimator() -> dict[str, Any]:
    """A gradient that is not the derivative, on purpose."""
    return setup(Binary(), split(*digit_rows()), nn.CrossEntropyLoss())


class Rounded(nn.Module):
    """A code that is rounded on the way, with the detach trick."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 16))
        self.decoder = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Round to quarters, and let the gradient pass."""
        code = self.encoder(x)
        return self.decoder(code + ((4 * code).round() / 4 - code).detach())


@healthy(epochs=8, good=lambda first, last: last < 0.5 * first)
def quantized_autoencoder() -> dict[str, Any]:
    """A detach in the middle that cuts nothing off."""
    return setup(Rounded(), split(digit_rows()[0]), nn.MSELoss())


class Gated(nn.Module):
    """Feature-wise gates: sigmoid and tanh inside, an attention over columns, parameters without a module."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.randn(30, 16) / 30**0.5)
        self.gate, self.head = nn.Linear(30, 16), nn.Linear(16, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Gate, and answer."""
        return self.head(torch.tanh(x @ self.weights) * torch.sigmoid(self.gate(x)))


@healthy(epochs=10, accuracy=0.9)
def bare_parameters_and_gates() -> dict[str, Any]:
    """A weight that is a plain parameter of the model."""
    return setup(Gated(), split(*cancer(), batch_size=32), nn.BCEWithLogitsLoss())


@healthy(epochs=12, good=lambda first, last: last < 0.7 * first)
def linear_model_on_purpose() -> dict[str, Any]:
    """Linear regression: no hidden layer, so no nonlinearity is missing."""
    model = nn.Linear(10, 1)
    return setup(model, split(*friedman(), batch_size=32), nn.MSELoss(), lr=1e-2)
