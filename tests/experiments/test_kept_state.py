"""What a model keeps between calls is restored between the passes of a comparison."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.experiments.kept_state import KeptState, from_one_state
from tests.zoo.small_and_noisy import Stateful, truncated

CHECKS = ("batch-mixing", "causal-leak")


class Holder(nn.Module):
    """Keeps things in all the usual places."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(3, 3), nn.BatchNorm1d(3)
        self.register_buffer("sums", torch.zeros(3))
        self.past: list[torch.Tensor] = []
        self.table = {"last": torch.zeros(1)}
        self.count = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Change all of them, in place and by assignment."""
        x = self.norm(self.layer(x))
        self.sums += x.detach().sum(0)
        self.past.append(x.detach())
        self.table["last"] = x.detach()[:1]
        self.count += 1
        self.newest = x.detach()
        return x


def test_restores_buffers_attributes_and_containers() -> None:
    model = Holder()
    past, table, sums = model.past, model.table, model.sums
    with from_one_state(model) as state:
        model(torch.randn(4, 3))
        names = state.changed()
    assert {"sums", "past", "table", "newest", "norm.running_mean"} <= set(names) and "count" not in names
    assert model.past is past and past == [] and model.table is table and float(table["last"]) == 0
    assert model.sums is sums and float(sums.abs().sum()) == 0 and model.count == 0
    assert not hasattr(model, "newest") and int(model.norm.num_batches_tracked) == 0
    assert KeptState(model).changed() == []


def test_layers_that_are_built_in_the_first_call_stay() -> None:
    class Late(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            if not hasattr(self, "built"):
                self.layer, self.built = nn.Linear(x.shape[1], 2), True
            return self.layer(x)

    model = Late()
    with from_one_state(model):
        model(torch.ones(2, 3))
    assert model.built and model.layer.in_features == 3


def alarms(**setup: Any) -> list[str]:
    return [f.check for f in nbdebug.diagnose(**setup, checks=CHECKS, progress=False).alarms]


@pytest.mark.parametrize("resets", [True, False])
def test_a_state_is_not_taken_for_other_samples_or_the_future(resets: bool) -> None:
    torch.manual_seed(0)
    assert alarms(**truncated(resets)) == []


def test_a_stateful_model_that_mixes_samples_or_sees_the_future_is_still_found() -> None:
    torch.manual_seed(0)

    class AlongTheBatch(Stateful):
        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return super().forward(tokens).cumsum(0)

    class BothWays(Stateful):
        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return super().forward(tokens).flip(-1).cumsum(-1).flip(-1)

    parts = truncated(True) | {"optimizer": None}
    assert alarms(**parts | {"model": AlongTheBatch(True)}) == ["batch-mixing"]
    assert alarms(**parts | {"model": BothWays(True)}) == ["causal-leak"]
