"""Loops that few people write, and tensors that few models have: the training goes on, and counts are right."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.evidence.recording import Recording
from tests.watch.runs import batch, mlp, train


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the short way open after the first steps, and take a recorder that switches itself off for an error."""
    monkeypatch.setattr("nbdebug.watch.recorder.passes.ALL_AT_FIRST", 2)
    warnings.simplefilter("error", RuntimeWarning)


def loss_of(model: nn.Module, number: int) -> torch.Tensor:
    x, y = batch(number)
    return nn.functional.cross_entropy(model(x), y)


def losses_of(recording: Recording) -> list[float]:
    return [round(float(loss), 4) for loss in recording.loss.values]


@pytest.mark.parametrize("every", [1, 10**9])
def test_a_step_without_a_pass_takes_no_loss_of_another(every: int) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    truth = []
    with nbdebug.watch(model, optimizer, every=every) as live:
        for number in range(40):
            optimizer.zero_grad()
            if number % 9 == 8:  # a penalty alone, which no pass of the model comes before
                sum(p.square().sum() for p in model.parameters()).backward()
            else:
                loss = loss_of(model, number)
                loss.backward()
                truth.append((number, round(loss.item(), 4)))
            optimizer.step()
    found = live.recording()
    assert found.steps == 40
    seen = dict(zip(found.loss.steps.tolist(), losses_of(found), strict=True))
    assert all(seen[number] == loss for number, loss in truth)


def test_a_graph_that_contains_an_older_output_is_one_backward_pass() -> None:
    model, head = nn.Linear(20, 20), nn.Linear(20, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    before: Any = None
    with nbdebug.watch(model, optimizer, every=10**9) as live:
        for number in range(30):
            x, y = batch(number)
            output = model(x)
            optimizer.zero_grad()
            mixed = output if before is None else output + 0.1 * before
            nn.functional.cross_entropy(head(mixed), y).backward(retain_graph=True)
            optimizer.step()
            before = output
    tally = live.recording().tally
    assert (tally.backwards, tally.backwards_per_step, tally.backwards_discarded) == (30, ((1, 30),), 0)


@pytest.mark.parametrize("every", [1, 10**9])
def test_two_losses_of_one_graph_with_a_step_between(every: int) -> None:
    class Both(nn.Module):
        """Gives answers and a value."""

        def __init__(self) -> None:
            super().__init__()
            self.body, self.answer, self.value = nn.Linear(20, 16), nn.Linear(16, 3), nn.Linear(16, 1)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            hidden = self.body(x).relu()
            return self.answer(hidden), self.value(hidden)

    model = Both()
    actor, critic = (torch.optim.SGD(part.parameters(), 0.05) for part in (model.answer, model.value))
    with nbdebug.watch(model, {"actor": actor, "critic": critic}, every=every) as live:
        for number in range(20):
            x, y = batch(number)
            answers, values = model(x)
            model.zero_grad()
            nn.functional.cross_entropy(answers, y).backward(retain_graph=True)
            actor.step()
            values.square().mean().backward()
            critic.step()
    found = live.recording()
    assert found.tally.backwards == 40 and len(found.loss) == len(found.scalars["loss/critic"]) == 20


def test_an_optimizer_that_is_made_anew_sets_the_pace() -> None:
    model = mlp()
    with nbdebug.watch(model, every=10**9) as live:
        for _ in range(3):
            train(model, torch.optim.Adam(model.parameters(), 1e-3), 30)
    found = live.recording()
    assert found.steps == len(found.loss) == 90 and list(found.rates) == ["0"]


def test_a_second_optimizer_may_come_late() -> None:
    model = mlp()
    first, second = (torch.optim.SGD(part.parameters(), 0.05) for part in (model[:2], model[2:]))
    schedule = torch.optim.lr_scheduler.ExponentialLR(first, 0.99)
    with nbdebug.watch(model, every=10**9) as live:
        for number in range(60):
            model.zero_grad()
            loss_of(model, number).backward()
            first.step()
            schedule.step()
            if number > 40:
                second.step()
    assert live.recording().steps == 60


def test_groups_that_come_late_are_measured() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model[4].parameters(), 0.05)
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
        train(model, optimizer, 10)
        optimizer.add_param_group({"params": list(model[:4].parameters())})
        train(model, optimizer, 10)
        whole = sum(float(p.grad.square().sum()) for p in model.parameters() if p.grad is not None) ** 0.5
    found = live.recording()
    assert found.gradient.last == pytest.approx(whole, rel=1e-4)
    assert found.parameters["0.weight"].gradient.steps[0] >= 10


def test_a_scaler_that_comes_late_is_noticed() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    truth = []
    with nbdebug.watch(model, optimizer, every=10**9) as live:
        for number in range(60):
            optimizer.zero_grad()
            loss = loss_of(model, number)
            truth.append(round(loss.item(), 4))
            if number < 40:
                loss.backward()
                optimizer.step()
            else:
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
    assert losses_of(live.recording()) == pytest.approx(truth, abs=2e-4)


def test_a_step_before_its_backward_pass_is_late() -> None:
    model = nn.Linear(20, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with nbdebug.watch(model, optimizer, every=10**9) as live:
        for number in range(40):
            loss = loss_of(model, number)
            optimizer.step()
            optimizer.zero_grad()
            loss.backward()
    tally = live.recording().tally
    assert (tally.steps, tally.backwards) == (40, 40) and tally.late_steps > 35
    assert "`step()` runs before `backward()`" in live.report().result("step-never-taken").findings[0].says


class InInference(nn.Module):
    """A part of the pass is made in inference mode."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(20, 16), nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            hidden = self.body(x)
        answer: torch.Tensor = self.head(hidden.clone())
        return answer


class Complex(nn.Module):
    """Weights that are complex numbers, and outputs with the negative bit."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(20, 16, dtype=torch.complex64) / 8)
        self.flip, self.head = nn.Identity(), nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = self.head(self.flip((x.to(torch.complex64) @ self.weight).conj().imag))
        return answer


class Recurrent(nn.Module):
    """No layer inside gives one plain tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.LSTM(5, 3, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = self.cells(x.view(len(x), 4, 5))[0][:, -1]
        return answer


class Transformed(nn.Module):
    """Gradients of a part are taken for each sample within the pass."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(20, 1), nn.Linear(20, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        slopes = torch.func.vmap(torch.func.grad(lambda one: self.inner(one).sum()))(x)
        answer: torch.Tensor = self.head(x + slopes)
        return answer


@pytest.mark.parametrize("kind", [InInference, Complex, Recurrent, Transformed], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("every", [1, None])
def test_kinds_of_passes(kind: type[nn.Module], every: int | None) -> None:
    torch.manual_seed(0)
    bare, model = kind(), kind()
    model.load_state_dict(bare.state_dict())
    train(bare, torch.optim.SGD(bare.parameters(), 0.05), 12)
    with nbdebug.watch(model, every=every) as live:
        train(model, torch.optim.SGD(model.parameters(), 0.05), 12)
    assert not live._recorder.failure and live.step == 12
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in bare.state_dict().items())


def test_a_frozen_transformer_computes_as_it_does_unwatched() -> None:
    """In eval mode a hook anywhere inside would switch its fast way off, whose numbers differ."""
    weights = []
    for watched in (False, True):
        torch.manual_seed(0)
        body = nn.TransformerEncoderLayer(20, 4, 32, batch_first=True).eval().requires_grad_(False)
        head = nn.Linear(20, 3)
        model = nn.ModuleDict({"body": body, "head": head})
        model.forward = lambda x: head(body(x[:, None, :].repeat(1, 5, 1), src_key_padding_mask=mask).mean(1))  # noqa: B023
        mask = torch.zeros(32, 5, dtype=torch.bool)
        mask[:, 3:] = True
        optimizer = torch.optim.SGD(head.parameters(), 0.1)
        with nbdebug.watch(model, optimizer, every=1 if watched else 10**9) as live:
            live.stop() if not watched else None
            train(model, optimizer, 6)
        weights.append(head.weight.detach().clone())
    assert torch.equal(*weights)


@pytest.mark.parametrize("by", ["listener", "hook", "failure"])
def test_a_watch_that_ends_within_a_step_does_not_disturb_it(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    warnings.simplefilter("default", RuntimeWarning)
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    live = nbdebug.watch(model, optimizer, every=10**9).start()
    called = []
    optimizer.register_step_post_hook(lambda *_: called.append(by))
    if by == "hook":
        optimizer.register_step_post_hook(lambda *_: live.stop() if live.step == 5 else None)
        optimizer.register_step_post_hook(lambda *_: called.append(by))
    if by == "listener":
        monkeypatch.setattr("nbdebug.watch.recorder.recorder.HEARD", 0.0)
        live.subscribe(lambda run: run.stop())
    if by == "failure":
        monkeypatch.setattr(live._recorder.rates, "note", lambda rates: 1 / 0)
    train(model, optimizer, 20)
    assert not live.is_running and len(called) == 20 * (2 if by == "hook" else 1)
    live.stop()
    assert len(optimizer._optimizer_step_pre_hooks) == 0 and not model._forward_hooks and not model._forward_pre_hooks
    assert len(optimizer._optimizer_step_post_hooks) == (3 if by == "hook" else 1)


def test_gradients_of_every_size_are_measured_without_a_warning() -> None:
    """Squares of float32 overflow above 1e19 and vanish below 1e-19; both are gradients all the same."""
    for scale in (1e-22, 1e22):
        model = nn.Linear(20, 3)
        optimizer = torch.optim.SGD(model.parameters(), 0.0)
        with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
            model(batch(0)[0]).mul(scale).sum().backward()
            optimizer.step()
        norm = float(torch.linalg.vector_norm(model.weight.grad, dtype=torch.float64))
        assert live.recording().parameters["weight"].gradient.last == pytest.approx(norm, rel=1e-4)
