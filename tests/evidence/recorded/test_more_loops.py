"""Loops under watch that look like an illness and are none, and illnesses that show only in the real loop."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.watch.judging import judged
from tests import loops
from tests.evidence.recorded.test_real_loops import looped
from tests.examples import failing_recording
from tests.real_runs import endless, mlp
from tests.zoo.tabular import digits

cross_entropy = nn.functional.cross_entropy


@failing_recording("parameters-missing-from-optimizer", where="2")
def head_replaced_after_the_optimizer_was_made() -> dict[str, Any]:
    """The optimizer holds the head that was there before."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    model[2] = nn.Linear(32, 10)
    return trained(model, optimizer)


@failing_recording("parameters-missing-from-optimizer", where="model")
def model_made_anew_after_the_optimizer() -> dict[str, Any]:
    """Every step is made on the weights of the first model."""
    optimizer = torch.optim.SGD(mlp().parameters(), 0.05)
    return trained(mlp(), optimizer, told=False)


@failing_recording("clipping-too-tight", where="your loop")
def clipped_to_nothing() -> dict[str, Any]:
    """The norm is cut to a millionth."""
    return looped(loops.clipped(1e-6))


@failing_recording("clipping-too-tight", where="your loop")
def clipped_by_value_to_nothing() -> dict[str, Any]:
    """Every element is cut to a ten-millionth."""

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> None:
        optimizer.zero_grad()
        loss_fn(model(batch[0]), batch[1]).backward()
        nn.utils.clip_grad_value_(model.parameters(), 1e-7)
        optimizer.step()

    return looped(step)


@failing_recording("schedule-reaches-zero", where="your loop")
def stepped_once_a_batch() -> dict[str, Any]:
    """A schedule for epochs comes to nothing within the first."""
    return scheduled(lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9), 300)


@failing_recording("schedule-reaches-zero", where="your loop")
def far_too_short() -> dict[str, Any]:
    """The length of one epoch was given for the whole training."""
    kind = torch.optim.lr_scheduler.PolynomialLR
    return scheduled(lambda optimizer: kind(optimizer, total_iters=45), 300)


@failing_recording("left-in-eval-mode", where="1")
def eval_mode_after_the_first_epoch() -> dict[str, Any]:
    """The evaluation after a long first epoch was not undone."""
    model = nn.Sequential(nn.Linear(64, 32), nn.Dropout(0.2), nn.ReLU(), nn.Linear(32, 10))
    return looped(lambda *given: loops.right(*given), 100, after_eval(model, 70))


def after_eval(model: nn.Module, steps: int) -> nn.Module:
    """Put a model into eval mode after so many passes."""
    count = [0]

    def passed(module: nn.Module, args: Any) -> None:
        count[0] += 1
        if count[0] == steps:
            module.eval()

    model.register_forward_pre_hook(passed)
    return model


@failing_recording("graph-kept-alive", where="your loop")
def kept_by_a_second_output() -> dict[str, Any]:
    """The hidden states are kept with their graphs, and the answers are not."""

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Linear(64, 32), nn.Linear(32, 10)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            hidden = self.body(x).relu()
            return self.head(hidden), hidden

    kept: list[Any] = []

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> None:
        optimizer.zero_grad()
        answer, hidden = model(batch[0])
        kept.append(hidden)
        loss_fn(answer, batch[1]).backward()
        optimizer.step()

    return looped(step, model=Two())


@failing_recording("graph-kept-alive", where="your loop")
def kept_until_the_end_of_the_epoch() -> dict[str, Any]:
    """A list of losses that is emptied after each epoch."""
    kept: list[Any] = []

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> None:
        kept.append(loops.right(model, batch, loss_fn, optimizer))
        if len(kept) == 64:
            kept.clear()

    return looped(step, 150)


def trained(model: nn.Module, optimizer: Any, steps: int = 60, *, told: bool = True) -> dict[str, Any]:
    """Train under watch."""
    with nbdebug.watch(model, optimizer if told else None, every=1, budget=1.0) as live:
        for _, (x, y) in zip(range(steps), endless(digits()), strict=False):
            optimizer.zero_grad()
            model.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
    return {"recording": live.recording()}


def scheduled(make: Any, steps: int) -> dict[str, Any]:
    """Train with a scheduler that is stepped in every step."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    schedule = make(optimizer)
    with nbdebug.watch(model, optimizer) as live:
        for _, (x, y) in zip(range(steps), endless(digits()), strict=False):
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
            schedule.step()
    return {"recording": live.recording()}


def alarms(recording: Any) -> list[str]:
    return [str(finding) for finding in judged(recording).alarms]


@pytest.mark.parametrize(
    "make",
    [
        lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 300),
        lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, 300),
        lambda optimizer: torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 1e-9, 280),
        lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 60),
    ],
)
def test_schedules_that_end_at_their_end(make: Any) -> None:
    assert not alarms(scheduled(make, 300)["recording"])


def test_a_parameter_of_the_loss_is_no_forgotten_gradient() -> None:
    """It has got the gradient of this pass when the pass comes to the output of the model."""

    class Weighted(nn.Module):
        """A body and head, and a weight that only the loss uses."""

        def __init__(self) -> None:
            super().__init__()
            self.weight, self.body = nn.Parameter(torch.zeros(())), mlp()

        def forward(self, x: torch.Tensor) -> Any:
            return self.body(x)

    model = Weighted()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    for to_none in (True, False):
        with nbdebug.watch(model, optimizer) as live:
            for _, (x, y) in zip(range(100), endless(digits()), strict=False):
                optimizer.zero_grad(set_to_none=to_none)
                (cross_entropy(model(x), y) * torch.exp(-model.weight) + model.weight).backward()
                optimizer.step()
        assert not live.recording().tally.leftover_steps and not alarms(live.recording())


@pytest.mark.parametrize("kind", ["shared", "rivals"])
def test_two_optimizers_clear_their_gradients(kind: str) -> None:
    """One backward pass and two steps, or a backward pass for each: nothing is left over, however long it goes."""
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    first, second = (torch.optim.SGD(part.parameters(), 0.05) for part in (model[0], model[2]))
    with nbdebug.watch(model, {"first": first, "second": second}) as live:
        for _, (x, y) in zip(range(260), endless(digits()), strict=False):
            if kind == "shared":
                model.zero_grad()
                cross_entropy(model(x), y).backward()
                first.step()
                second.step()
                continue
            for optimizer in (first, second):
                optimizer.zero_grad()
                cross_entropy(model(x), y).backward()
                optimizer.step()
    tally = live.recording().tally
    assert not tally.leftover_steps and tally.leftover_judged > 20 and tally.rivals == (kind == "rivals")


def test_a_recurrent_cell_keeps_no_graph_of_another_step() -> None:
    cell, head = nn.GRUCell(8, 16), nn.Linear(16, 10)
    model = nn.ModuleDict({"cell": cell, "head": head})
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    with nbdebug.watch([cell, head], optimizer) as live:
        for _, (x, y) in zip(range(130), endless(digits()), strict=False):
            state = torch.zeros(len(x), 16)
            for row in x.view(len(x), 8, 8).unbind(1):
                state = cell(row, state)
            optimizer.zero_grad()
            cross_entropy(head(state), y).backward()
            optimizer.step()
        found = live.recording()
    assert found.tally.graphs_alive <= 16 and not alarms(found)


def test_a_frozen_part_in_eval_mode_is_meant() -> None:
    body = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU()).requires_grad_(False)
    model = nn.Sequential(body, nn.Linear(32, 10)).eval()
    model[1].train()
    optimizer = torch.optim.SGD(model[1].parameters(), 0.05)
    assert not alarms(trained(model, optimizer, 120)["recording"])


def test_a_body_that_the_optimizer_of_the_head_does_not_hold_is_a_note() -> None:
    model = mlp()
    found = trained(model, torch.optim.SGD(model[2].parameters(), 0.05), 120)["recording"]
    assert not alarms(found)
    result = judged(found).result("parameters-missing-from-optimizer")
    assert [(finding.where, finding.severity) for finding in result.findings] == [("0", "note")]


def test_a_part_that_another_optimizer_moves_is_not_missing() -> None:
    model = mlp()
    optimizer, other = torch.optim.SGD(model[0].parameters(), 0.05), torch.optim.SGD(model[2].parameters(), 0.05)
    with nbdebug.watch(model, optimizer) as live:
        for _, (x, y) in zip(range(60), endless(digits()), strict=False):
            model.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
            other.step()
    assert live.report().result("parameters-missing-from-optimizer").status == "clean"


@pytest.mark.parametrize("every", [1, None])
def test_a_loss_that_makes_the_nan_is_the_place(every: int | None) -> None:
    """Layers that show it a step later have weights that such a loss has made."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with nbdebug.watch(model, optimizer, every=every, budget=1.0 if every else None) as live:
        for step, (x, y) in zip(range(60), endless(digits()), strict=False):
            loss = cross_entropy(model(x), y)
            optimizer.zero_grad()
            (loss * (math.nan if step == 30 else 1.0)).backward()
            optimizer.step()
    finding = live.report().findings[0]
    assert finding.check == "non-finite-loss" and finding.where == "loss" and "from step 30 on" in finding.says
    if every == 1:
        assert "the loss function itself" in finding.says


def test_a_curriculum_is_no_spike() -> None:
    """Each stage begins higher and stays there for a while."""
    values = [4.0 * math.exp(-(step % 150) / 60) + 0.01 * math.sin(7.0 * step) for step in range(750)]
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    with nbdebug.watch(model, optimizer) as live:
        for value, (x, y) in zip(values, endless(digits()), strict=False):
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
            live.log(loss=value)
    assert live.report().result("loss-spikes").status == "clean"


def test_looks_are_spread_over_the_whole_run() -> None:
    """However short the steps are, the last half of a run has its share of the measurements."""
    found = scheduled(lambda optimizer: torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0), 400)["recording"]
    looks = found.layers["0"].mean.steps
    assert len(looks) >= 20 and (looks >= 200).sum() >= 3
