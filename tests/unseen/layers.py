"""Layers that begin, bend or end wrongly."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.unseen import unseen
from tests.unseen.objectives import conv_net
from tests.zoo.samples import cancer, digit_images, digit_rows, friedman, seeded, setup, split


@unseen("missing-nonlinearity")
def activation_not_assigned() -> dict[str, Any]:
    """`F.relu(x)` whose result nobody keeps."""

    class Thrown(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.l1, self.l2, self.l3 = nn.Linear(10, 32), nn.Linear(32, 32), nn.Linear(32, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            """Compute activations and throw them away."""
            x = self.l1(x)
            F.relu(x)
            x = self.l2(x)
            F.relu(x)
            return self.l3(x)

    return setup(Thrown(), split(*friedman(), batch_size=32), nn.MSELoss())


@unseen("bottleneck-too-narrow")
def everything_through_one_number() -> dict[str, Any]:
    """Ten classes behind a hidden layer of one unit."""
    model = nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1), nn.Tanh(), nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, 10)
    )
    return setup(model, split(*digit_rows()), nn.CrossEntropyLoss())


@unseen("excessive-dropout")
def share_to_keep_as_share_to_drop() -> dict[str, Any]:
    """`p=0.9`, meant as what is kept."""

    class Thin(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            """Drop nine tenths, twice."""
            x = F.dropout(F.relu(self.a(x)), p=0.9, training=self.training)
            return self.c(F.dropout(F.relu(self.b(x)), p=0.9, training=self.training))

    return setup(Thin(), split(*digit_rows()), nn.CrossEntropyLoss())


@unseen("symmetric-initialization", "initialization-off-scale")
def ones_everywhere() -> dict[str, Any]:
    """Every matrix begins at a hundredth of ones."""
    model = conv_net()
    for parameter in model.parameters():
        nn.init.constant_(parameter, 0.01 if parameter.dim() > 1 else 0.0)
    return setup(model, split(*digit_images()), nn.CrossEntropyLoss())


@unseen("vanishing-gradients", "saturated-units", "activations-off-scale", "initialization-off-scale")
def ten_sigmoids() -> dict[str, Any]:
    """A deep stack of sigmoids."""
    layers = [part for _ in range(9) for part in (nn.Linear(32, 32), nn.Sigmoid())]
    model = nn.Sequential(nn.Linear(64, 32), nn.Sigmoid(), *layers, nn.Linear(32, 10))
    return setup(model, split(*digit_rows()), nn.CrossEntropyLoss())


@unseen(
    "initialization-off-scale", "activations-off-scale", "exploding-gradients", "saturated-units", "initial-loss-off"
)
def unit_spread_in_wide_layers() -> dict[str, Any]:
    """`normal_(std=1)` whatever the width."""
    model = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 10))
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    return setup(model, split(*digit_rows()), nn.CrossEntropyLoss(), lr=1e-3)


@unseen("initialization-off-scale", "vanishing-gradients", "activations-off-scale")
def weights_of_a_thousandth() -> dict[str, Any]:
    """`normal_(std=0.001)` in five layers."""
    layers = [part for _ in range(4) for part in (nn.Linear(48, 48), nn.GELU())]
    model = nn.Sequential(nn.Linear(64, 48), nn.GELU(), *layers, nn.Linear(48, 10))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=1e-3)
    return setup(model, split(*digit_rows()), nn.CrossEntropyLoss(), lr=1e-3)


@unseen(
    "dead-units",
    "initialization-off-scale",
    "symmetric-initialization",
    "outputs-identical",
    where=("0", "1", "0.weight"),
)
def weights_below_zero() -> dict[str, Any]:
    """Negative weights on inputs that are never negative, then a ReLU."""
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    nn.init.uniform_(model[0].weight, -0.3, -0.05)
    return setup(model, split(*digit_rows()), nn.CrossEntropyLoss())


@unseen("forward-fails", where="table")
def vocabulary_too_small() -> dict[str, Any]:
    """Token 40 in a table of 40."""
    model = nn.Sequential()
    model.add_module("table", nn.Embedding(40, 16))
    model.add_module("flat", nn.Flatten())
    model.add_module("head", nn.Linear(16 * 10, 2))
    ids = torch.randint(0, 41, (400, 10), generator=seeded(3))
    return setup(model, split(ids, (ids[:, 0] > 20).long(), batch_size=20), nn.CrossEntropyLoss())


@unseen("forward-fails", where=("model", "b"))
def changed_in_place() -> dict[str, Any]:
    """A sigmoid's answer is changed in place before its backward pass needs it."""

    class Masking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(30, 16), nn.Linear(16, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            """Mask in place."""
            gate = torch.sigmoid(self.a(x))
            gate *= (x[:, :16] > 0).float()
            return self.b(gate)

    return setup(Masking(), split(*cancer(), batch_size=32), nn.BCEWithLogitsLoss())
