"""Failing examples with layers that were frozen by accident."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits


def mlp() -> nn.Sequential:
    """Return three layers."""
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def setup(model: nn.Module) -> dict[str, Any]:
    """Look at digits."""
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


@failing_example("frozen-parameters", where="2")
def frozen_in_the_middle() -> dict[str, Any]:
    """One hidden layer does not learn."""
    model = mlp()
    model[2].requires_grad_(False)
    return setup(model)


@failing_example("frozen-parameters", where="4")
def frozen_head() -> dict[str, Any]:
    """The body learns, the head does not."""
    model = mlp()
    model[4].requires_grad_(False)
    return setup(model)


@failing_example("frozen-parameters", where="model")
def frozen_altogether() -> dict[str, Any]:
    """Nothing learns."""
    model = nn.Sequential(nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    return setup(model.requires_grad_(False))  # fixed: return setup(model)


def findings(model: nn.Module) -> list[nbdebug.Finding]:
    """Run the check alone."""
    return nbdebug.diagnose(**setup(model), checks=["frozen-parameters"], progress=False).findings


def test_frozen_backbone_is_a_note() -> None:
    """Fine-tuning the head of a frozen network is what everybody does."""
    model = mlp()
    model[:4].requires_grad_(False)
    assert [f.severity for f in findings(model)] == ["note"]


class Adapted(nn.Module):
    """A frozen layer with a trained low-rank correction."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(64, 64).requires_grad_(False)
        self.down, self.up = nn.Linear(64, 4, bias=False), nn.Linear(4, 64, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add the correction."""
        return self.base(x) + self.up(self.down(x))


def test_adapters_are_a_note() -> None:
    """Frozen layers with adapters beside them are a pattern."""
    blocks = [part for _ in range(4) for part in (Adapted(), nn.ReLU())]
    adapted = nn.Sequential(*blocks, nn.Linear(64, 10).requires_grad_(False))
    assert not [f for f in findings(adapted) if f.is_alarm]


def test_frozen_embedding_is_a_note() -> None:
    """Pretrained vectors are often kept."""
    model = nn.Sequential(nn.Embedding(17, 8).requires_grad_(False), nn.Flatten(), nn.Linear(512, 10))
    rows = torch.randint(0, 17, (64, 64))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows, torch.randint(0, 10, (64,))), 16)
    report = nbdebug.diagnose(model, loader, nn.CrossEntropyLoss(), checks=["frozen-parameters"], progress=False)
    assert [f.severity for f in report.findings] == ["note"]


class Places(nn.Module):
    """A decoder with a fixed table of positions, which its own constructor makes a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.arange(8.0)[None, :, None].sin().expand(1, 8, 16), requires_grad=False)
        self.mixes = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add the positions."""
        return self.mixes(x.unflatten(1, (8, 16)) + self.table).flatten(1)


def test_fixed_table_of_a_composite_module_is_a_note() -> None:
    """As in the decoder of a masked autoencoder."""
    model = nn.Sequential(nn.Linear(64, 128), Places(), nn.ReLU(), nn.Linear(128, 10))
    assert not [f for f in findings(model) if f.is_alarm]


def test_frozen_composite_module_is_found() -> None:
    """Freezing the module freezes the layers inside as well."""
    model = nn.Sequential(nn.Linear(64, 128), Places().requires_grad_(False), nn.ReLU(), nn.Linear(128, 10))
    assert [f.severity for f in findings(model)] == ["suspect"]
