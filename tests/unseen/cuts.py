"""Parts that learn nothing: cut off, forgotten, frozen, or out of the optimizer's sight."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from tests.unseen import unseen
from tests.zoo.samples import cancer, digit_images, digit_rows, friedman, setup, split, wine


class CutByData(nn.Module):
    """A convolutional body whose features are taken as plain data."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Conv2d(12, 24, 3), nn.ReLU())
        self.neck, self.classifier = nn.Linear(24 * 16, 48), nn.Linear(48, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Classify."""
        maps = self.features(image)
        return self.classifier(F.relu(self.neck(maps.data.flatten(1))))


@unseen("untrained-parameters", where=("features", "features.0", "features.2", "features.3", "neck"))
def features_taken_as_data() -> dict[str, Any]:
    """`.data` between the body and the neck."""
    return setup(CutByData(), split(*digit_images(), batch_size=50), nn.CrossEntropyLoss())


class ItemScale(nn.Module):
    """A learnt scale that is read as a Python number."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 40), nn.GELU(), nn.Linear(40, 1))
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scale the answer."""
        return self.scale.item() * self.net(x)


@unseen("untrained-parameters", where="scale")
def scale_read_as_a_number() -> dict[str, Any]:
    """`.item()` on a parameter."""
    return setup(ItemScale(), split(*friedman(), batch_size=40), nn.SmoothL1Loss())


class NoGradEncoder(nn.Module):
    """An encoder that was run without gradients once, for speed."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.GRU(8, 32, batch_first=True)
        self.decoder = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10))

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        """Read the rows of the picture."""
        with torch.no_grad():
            return self.encoder(x)[1][-1]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Answer."""
        return self.decoder(self.encode(x))


@unseen("untrained-parameters", where=("encoder", "decoder.0"))
def encoder_without_gradients() -> dict[str, Any]:
    """`no_grad` in a helper method."""
    rows, labels = digit_rows()
    return setup(NoGradEncoder(), split(rows.view(-1, 8, 8), labels), nn.CrossEntropyLoss(), lr=5e-3)


class CopiedBlock(nn.Module):
    """The block is copied at every pass, and the copy does the work."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.block, self.out = nn.Linear(13, 32), nn.Linear(32, 32), nn.Linear(32, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Use a copy."""
        refine = copy.deepcopy(self.block)
        hidden = torch.tanh(self.stem(x))
        return self.out(hidden + torch.tanh(refine(hidden)))


@unseen("untrained-parameters", where=("block", "block.weight", "block.bias"))
def copy_does_the_work() -> dict[str, Any]:
    """A deep copy inside `forward`."""
    return setup(CopiedBlock(), split(*wine(), batch_size=20), nn.CrossEntropyLoss(), lr=5e-3)


class LastLayerOnly(nn.Module):
    """Every layer is given the input, and only the last answer is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(30, 30) for _ in range(3))
        self.head = nn.Linear(30, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Loop, with the wrong variable."""
        for layer in self.layers:
            hidden = F.relu(layer(x))
        return self.head(hidden)


@unseen("untrained-parameters", where=("layers.0", "layers.1"))
def loop_forgets_its_result() -> dict[str, Any]:
    """`h = layer(x)` instead of `x = layer(x)`."""
    return setup(LastLayerOnly(), split(*cancer(), batch_size=32), nn.BCEWithLogitsLoss())


class PlainScales(nn.Module):
    """One gate for every block, in a Python list of parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(64, 64) for _ in range(3))
        self.gates = [nn.Parameter(torch.full((64,), 0.5)) for _ in range(3)]
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Gate every block."""
        for block, gate in zip(self.blocks, self.gates, strict=True):
            x = x + gate * F.silu(block(x))
        return self.head(x)


@unseen("unregistered-parameters", where=("gates", "gates[0]", "gates.0"))
def gates_in_a_list() -> dict[str, Any]:
    """Parameters that the optimizer never hears of."""
    return setup(PlainScales(), split(*digit_rows()), nn.CrossEntropyLoss())


class HeadsByName(nn.Module):
    """Heads in a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(10, 32), nn.ReLU())
        self.heads = {"mean": nn.Linear(32, 1), "offset": nn.Linear(32, 1)}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add what the heads say."""
        hidden = self.trunk(x)
        return self.heads["mean"](hidden) + self.heads["offset"](hidden)


@unseen("unregistered-parameters", where=("heads", "heads['mean']", "heads.mean", 'heads["mean"]'))
def heads_in_a_dictionary() -> dict[str, Any]:
    """A `dict` where a `ModuleDict` is due."""
    return setup(HeadsByName(), split(*friedman(), batch_size=32), nn.MSELoss(), lr=5e-3)


@unseen("parameters-missing-from-optimizer", where=("7", "7.weight", "7.bias"))
def optimizer_before_the_new_head() -> dict[str, Any]:
    """The head was replaced for ten classes after the optimizer was made."""
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 1000),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    model[7] = nn.Linear(256, 10)
    return setup(model, split(*digit_images()), nn.CrossEntropyLoss(), optimizer=optimizer)


@unseen("frozen-parameters", where=("fc", "fc.weight", "fc.bias"))
def wrong_part_frozen() -> dict[str, Any]:
    """The fresh head is frozen and the body trained."""
    model = nn.Sequential()
    model.add_module("body", nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU()))
    model.add_module("fc", nn.Linear(32, 10))
    for name, parameter in model.named_parameters():
        parameter.requires_grad = name.startswith("body")
    optimizer = torch.optim.Adam((p for p in model.parameters() if p.requires_grad), lr=2e-3)
    return setup(model, split(*digit_rows()), nn.CrossEntropyLoss(), optimizer=optimizer)


def numpy_error(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The mean squared error, by NumPy."""
    error = np.mean((output.detach().numpy() - target.numpy()) ** 2)
    return torch.tensor(error, requires_grad=True)


@unseen("loss-not-differentiable")
def loss_by_numpy() -> dict[str, Any]:
    """A loss that has forgotten where it came from."""
    model = nn.Sequential(nn.Linear(10, 32), nn.ELU(), nn.Linear(32, 1))
    return setup(model, split(*friedman(), batch_size=32), numpy_error)


@unseen("loss-not-differentiable")
def share_of_mistakes() -> dict[str, Any]:
    """The share of wrong answers, made to require a gradient."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 40), nn.ReLU(), nn.Linear(40, 10))

    def mistakes(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (output.argmax(1) != target).float().mean().requires_grad_()

    return setup(model, split(*digit_images()), mistakes)
