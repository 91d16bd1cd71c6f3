"""Models that could be taken for ones whose copies do not run their own weights, and are not."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as functional
from torch import nn

from tests.sandbox.wrapped_models import INPUTS, Net


class Changed(Net):
    """A network with something in it that could be taken for a leak."""

    def __init__(self) -> None:
        super().__init__()
        self.prepare()

    def prepare(self) -> None:
        """Add what the test is about."""


class Tied(Changed):
    def prepare(self) -> None:
        self.decoder = nn.Linear(64, 20, bias=False)
        self.decoder.weight = nn.Parameter(self.fc1.weight.detach().t().contiguous())
        self.fc1.weight = nn.Parameter(self.fc1.weight.detach())
        self.again = nn.Linear(20, 64)
        self.again.weight = self.fc1.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(torch.relu(self.again(self.decoder(self.fc1(x)))))


class Lazy(Changed):
    def prepare(self) -> None:
        self.fc1 = nn.LazyLinear(64)  # type: ignore[assignment]


class FrozenByAClosure(Changed):
    def prepare(self) -> None:
        backbone = self.fc1.requires_grad_(False)
        self.features = lambda x: torch.relu(backbone(x))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(self.features(x))


class CodebookByAClosure(Changed):
    def prepare(self) -> None:
        self.register_buffer("codebook", torch.randn(8, 20))
        codebook = self.codebook
        self.nearest = lambda x: codebook[torch.cdist(x, codebook).argmin(1)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x + self.nearest(x))


class SharedBuffer(Changed):
    def prepare(self) -> None:
        table = torch.linspace(0.5, 1.5, 64)
        for layer in (self.fc1, self.fc2):
            layer.register_buffer("table", table)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(torch.relu(self.fc1(x)) * self.fc1.table + self.fc2.table)


class CompiledInside(Changed):
    def prepare(self) -> None:
        self.act = torch.compile(lambda x: torch.relu(x) * 2, backend="eager")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(self.act(self.fc1(x)))


class Mapped(Changed):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.vmap(lambda row: self.fc2(torch.relu(self.fc1(row))))(x)


class Random(Changed):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(functional.dropout(x) + torch.randn_like(x))


HEALTHY: dict[str, Callable[[], nn.Module]] = {
    "tied": Tied,
    "lazy": Lazy,
    "frozen by a closure": FrozenByAClosure,
    "codebook by a closure": CodebookByAClosure,
    "shared buffer": SharedBuffer,
    "compiled inside": CompiledInside,
    "vmap": Mapped,
    "random": Random,
    "scripted": lambda: torch.jit.script(Net()),
    "traced": lambda: torch.jit.trace(Net(), INPUTS[:4]),
    "batch norm": lambda: nn.Sequential(nn.BatchNorm1d(20), Net()),
    "zeros": lambda: _filled(Net(), 0.0),
}


def _filled(model: nn.Module, value: float) -> nn.Module:
    for parameter in model.parameters():
        nn.init.constant_(parameter, value)
    return model


class TimesZero(Changed):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * 0 + x[:, :4]


class DeadPath(Changed):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        super().forward(x)
        return x[:, :4]


class DeadUnits(Changed):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(super().forward(x) - 1e9)


class Argmax(Changed):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (super().forward(x) * 0).argmax(1)


class AbsentToken(Changed):
    def prepare(self) -> None:
        del self.fc1, self.fc2
        self.table = nn.Embedding(3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, :4] + self.table(torch.zeros(0, dtype=torch.long)).sum()


class Baked(Changed):
    """Weights that were copied into an engine: the user's own model does not train them either."""

    def prepare(self) -> None:
        weight = self.fc1.weight.detach().clone()[:4]
        self.run = torch.jit.trace(lambda x: x @ weight.t(), INPUTS[:4])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.run(x)


WITHOUT_WEIGHTS = [TimesZero, DeadPath, DeadUnits, Argmax, AbsentToken, Baked]
