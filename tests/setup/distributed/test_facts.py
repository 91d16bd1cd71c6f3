"""What a process says about itself, without any other process."""

from __future__ import annotations

import torch
from torch import nn

from nbdebug.setup.distributed.facts import period_of, prints_of
from nbdebug.setup.distributed.meeting import meet


def test_a_period_is_found_although_few_passes_are_looked_at() -> None:
    places = [p for p in range(2000) if p < 64 or p % 16 < 2]
    assert period_of({p: p % 100 for p in places}) == 100
    assert period_of({p: p % 29 for p in places}) == 29


def test_what_is_shuffled_or_always_the_same_has_no_period() -> None:
    order = torch.cat([torch.randperm(40) for _ in range(6)]).tolist()
    assert period_of(dict(enumerate(order))) == 0
    assert period_of(dict.fromkeys(range(200), 7)) == 0
    assert period_of({}) == 0


def test_prints_tell_values_apart_and_change_nothing() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(50, 40), nn.BatchNorm1d(40), nn.LazyLinear(3))
    before, versions = prints_of(model), [p._version for p in list(model.parameters())[:4]]
    assert {one.name for one in before} == {"0.weight", "0.bias", "1.weight", "1.bias"} | {
        f"1.{name}" for name in ("running_mean", "running_var", "num_batches_tracked")
    }
    assert versions == [p._version for p in list(model.parameters())[:4]] and before == prints_of(model)
    with torch.no_grad():
        model[0].weight[17, 23] += 1e-3  # one element that no sample holds
    changed = [a.name for a, b in zip(before, prints_of(model), strict=True) if a != b]
    assert changed == ["0.weight"]


def test_one_process_meets_nobody() -> None:
    assert meet("diagnose") is None
