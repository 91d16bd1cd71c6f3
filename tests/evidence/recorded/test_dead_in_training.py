"""Dead units in a real training: seen by the gradients of the biases and by what the layers give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.watch.judging import judged
from tests.examples import failing_recording
from tests.real_runs import endless, watched
from tests.zoo.tabular import digits

relu, cross_entropy = nn.functional.relu, nn.functional.cross_entropy


class ByFunction(nn.Module):
    """A network whose activation is no module."""

    def __init__(self, *, dead: int = 0, inplace: bool = False) -> None:
        super().__init__()
        self.first, self.second, self.inplace = nn.Linear(64, 64), nn.Linear(64, 10), inplace
        with torch.no_grad():
            self.first.bias[:dead] = -20.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(relu(self.first(x), inplace=self.inplace))


def trained(model: nn.Module, **options: Any) -> dict[str, Any]:
    return watched(model, torch.optim.SGD(model.parameters(), 0.01), **{"steps": 120, **options})


@failing_recording("dead-units", where="first")
def most_units_behind_a_function() -> dict[str, Any]:
    """There is no module whose zeros could be counted."""
    return trained(ByFunction(dead=60))


@failing_recording("dead-units", where="first")
def most_units_written_over() -> dict[str, Any]:
    """The activation writes into what the layer gave."""
    return trained(ByFunction(dead=60, inplace=True))


@failing_recording("dead-units", where="1")
def most_kernels_of_a_convolution() -> dict[str, Any]:
    """Nearly every channel lies below zero."""
    first = nn.Unflatten(1, (1, 8, 8))
    model = nn.Sequential(first, nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 36, 10))
    with torch.no_grad():
        model[1].bias[:31] = -20.0
    return trained(model)


@failing_recording("dead-units", where="first")
def most_units_while_gradients_are_added_up() -> dict[str, Any]:
    """Several small batches make one step."""
    model = ByFunction(dead=60)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    batches = iter(endless(digits()))
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
        for _ in range(60):
            for _ in range(3):
                x, y = next(batches)
                (cross_entropy(model(x), y) / 3).backward()
            optimizer.step()
            optimizer.zero_grad()
    return {"recording": live.recording()}


def silent(found: dict[str, Any]) -> list[str]:
    return [one.path for one in found["recording"].silent]


def test_a_layer_whose_units_all_fire_is_not_named() -> None:
    found = trained(ByFunction(dead=60))
    assert silent(found) == ["first"]
    one = found["recording"].silent[0]
    assert (one.dead, one.units, one.module) == (60, 64, "Linear") and one.samples >= 256 and one.high <= 0


def test_units_without_gradient_for_another_reason_are_no_dead_ones() -> None:
    """Actions that are never allowed get no gradient, whatever their score is; no activation silences them."""

    def masked(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        allowed = scores.new_full(scores.shape, -torch.inf)
        allowed[:, :10] = 0
        return cross_entropy(scores + allowed, labels)

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 40))
    assert silent(trained(model, loss_fn=masked)) == []


def test_units_that_come_back_are_no_longer_counted() -> None:
    model = ByFunction(dead=60)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
        for step, (x, y) in zip(range(160), endless(digits()), strict=False):
            if step == 100:
                assert [one.dead for one in live.recording().silent] == [60]
                model.first.bias.data.fill_(1.0)
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
    assert not live.recording().silent


def test_where_the_loss_falls_it_is_a_note_unless_nearly_all_are_dead() -> None:
    def severity(dead: int) -> list[str]:
        model = ByFunction(dead=dead)
        found = watched(model, torch.optim.Adam(model.parameters(), 0.01), steps=300)
        return [finding.severity for finding in judged(found["recording"]).findings if finding.check == "dead-units"]

    assert severity(48) == ["note"] and severity(61) == ["suspect"] and severity(0) == []


def test_a_step_that_nobody_learns_from_says_nothing() -> None:
    """Where the loss is zero for good, no unit of any layer has a gradient."""

    def never(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return relu(scores - 1e9).mean()

    assert silent(trained(ByFunction(dead=60), loss_fn=never)) == []


@pytest.mark.parametrize("ends", ["at the end", "in an examination"])
def test_examinations_leave_the_hooks_as_they_were(ends: str) -> None:
    model = ByFunction(dead=60)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    live = nbdebug.watch(model, optimizer, every=1, budget=1.0).start()
    takes = 0
    for x, y in endless(digits()):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()
        takes += any(hook.take is not None for hook in live._recorder.passes.hooks)
        if takes == (2 if ends == "in an examination" else 3) or live.step > 60:
            break
    live.stop()
    assert takes and all(hook.take is None for hook in live._recorder.passes.hooks)
    assert not any(module._forward_hooks for module in model.modules())


def test_it_is_saved_with_the_run(tmp_path: Path) -> None:
    model = ByFunction(dead=60)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
        for _, (x, y) in zip(range(120), endless(digits()), strict=False):
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
    live.save(tmp_path / "run.npz")
    assert nbdebug.watch.load(tmp_path / "run.npz").recording().silent == live.recording().silent
