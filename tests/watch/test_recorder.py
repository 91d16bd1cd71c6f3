"""What the recorder sees is what happened."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable

import numpy as np
import pytest
import torch
from torch import nn

import nbdebug
from tests.watch.runs import batch, mlp, train, watched


def test_sees_losses_rates_and_steps_without_being_told() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(
        [{"params": model[0].parameters()}, {"params": model[2:].parameters(), "lr": 0.01}], 0.1
    )
    live, losses = watched(model, optimizer)
    found = live.recording()
    assert found.steps == 20 and list(found.loss.steps) == list(range(20))
    assert np.allclose(found.loss.values, losses)
    assert {name: series.last for name, series in found.rates.items()} == pytest.approx({"0": 0.1, "1": 0.01})
    assert found.tally.backwards_per_step == ((1, 20),) and found.tally.training_passes == 20
    assert set(found.times) == {"data", "forward", "backward", "step"} and (found.times["forward"].values > 0).all()
    assert found.unseen == ()


@pytest.mark.parametrize("inplace", [False, True])
def test_statistics_of_layers_are_those_of_their_outputs(inplace: bool) -> None:
    """Also where the next module writes over the output, from the second step on."""
    model = mlp(inplace)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    truth: dict[str, torch.Tensor] = {}
    for path in ("0", "1", "2", "4"):
        model.get_submodule(path).register_forward_hook(lambda m, a, out, path=path: truth.update({path: out.clone()}))
    live, _ = watched(model, optimizer, 3)
    for path, out in truth.items():
        layer = live.recording().layers[path]
        assert layer.mean.last == pytest.approx(out.mean().item(), abs=0.05)
        assert layer.std.last == pytest.approx(out.std().item(), rel=0.1)
        assert layer.zeros.last == pytest.approx((out == 0).float().mean().item(), abs=0.05)
        assert layer.abs_max.last <= out.abs().max().item() + 1e-6
        assert layer.not_finite.last == 0
        assert layer.histogram is not None and layer.histogram.shares[-1].sum() == pytest.approx(1, abs=1e-5)


def test_gradients_weights_and_updates_are_right() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    truth: dict[str, tuple[float, float, float]] = {}
    before: dict[str, torch.Tensor] = {}

    def note() -> None:
        before.update({name: p.detach().clone() for name, p in model.named_parameters()})
        nn.utils.clip_grad_norm_(model.parameters(), 0.01)

    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
        train(model, optimizer, 5, before_step=note)
    for name, p in model.named_parameters():
        change = (p - before[name]).norm() / before[name].norm()
        truth[name] = (p.grad.norm().item(), p.norm().item(), change.item())
    found = live.recording()
    for name, (gradient, weight, update) in truth.items():
        series = found.parameters[name]
        assert series.used.last == pytest.approx(gradient, rel=1e-4)
        assert series.gradient.last > 2 * series.used.last
        assert series.weight.last == pytest.approx(weight, rel=0.1)
        assert series.update.last == pytest.approx(update, rel=0.3)
    assert found.used.last == pytest.approx(0.01, rel=1e-3)
    assert found.tally.clipped_steps == found.tally.norms_compared == 5


def test_each_part_of_a_step_has_its_time() -> None:
    """Where each part takes a known time at least, each has it, and together they are not more than all took."""
    naps = {"data": 0.004, "forward": 0.008, "backward": 0.012, "step": 0.016}

    class Slow(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            time.sleep(naps["forward"])
            found = super().forward(x)
            found.register_hook(lambda gradient: time.sleep(naps["backward"]))
            return torch.relu(found)

    class SlowSteps(torch.optim.Optimizer):
        def step(self, closure: None = None) -> None:  # type: ignore[override]
            time.sleep(naps["step"])
            for p in self.param_groups[0]["params"]:
                p.data -= 0.01 * p.grad

    model = Slow(20, 3)
    optimizer = SlowSteps(model.parameters(), {"lr": 0.01})
    live, _ = watched(model, optimizer, 6, after_step=lambda: time.sleep(naps["data"]))
    found = live.recording()
    for part, nap in naps.items():
        own = found.times[part].values[1:]  # nothing sleeps before the first step
        assert len(own) == 5 and (own >= 0.99 * nap).all(), part
    assert sum(float(series.values.sum()) for series in found.times.values()) <= found.seconds


def test_a_log_of_ones_own_takes_the_place_of_what_was_seen() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with nbdebug.watch(model, optimizer) as live:
        for number in range(6):
            x, y = batch(number)
            loss = nn.functional.cross_entropy(model(x), y)
            live.log(loss=number, accuracy=torch.tensor(0.5))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            live.log(after=number)
    scalars = live.recording().scalars
    for name in ("loss", "after"):
        assert list(scalars[name].steps) == list(range(6)) and list(scalars[name].values) == list(range(6))
    assert list(scalars["accuracy"].values) == [0.5] * 6


def test_evaluation_is_no_step() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
        train(model, optimizer, 3)
        model.eval()
        with torch.no_grad():
            for number in range(7):
                model(batch(number)[0])
        train(model, optimizer, 2)
    tally = live.recording().tally
    assert (tally.steps, tally.training_passes, tally.evaluation_passes) == (5, 5, 7)
    assert (tally.steps_in_eval_mode, tally.first_step_in_eval_mode) == (2, 3)


def test_a_tensor_taken_whole_may_be_as_large_as_the_sample_of_another() -> None:
    """Many tensors make the samples small, so that a small tensor has as many elements as the lines of a large one."""
    wide = [nn.Linear(128, 1, bias=False) for _ in range(40)] + [nn.Linear(512, 512, bias=False) for _ in range(2)]
    model = nn.ModuleList([*wide, *(nn.Linear(4, 4, bias=False) for _ in range(250))])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
        for _ in range(3):
            sum(part.weight.square().sum() for part in model).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert live.step == 3 and "failed" not in " ".join(live.recording().unseen)


class Swapping(torch.optim.Optimizer):
    """Puts a new tensor in the place of the old one instead of writing into it."""

    def __init__(self, parameters: Iterable[torch.Tensor]) -> None:
        super().__init__(parameters, {"lr": 0.1})

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for p in self.param_groups[0]["params"]:
            p.data = p.data - 0.1 * p.grad


def test_weights_that_are_swapped_are_seen_to_move() -> None:
    model = mlp()
    live, _ = watched(model, Swapping(model.parameters()), 6)
    for series in live.recording().parameters.values():
        assert len(series.update) == 6 and (series.update.values > 0).all()


def test_a_rate_in_a_tensor_is_followed() -> None:
    """A scheduler writes into it, and it stays the same object."""
    model = mlp()
    rate = torch.tensor(0.1)
    optimizer = torch.optim.Adam(model.parameters(), rate)
    live, _ = watched(model, optimizer, 6, after_step=lambda: rate.mul_(0.5))
    assert live.recording().rates["0"].last == pytest.approx(0.1 * 0.5**5, rel=1e-5)


def test_a_training_in_double_precision_is_not_taken_for_broken() -> None:
    """Numbers beyond single precision are finite: nothing is found, and nobody is warned."""
    model = mlp().double()
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    losses = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
            for number in range(40):
                optimizer.zero_grad()
                loss = model(batch(number)[0].double() * 1e45).square().mean()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        recording, report = live.recording(), live.report()
    assert min(losses) > 1e39 and recording.loss.values.tolist() == losses and recording.loss.not_finite == 0
    for layer in recording.layers.values():
        assert len(layer.mean) == 40 and layer.not_finite.high.max() == 0 and np.isfinite(layer.abs_max.values).all()
    assert all(parameter.gradient.not_finite == 0 for parameter in recording.parameters.values())
    assert report.result("non-finite-loss").status == "clean"
