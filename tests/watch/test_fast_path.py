"""The fast path through ordinary steps: what is recorded is what the slow path records, whatever the loop does."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.evidence.recording import Recording
from nbdebug.watch import Live
from nbdebug.watch.recorder.fast_path import CLOSED, FastPath
from tests.watch.runs import batch, mlp, train

Loop = Callable[[nn.Module, Any, Live], None]
STEPS = 40


def loss_of(model: nn.Module, number: int) -> torch.Tensor:
    x, y = batch(number)
    output = model(x)
    return nn.functional.cross_entropy(output if isinstance(output, torch.Tensor) else output[0], y)


def step(model: nn.Module, optimizer: Any, number: int) -> None:
    optimizer.zero_grad()
    loss_of(model, number).backward()
    optimizer.step()


def plainly(model: nn.Module, optimizer: Any, live: Live) -> None:
    for number in range(STEPS):
        step(model, optimizer, number)


def with_a_schedule(model: nn.Module, optimizer: Any, live: Live) -> None:
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.9)
    for number in range(STEPS):
        step(model, optimizer, number)
        schedule.step()


def with_groups_that_come_later(model: nn.Module, optimizer: Any, live: Live) -> None:
    for number in range(STEPS):
        step(model, optimizer, number)
        optimizer.param_groups[0]["lr"] *= 0.9
        if number == 12:
            optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(1))]})
        if number == 21:
            optimizer.load_state_dict(optimizer.state_dict())


def with_evaluations(model: nn.Module, optimizer: Any, live: Live) -> None:
    for number in range(STEPS):
        step(model, optimizer, number)
        if number % 5 == 0:
            model.eval()
            with torch.no_grad():
                model(batch(number)[0])
            model.train()


def evaluated_within_a_step(model: nn.Module, optimizer: Any, live: Live) -> None:
    for number in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, number)
        if number % 4 == 0:
            with torch.no_grad():
                model(batch(number)[0])
        loss.backward()
        if number % 4 == 1:
            with torch.no_grad():
                model(batch(number)[0])
        optimizer.step()


def sometimes_accumulating(model: nn.Module, optimizer: Any, live: Live) -> None:
    for number in range(STEPS):
        optimizer.zero_grad()
        for part in range(3 if number % 7 == 6 else 1):
            loss_of(model, number + part).backward()
        optimizer.step()


def two_passes_in_one_loss(model: nn.Module, optimizer: Any, live: Live) -> None:
    for number in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, number)
        if number % 6 == 5:
            loss = loss + loss_of(model, number + 1)
        loss.backward()
        optimizer.step()


def backward_twice(model: nn.Module, optimizer: Any, live: Live) -> None:
    for number in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, number)
        loss.backward(retain_graph=number % 6 == 5)
        if number % 6 == 5:
            loss.backward()
        optimizer.step()


def with_a_penalty(model: nn.Module, optimizer: Any, live: Live) -> None:
    for number in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, number)
        if number % 6 == 5:
            gradient = torch.autograd.grad(loss, model[0].weight, create_graph=True)[0]
            loss = loss + gradient.square().sum()
        loss.backward()
        optimizer.step()


def from_several_losses(model: nn.Module, optimizer: Any, live: Live) -> None:
    for number in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, number)
        torch.autograd.backward([loss, 2 * loss] if number % 6 == 5 else [loss])
        optimizer.step()


def with_a_closure_at_times(model: nn.Module, optimizer: Any, live: Live) -> None:
    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, 0)
        loss.backward()
        return loss

    for number in range(STEPS):
        if number % 6 == 5:
            optimizer.step(closure)
        else:
            step(model, optimizer, number)


def failing_at_times(model: nn.Module, optimizer: Any, live: Live) -> None:
    for number in range(STEPS):
        if number % 6 == 5:
            with suppress(RuntimeError):
                model(torch.zeros(4, 7))
        if number % 6 == 3:
            loss_of(model, number)  # a pass that nothing comes of
        if number % 6 == 4:
            optimizer.step()  # a step that nothing came before
        step(model, optimizer, number)


def discarding_a_backward(model: nn.Module, optimizer: Any, live: Live) -> None:
    for number in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, number).backward()
        if number % 6 == 5:
            optimizer.zero_grad()
            loss_of(model, number).backward()
        optimizer.step()


def in_eval_mode_at_times(model: nn.Module, optimizer: Any, live: Live) -> None:
    for number in range(STEPS):
        model.train(number % 6 != 5)
        step(model, optimizer, number)


def logging(model: nn.Module, optimizer: Any, live: Live) -> None:
    for number in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, number)
        live.log(within=number)
        loss.backward()
        optimizer.step()
        live.log(afterwards=number)
        if number > STEPS // 2:
            live.log(loss=-1.0)


def with_a_second_optimizer(model: nn.Module, optimizer: Any, live: Live) -> None:
    other = nn.Linear(3, 3)
    second = torch.optim.SGD(other.parameters(), 0.1)
    for number in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, number).backward()
        second.step()
        optimizer.step()


def with_hooks_of_my_own(model: nn.Module, optimizer: Any, live: Live) -> None:
    seen = []
    for number in range(STEPS):
        x, y = batch(number)
        output = model(x)
        handle = output.register_hook(lambda gradient: seen.append(float(gradient.sum())))
        optimizer.zero_grad()
        nn.functional.cross_entropy(output, y).backward()
        handle.remove()
        optimizer.step()
    assert len(seen) == STEPS


def under_transforms(model: nn.Module, optimizer: Any, live: Live) -> None:
    for number in range(STEPS):
        step(model, optimizer, number)
        if number % 5 == 0:
            weights = {name: p.detach() for name, p in model.named_parameters()}
            x, y = batch(number)
            torch.func.grad(
                lambda w, x=x, y=y: nn.functional.cross_entropy(torch.func.functional_call(model, w, (x,)), y)
            )(weights)


def across_cells(model: nn.Module, optimizer: Any, live: Live) -> None:
    for number in range(STEPS):
        step(model, optimizer, number)
        if number % 9 == 8:
            live.stop()
            step(model, optimizer, number)
            live.start()


LOOPS: tuple[Loop, ...] = (
    plainly,
    with_a_schedule,
    with_groups_that_come_later,
    with_evaluations,
    evaluated_within_a_step,
    sometimes_accumulating,
    two_passes_in_one_loss,
    backward_twice,
    with_a_penalty,
    from_several_losses,
    with_a_closure_at_times,
    failing_at_times,
    discarding_a_backward,
    in_eval_mode_at_times,
    logging,
    with_a_second_optimizer,
    with_hooks_of_my_own,
    under_transforms,
    across_cells,
)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the fast path open after the first steps."""
    monkeypatch.setattr("nbdebug.watch.recorder.passes.ALL_AT_FIRST", 2)


def recorded(loop: Loop, *, watched_all: bool = False) -> tuple[Recording, list[int]]:
    """Record a loop, and give also how far the fast path was after each step of the optimizer."""
    model = mlp()
    optimizer = torch.optim.SGD(
        [{"params": model[:2].parameters()}, {"params": model[2:].parameters(), "lr": 0.02}], 0.05
    )
    with nbdebug.watch(model, None if watched_all else optimizer, every=10**9) as live:
        stages: list[int] = []
        optimizer.register_step_post_hook(lambda *_: stages.append(live._recorder.fast_path.stage))
        loop(model, optimizer, live)
        assert live.step == live.recording().steps
    assert not live._recorder.failure
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
    return live.recording(), stages


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
def test_the_same_is_recorded(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    short, stages = recorded(loop)
    assert sum(stage != CLOSED for stage in stages) > STEPS // 8
    monkeypatch.setattr(FastPath, "open", lambda self, steps, until: None)
    long, closed = recorded(loop)
    assert set(closed) == {CLOSED}
    assert short.tally == long.tally and short.batches == long.batches
    assert set(short.scalars) == set(long.scalars) and set(short.rates) == set(long.rates)
    for ours, theirs in [(short.scalars[name], long.scalars[name]) for name in short.scalars]:
        assert list(ours.steps) == list(theirs.steps) and list(ours.values) == list(theirs.values)
    for name in short.rates:
        assert _at_every_step(short.rates[name], short.steps) == _at_every_step(long.rates[name], long.steps)
    assert list(short.training.values) == list(long.training.values)


def _at_every_step(rate: Any, steps: int) -> list[float]:
    """Return the rate at every step; it is written down where it changes."""
    places = np.searchsorted(rate.steps, np.arange(steps), side="right") - 1
    return list(rate.values[places])


@pytest.mark.usefixtures("soon")
def test_every_optimizer_may_be_followed() -> None:
    found, stages = recorded(plainly, watched_all=True)
    assert found.steps == STEPS and len(found.loss) == STEPS and sum(stages) > STEPS // 2


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("early", [2, 64])
def test_an_export_is_no_pass(early: int, strict: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbdebug.watch.recorder.passes.ALL_AT_FIRST", early)
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with nbdebug.watch(model, optimizer, every=10**9) as live:
        train(model, optimizer, 10)
        torch.export.export(model, (batch(0)[0],), strict=strict)
        train(model, optimizer, 10)
    tally = live.recording().tally
    assert (tally.steps, tally.training_passes, tally.evaluation_passes) == (20, 20, 0)


@pytest.mark.usefixtures("soon")
def test_times_add_up() -> None:
    found, _ = recorded(plainly)
    times = np.array([found.times[name].values for name in ("data", "forward", "backward", "step")])
    assert times.shape == (4, STEPS) and (times > 0).all()
    assert times.sum() <= found.seconds


@pytest.mark.usefixtures("soon")
def test_layers_are_measured_when_they_are_due() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with nbdebug.watch(model, optimizer, every=7) as live:
        train(model, optimizer, STEPS)
    found = live.recording()
    assert list(found.layers["0"].mean.steps) == list(range(0, STEPS, 7)) and len(found.loss) == STEPS


@pytest.mark.usefixtures("soon")
def test_an_output_is_saved_without_a_warning() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with nbdebug.watch(model, optimizer, every=10**9), warnings.catch_warnings():
        warnings.simplefilter("error")
        train(model, optimizer, 10)
        torch.save(model(batch(0)[0]), io.BytesIO())


@pytest.mark.usefixtures("soon")
def test_it_ends_where_the_recorder_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with nbdebug.watch(model, optimizer, every=10**9) as live:
        train(model, optimizer, 10)
        monkeypatch.setattr(live._recorder.rates, "note", lambda rates: 1 / 0)
        with pytest.warns(RuntimeWarning, match="is disabled"):
            train(model, optimizer, 20)
        assert not model._forward_hooks and not live.is_running
    assert "ZeroDivisionError" in live.recording().unseen[0]


@pytest.mark.usefixtures("soon")
def test_it_ends_where_handing_over_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with nbdebug.watch(model, optimizer, every=10**9) as live:
        train(model, optimizer, 10)
        monkeypatch.setattr(live._recorder.passes, "take_over", lambda *_: 1 / 0)
        loss = loss_of(model, 0)
        with pytest.warns(RuntimeWarning, match="is disabled"):
            loss = loss + loss_of(model, 1)
        loss.backward()
        optimizer.step()
        assert not model._forward_hooks and not live.is_running


def test_nothing_is_lost_at_the_end_of_a_step_that_did_not_end(soon: None) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with nbdebug.watch(model, optimizer, every=10**9) as live:
        train(model, optimizer, 10)
        loss_of(model, 0).backward()
        waiting = live.recording().tally
        assert (waiting.steps, waiting.backwards_since_step) == (10, 1)
        optimizer.step()
    tally = live.recording().tally
    assert (tally.steps, tally.backwards, tally.backwards_since_step) == (11, 11, 0)
