"""Stacks whose layers are one object."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.checks.networks import alarms
from tests.examples import failing_example
from tests.zoo.tabular import digits

CHECK = "layers-share-weights"


def setup(model: nn.Module) -> dict[str, Any]:
    """Train on digits."""
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


@failing_example(CHECK, where="1")
def repeated_block() -> dict[str, Any]:
    """Four blocks in a Sequential."""
    block = nn.Sequential(nn.Linear(32, 32), nn.ReLU())
    stack = nn.Sequential(*[block] * 4)  # fixed: stack = nn.Sequential(*[copy.deepcopy(block) for _ in range(4)])
    return setup(nn.Sequential(nn.Linear(64, 32), stack, nn.Linear(32, 10)))


class Stack(nn.Module):
    """Layers in a list, with residual paths or heads that are averaged."""

    def __init__(self, layers: Any, width: int = 24, chained: bool = True) -> None:
        super().__init__()
        self.first, self.layers, self.chained = nn.Linear(64, width), nn.ModuleList(layers), chained
        self.last = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Go through all layers, or average what they give."""
        x = self.first(x)
        if not self.chained:
            return self.last(torch.stack([layer(x) for layer in self.layers]).mean(0))
        for layer in self.layers:
            x = x + layer(x).relu()
        return self.last(x)


@failing_example(CHECK, where="layers")
def repeated_in_a_list() -> dict[str, Any]:
    """Residual layers."""
    return setup(Stack([nn.Linear(24, 24)] * 3))


@failing_example(CHECK, where="layers")
def repeated_transformer_layer() -> dict[str, Any]:
    """An encoder's layer, three times."""

    class Tokens(nn.TransformerEncoderLayer):
        def forward(self, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            return super().forward(x[:, None], *args, **kwargs)[:, 0]

    return setup(Stack([Tokens(24, 4, 32, batch_first=True)] * 3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: setup(Stack([nn.Linear(24, 24) for _ in range(3)])),
        lambda: setup(Stack([nn.Linear(24, 24)] * 3, chained=False)),
        lambda: setup(Stack([nn.ReLU()] * 3)),
        lambda: setup(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), copy.deepcopy(nn.Linear(64, 64)), nn.Linear(64, 10))),
        lambda: setup(Recurrent()),
    ],
    ids=["copies", "heads", "activations", "plain", "recurrent"],
)
def test_silent(make: Any) -> None:
    assert not alarms(CHECK, **make())


class Recurrent(nn.Module):
    """One layer called several times, as is meant."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.again, self.last = nn.Linear(64, 16), nn.Linear(16, 16), nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Call it four times."""
        x = self.first(x)
        for _ in range(4):
            x = self.again(x).tanh()
        return self.last(x)


class Fields(nn.Module):
    """Pairwise products of the embeddings of all columns, from one table."""

    def __init__(self, sizes: list[int], *, shifted: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(sum(sizes), 6)
        offsets = torch.tensor([0, *sizes[:-1]]).cumsum(0)
        self.register_buffer("offsets", offsets * shifted)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        rows = self.embedding(ids + self.offsets)
        return 0.5 * (rows.sum(1).square() - rows.square().sum(1)).sum(1)


def factorization_machine(*, shifted: bool) -> dict[str, Any]:
    """Three columns of ids, the answer to two of them."""
    sizes = [30, 20, 12]
    ids = torch.stack([torch.randint(0, n, (1200,), generator=torch.Generator().manual_seed(n)) for n in sizes], 1)
    wanted = ((ids[:, 0] % 3 == ids[:, 1] % 3) ^ (ids[:, 2] > 5)).float()
    torch.manual_seed(0)
    model = Fields(sizes, shifted=shifted)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(ids, wanted), 64, shuffle=True),
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), 5e-3),
    }


@failing_example(CHECK, where="embedding")
def columns_without_offsets() -> dict[str, Any]:
    """User 3, item 3 and hour 3 are one row."""
    return factorization_machine(shifted=False)  # fixed: return factorization_machine(shifted=True)


def test_words_of_one_vocabulary_share_their_rows() -> None:
    """Columns of tokens read all rows, and are no fields."""
    tokens = torch.randint(0, 60, (800, 5), generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(60, 8), nn.Flatten(), nn.Linear(40, 2))
    loader = DataLoader(TensorDataset(tokens, (tokens[:, 0] > 30).long()), 64, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    found = {"model": model, "loader": loader, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}
    assert alarms(CHECK, **found) == []
