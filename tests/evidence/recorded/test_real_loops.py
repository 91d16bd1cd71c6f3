"""Loops that are watched as they run: the same checks that judge a training step on a copy judge them, too."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.watch.judging import checks_of_recordings, judged
from tests import loops
from tests.examples import Healthy, all_healthy, failing_recording
from tests.real_runs import endless, mlp, watched, watched_zoo
from tests.zoo.tabular import digits

Step = Callable[..., Any]


def looped(step: Step, steps: int = 80, model: nn.Module | None = None, **options: Any) -> dict[str, Any]:
    """Run a training step of the user's again and again under watch."""
    model = mlp() if model is None else model
    optimizer = torch.optim.SGD(model.parameters(), **{"lr": 0.05, **options})
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
        for _, batch in zip(range(steps), endless(digits()), strict=False):
            step(model, batch, nn.functional.cross_entropy, optimizer)
    return {"recording": live.recording()}


@failing_recording("accumulated-gradients", where="your loop")
def zero_grad_forgotten() -> dict[str, Any]:
    """Every step follows the sum of all gradients."""
    return looped(loops.without_zero_grad, lr=1e-3)


@failing_recording("accumulated-gradients", where="your loop")
def another_model_cleared() -> dict[str, Any]:
    """The gradients of a copy are cleared instead."""
    other = mlp()

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> None:
        other.zero_grad()
        loss_fn(model(batch[0]), batch[1]).backward()
        optimizer.step()

    return looped(step, lr=1e-3)


@failing_recording("step-never-taken", where="your loop")
def backward_forgotten() -> dict[str, Any]:
    """There are never any gradients."""
    return looped(loops.without_backward)


@failing_recording("step-never-taken", where="your loop")
def step_forgotten() -> dict[str, Any]:
    """There are gradients, and nobody uses them."""
    return looped(loops.without_step)


@failing_recording("step-never-taken", where="your loop")
def cleared_before_the_step() -> dict[str, Any]:
    """The gradients are gone when the step comes."""
    return looped(loops.zeroed_too_late)


@failing_recording("graph-kept-alive", where="your loop")
def losses_in_a_list() -> dict[str, Any]:
    """Every loss is kept with its graph."""
    kept: list[Any] = []

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> None:
        kept.append(loops.right(model, batch, loss_fn, optimizer))

    return looped(step)


@failing_recording("graph-kept-alive", where="your loop")
def outputs_in_a_list() -> dict[str, Any]:
    """Every output is kept for a metric."""
    kept: list[Any] = []

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> None:
        optimizer.zero_grad()
        kept.append(model(batch[0]))
        loss_fn(kept[-1], batch[1]).backward()
        optimizer.step()

    return looped(step)


@failing_recording("left-in-eval-mode", where="2")
def eval_mode_with_dropout() -> dict[str, Any]:
    """Nobody called train() after the evaluation."""
    return looped(loops.right, model=mlp(nn.Dropout(0.3)).eval())


@failing_recording("left-in-eval-mode", where="2")
def eval_mode_with_batchnorm() -> dict[str, Any]:
    """The evaluation in the middle of the run left its mode behind."""
    model = mlp(nn.BatchNorm1d(32))

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> None:
        loops.right(model, batch, loss_fn, optimizer)
        model.eval()

    return looped(step, model=model)


@failing_recording("repeated-batches", where="loader")
def many_steps_on_each_batch() -> dict[str, Any]:
    """An index that moves on far too slowly."""
    batches = list(digits())
    model = mlp()
    slow = [batch for batch in batches[:8] for _ in range(20)]
    return watched(model, torch.optim.SGD(model.parameters(), lr=0.05), batches=slow, steps=160)


@failing_recording("repeated-batches", where="loader")
def always_the_first_batch() -> dict[str, Any]:
    """`next(iter(loader))` in the loop."""
    first = next(iter(digits()))
    model = mlp()
    return watched(model, torch.optim.SGD(model.parameters(), lr=0.05), batches=[first], steps=100)


@failing_recording("dead-units", where="0")
def large_negative_bias() -> dict[str, Any]:
    """No unit of the hidden layer ever fires."""
    model = mlp()
    nn.init.constant_(model[0].bias, -50.0)
    return looped(loops.right, model=model)


@failing_recording("dead-units")
def killed_by_a_step() -> dict[str, Any]:
    """One huge step put every unit out."""
    model = mlp()

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> None:
        loops.right(model, batch, loss_fn, optimizer)
        with torch.no_grad():
            model[0].bias.sub_(3.0)

    return looped(step, model=model)


def deep(activation: type[nn.Module], scale: float = 1.0, depth: int = 12) -> nn.Sequential:
    """Return a deep plain network."""
    layers: list[nn.Module] = [nn.Linear(64, 32)]
    for _ in range(depth):
        layers += [activation(), nn.Linear(32, 32)]
    model = nn.Sequential(*layers, activation(), nn.Linear(32, 10))
    with torch.no_grad():
        for layer in model:
            if isinstance(layer, nn.Linear):
                layer.weight.mul_(scale)
    return model


@failing_recording("vanishing-gradients", where="0")
def deep_sigmoids() -> dict[str, Any]:
    """Each sigmoid leaves a quarter of the gradient at most."""
    return looped(loops.right, model=deep(nn.Sigmoid))


@failing_recording("vanishing-gradients", where="0")
def deep_and_too_small() -> dict[str, Any]:
    """Weights far too small for their fan."""
    return looped(loops.right, model=deep(nn.Tanh, 0.3))


@failing_recording("exploding-gradients", where="0")
def deep_and_too_large() -> dict[str, Any]:
    """Weights far too large for their fan."""
    return looped(loops.right, model=deep(nn.ReLU, 7.0), lr=1e-12)


@failing_recording("exploding-gradients", where="0")
def deep_leaky_and_too_large() -> dict[str, Any]:
    """The same with another activation."""
    return looped(loops.right, model=deep(nn.LeakyReLU, 7.0, depth=9), lr=1e-12)


@failing_recording("update-ratio-off")
def steps_that_overwrite() -> dict[str, Any]:
    """Each step changes the weights by about as much as they are."""
    model = mlp()
    return watched(model, torch.optim.SGD(model.parameters(), lr=200.0), steps=60)


@failing_recording("update-ratio-off")
def steps_that_do_nothing() -> dict[str, Any]:
    """A learning rate with three zeros too many."""
    return looped(loops.right, lr=1e-9)


@failing_recording("loading-bottleneck", where="loader")
def slow_disk() -> dict[str, Any]:
    """Every batch takes longer to read than to train on."""

    def slow(step: int, batch: Any) -> Any:
        time.sleep(0.12)
        return batch

    model = mlp()
    return watched(model, torch.optim.SGD(model.parameters(), lr=0.05), change=slow, steps=14)


@failing_recording("loading-bottleneck", where="loader")
def slow_transform() -> dict[str, Any]:
    """A transform that keeps the processor busy."""

    def busy(step: int, batch: Any) -> Any:
        until = time.perf_counter() + 0.15
        while time.perf_counter() < until:
            sum(range(1000))
        return batch

    model = mlp()
    return watched(model, torch.optim.Adam(model.parameters()), change=busy, steps=12)


def test_each_reason_has_its_sentence() -> None:
    for make, word in ((backward_forgotten, "backward"), (step_forgotten, "step()` is never")):
        assert word in judged(make()["recording"]).result("step-never-taken").findings[0].says


def test_accumulation_closures_and_one_dropout_free_model_are_fine() -> None:
    """What looks alike and is legitimate stays silent."""
    torch.manual_seed(0)
    for made in (looped(loops.accumulating(4), 160), looped(loops.right, model=mlp().eval())):
        report = judged(made["recording"])
        assert not report.alarms, [str(finding) for finding in report.alarms]


def test_both_forms_are_one_check() -> None:
    """What a recording is judged by are the same ids as those of a diagnosis."""
    ids = checks_of_recordings()
    both = ("dead-units", "vanishing-gradients", "exploding-gradients", "update-ratio-off", "accumulated-gradients")
    both += ("step-never-taken", "left-in-eval-mode", "repeated-batches", "graph-kept-alive", "loading-bottleneck")
    for check in both:
        assert check in ids
    report = nbdebug.diagnose(**loops.setup(loops.right), checks=["loss-flat", "weights-growing"], progress=False)
    assert [result.status for result in report.results] == ["skipped", "skipped"]
    assert "nbdebug.watch" in report.results[0].reason


# A tenth of the zoo is quick enough for every run; `make test-slow` takes the rest.
PLAIN = [h for h in all_healthy() if not h.is_tutorial]
ZOO = [pytest.param(h, id=h.name, marks=[pytest.mark.slow] * (index % 10 > 0)) for index, h in enumerate(PLAIN)]


@pytest.mark.parametrize("setup", ZOO)
def test_silent_on_healthy_trainings(setup: Healthy) -> None:
    """No check raises an alarm on the real training of a healthy set-up, and none crashes."""
    report = watched_zoo(setup, seed=0)
    assert not report.alarms, [str(finding) for finding in report.alarms]
    assert not [str(result) for result in report.results if result.status == "crashed"]
