"""The recorder in loops of every kind: accumulation, scaling, closures, several optimizers, wrappers, odd modules."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.evidence.training_loop import Loop
from tests.watch.runs import batch, mlp, train, watched


def loss_of(model: nn.Module, number: int) -> torch.Tensor:
    x, y = batch(number)
    return nn.functional.cross_entropy(model(x), y)


def test_gradient_accumulation() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    expected = []
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
        for _ in range(4):
            optimizer.zero_grad()
            parts = []
            for micro in range(3):
                loss = loss_of(model, micro) / 3
                loss.backward()
                parts.append(loss.item())
            optimizer.step()
            expected.append(sum(parts))
    found = live.recording()
    assert found.tally.backwards_per_step == ((3, 4),) and found.tally.leftover_steps == 0
    assert np.allclose(found.loss.values, expected, atol=1e-6)


def test_all_passes_of_an_accumulated_step_count_in_its_statistics() -> None:
    """The mean over the passes, and the largest value of any; steps of one pass in between are left alone."""
    model = nn.Sequential(nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    nn.init.zeros_(model[0].weight)
    bias = model[0].bias.detach()
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
        for values in ([1.0, 3.0], [5.0], [-7.0, 1.0]):
            optimizer.zero_grad()
            for value in values:
                bias.fill_(value)
                model(torch.ones(8, 4)).sum().backward()
            optimizer.step()
    layer = live.recording().layers["0"]
    assert layer.mean.values.tolist() == [2.0, 5.0, -3.0] and layer.abs_max.values.tolist() == [3.0, 5.0, 7.0]


@pytest.mark.parametrize("to_none", [True, False])
@pytest.mark.parametrize("forgotten", [True, False])
def test_forgotten_zero_grad_is_told_from_a_cleared_gradient(forgotten: bool, to_none: bool) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with nbdebug.watch(model, optimizer) as live:
        for number in range(5):
            if not forgotten:
                optimizer.zero_grad(set_to_none=to_none)
            loss_of(model, number).backward()
            optimizer.step()
    tally = live.recording().tally
    assert (tally.leftover_steps, tally.leftover_judged) == (4 if forgotten else 0, 4)


def test_forgotten_backward_and_gradients_thrown_away() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with nbdebug.watch(model, optimizer) as live:
        for number in range(3):
            loss_of(model, number)
            optimizer.step()
        for number in range(3):
            loss_of(model, number).backward()
            optimizer.zero_grad()
    tally = live.recording().tally
    assert tally.steps_without_backward == 3 and tally.steps_without_gradient == 3
    assert tally.backwards_discarded == 2 and tally.backwards == 3


@pytest.mark.parametrize("fused", [False, True])
def test_losses_and_norms_are_unscaled_under_a_grad_scaler(fused: bool) -> None:
    model, plain = mlp(), mlp()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
        for number in range(3):
            optimizer.zero_grad()
            scaler.scale(loss_of(model, number)).backward()
            scaler.step(optimizer)
            scaler.update()
    other, losses = watched(plain, torch.optim.AdamW(plain.parameters(), 1e-3, fused=fused), 3)
    found, expected = live.recording(), other.recording()
    assert np.allclose(found.loss.values, losses, rtol=1e-4)
    for which in ("gradient", "used"):
        assert np.allclose(getattr(found, which).values, getattr(expected, which).values, rtol=1e-3)
    assert found.scale.last == 1024.0 and found.tally.clipped_steps == 0


def test_clipping_under_a_grad_scaler_shows_the_norms_before_and_after() -> None:
    """As the documentation of torch clips: unscaled first, then clipped."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
    norms = []
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
        for number in range(5):
            optimizer.zero_grad()
            scaler.scale(loss_of(model, number)).backward()
            scaler.unscale_(optimizer)
            norms.append(float(nn.utils.clip_grad_norm_(model.parameters(), 0.01)))
            scaler.step(optimizer)
            scaler.update()
    found = live.recording()
    assert np.allclose(found.gradient.values, norms, rtol=1e-4) and min(norms) > 0.1
    assert np.allclose(found.used.values, 0.01, rtol=1e-3)
    assert found.tally.clipped_steps == found.tally.norms_compared == 5


def test_a_skipped_step_of_a_scaler_does_not_add_its_loss_to_the_next() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
        for number in range(4):
            optimizer.zero_grad()
            loss = loss_of(model, number) * (float("inf") if number == 1 else 1.0)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    found = live.recording()
    assert found.steps == 3 and found.tally.backwards_discarded == 1
    expected = [loss_of(model, number).item() for number in (0, 2, 3)]
    assert np.allclose(found.loss.values, expected, rtol=1e-4)


def test_clipping_by_data_is_noticed() -> None:
    """The old way of clipping bumps no version, so the gradients are measured again from time to time."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)

    def clip() -> None:
        for p in model.parameters():
            p.grad.data.clamp_(-1e-4, 1e-4)

    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
        train(model, optimizer, 6, before_step=clip)
    found = live.recording()
    assert found.tally.clipped_steps >= 4
    assert found.used.last == pytest.approx(float(sum(p.grad.norm() ** 2 for p in model.parameters()) ** 0.5), rel=1e-3)


def test_closures() -> None:
    model = mlp()
    optimizer = torch.optim.LBFGS(model.parameters(), 0.1, max_iter=5)
    firsts = []
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
        for number in range(3):
            tried = []

            def closure(number: int = number, tried: list[float] = tried) -> torch.Tensor:
                optimizer.zero_grad()
                loss = loss_of(model, number)
                loss.backward()
                tried.append(loss.item())
                return loss

            optimizer.step(closure)
            firsts.append(tried[0])
    found = live.recording()
    assert found.steps == 3 and np.allclose(found.loss.values, firsts)
    assert found.tally.steps_without_backward == found.tally.leftover_steps == 0
    assert len(found.used) == 3 and len(found.layers) == 5


def test_two_models_and_two_optimizers() -> None:
    """As a GAN is trained: the first optimizer sets the pace, and each has its own loss."""
    torch.manual_seed(0)
    maker, judge = (
        nn.Sequential(nn.Linear(4, 20), nn.Tanh()),
        nn.Sequential(nn.Linear(20, 8), nn.ReLU(), nn.Linear(8, 1)),
    )
    makes, judges = (torch.optim.SGD(m.parameters(), 0.01) for m in (maker, judge))
    losses = []
    with nbdebug.watch({"G": maker, "D": judge}, {"D": judges, "G": makes}, every=1, budget=1.0) as live:
        for number in range(5):
            judges.zero_grad()
            loss = judge(batch(number)[0]).mean() - judge(maker(torch.randn(8, 4)).detach()).mean()
            loss.backward()
            judges.step()
            makes.zero_grad()
            second = judge(maker(torch.randn(8, 4))).mean()
            second.backward()
            makes.step()
            losses.append((loss.item(), second.item()))
    found = live.recording()
    assert found.steps == 5 and found.tally.other_optimizers == (("G", 5),)
    assert np.allclose(found.loss.values, [a for a, _ in losses], atol=1e-6)
    assert np.allclose(found.scalars["loss/G"].values, [b for _, b in losses], atol=1e-6)
    assert {"G.0", "D.0"} <= set(found.layers) and {"G.0.weight", "D.2.bias"} <= set(found.parameters)
    assert found.tally.leftover_steps == 0 and found.tally.backwards_discarded == 0
    assert set(found.rates) == {"D/0", "G/0"}


class ByOtherNames(nn.Module):
    """Called by methods of its own, never as a whole."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(20, 8), nn.Linear(8, 3)

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.encoder(x))

    def decode(self, x: torch.Tensor) -> torch.Tensor:
        return self.decoder(x)


def test_a_model_that_is_never_called_as_a_whole() -> None:
    model = ByOtherNames()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
        for number in range(6):
            x, y = batch(number)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model.decode(model.encode(x)), y).backward()
            optimizer.step()
    found = live.recording()
    assert {"encoder", "decoder"} <= set(found.layers) and len(found.loss) >= 3 and found.steps == 6
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_layers_inside_a_part_that_is_called_alone() -> None:
    """Also where the model's own forward is never used: from the first step on, if that is said."""

    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(20, 8), nn.Linear(8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(torch.relu(self.first(x)))

    model = nn.ModuleDict({"part": Part()})
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    with nbdebug.watch(model, every=1, budget=1.0).look_inside() as live:
        for number in range(4):
            x, y = batch(number)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model["part"](x), y).backward()
            optimizer.step()
    found = live.recording()
    assert {"part", "part.first", "part.second"} <= set(found.layers) and len(found.loss) == 4
    assert len(found.layers["part.first"].std) == 4 and found.tally.training_passes == 4
    assert found.tally.backwards_per_step == ((1, 4),) and found.tally.steps_without_backward == 0
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_modules_called_twice_shared_and_recurrent() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shared = nn.Linear(20, 20)
            self.again = self.shared
            self.rnn = nn.GRU(5, 6, batch_first=True)
            self.head = nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.again(torch.relu(self.shared(x)))
            return self.head(self.rnn(x.view(len(x), 4, 5))[0][:, -1])

    model = Twice()
    live, _ = watched(model, torch.optim.SGD(model.parameters(), 0.05), 4)
    found = live.recording()
    assert {"shared", "rnn", "head"} <= set(found.layers) and "again" not in found.layers
    assert len(found.layers["shared"].std) == 4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.float16])
def test_other_precisions(dtype: torch.dtype) -> None:
    model = mlp().to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
        for number in range(3):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(batch(number)[0].to(dtype)).float(), batch(number)[1])
            loss.backward()
            optimizer.step()
    found = live.recording()
    norm = float(sum(p.grad.double().norm() ** 2 for p in model.parameters()) ** 0.5)
    assert found.used.last == pytest.approx(norm, rel=0.02)
    assert 0.05 < found.layers["0"].std.last < 5 and found.unseen == ()


def test_autocast() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
        for number in range(3):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = loss_of(model, number)
            loss.backward()
            optimizer.step()
    found = live.recording()
    assert len(found.layers["0"].std) == 3 and found.unseen == ()


@pytest.mark.parametrize("how", ["wrapped", "in place"])
def test_compiled_models_say_what_cannot_be_seen(how: str) -> None:
    model = mlp()
    if how == "wrapped":
        trained: Any = torch.compile(model, backend="eager")
    else:
        model.compile(backend="eager")
        trained = model
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    train(trained, optimizer, 2)
    live, _ = watched(trained, optimizer, 4)
    found = live.recording()
    assert found.steps == 4 and {"0.weight", "4.bias"} <= set(found.parameters)
    assert any("compiled" in note for note in found.unseen)
    if how == "wrapped":
        assert len(found.loss) == 4


@pytest.fixture
def process_group(tmp_path: Any) -> Iterator[None]:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    if torch.distributed.is_initialized():  # another test's, in the same process
        yield
        return
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def test_ddp(process_group: None) -> None:
    model = mlp()
    wrapped = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    live, losses = watched(wrapped, optimizer, 4)
    found = live.recording()
    assert np.allclose(found.loss.values, losses) and {"0", "4"} <= set(found.layers)
    assert "0.weight" in found.parameters and found.gradient.last == pytest.approx(found.used.last)
    assert found.model == "Sequential"


def test_checkpointing_is_not_counted_twice() -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = mlp()[:3], nn.Linear(64, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(torch.utils.checkpoint.checkpoint(self.body, x, use_reentrant=False))

    model = Checkpointed()
    live, _ = watched(model, torch.optim.SGD(model.parameters(), 0.05), 4)
    found = live.recording()
    assert found.tally.training_passes == 4 and len(found.layers["body.0"].std) == 4


def test_a_gradient_penalty_is_no_backward_pass() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
        for number in range(3):
            x, y = batch(number)
            x.requires_grad_()
            out = model(x)
            (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
            loss = nn.functional.cross_entropy(out, y) + slope.norm()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    found = live.recording()
    assert found.tally.backwards_per_step == ((1, 3),) and found.loss.last == pytest.approx(loss.item(), rel=1e-5)


def test_not_finite_values_are_counted_where_they_are() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
        train(model, optimizer, 3)
        with torch.no_grad():
            model[2].weight[0, 0] = float("nan")
        train(model, optimizer, 2)
    found = live.recording()
    assert (found.loss.not_finite, found.loss.first_not_finite) == (2, 3)
    assert found.layers["0"].not_finite.values[3] == 0 and found.layers["2"].not_finite.values[3] > 0
    assert found.parameters["4.weight"].gradient.first_not_finite == 3


def test_graphs_that_are_kept_alive_are_counted() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    total: Any = 0.0
    with nbdebug.watch(model, optimizer) as live:
        for number in range(10):
            loss = loss_of(model, number)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total = total + loss
    kept = live.recording().graphs.last
    with nbdebug.watch(model, optimizer) as live:
        train(model, optimizer, 10)
    assert kept == 10 and live.recording().graphs.last <= 2


def test_the_same_batch_again_and_again_is_seen() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with nbdebug.watch(model, optimizer) as live:
        train(model, optimizer, 5)
        for _ in range(6):
            optimizer.zero_grad()
            loss_of(model, 0).backward()
            optimizer.step()
    tally = live.recording().batches
    assert (tally.seen, tally.distinct, tally.in_a_row, tally.most_common) == (11, 5, 6, 7)


class Announced(torch.optim.SGD):
    """Does something of its own and leaves the step to its parent, as many do; fails when told to."""

    fails = False

    def step(self, closure: Any = None) -> Any:
        found = super().step(closure)
        if self.fails:
            raise RuntimeError("after the step")
        return found


def test_a_step_that_calls_that_of_its_parent_is_one_step() -> None:
    """Torch calls the hooks for both; also after a step that failed, and in a step that diagnose is given."""
    model = mlp()
    torch.optim.SGD(model.parameters(), 0.05)  # from now on torch's own class calls hooks
    optimizer = Announced(model.parameters(), 0.05)
    with nbdebug.watch(model, optimizer, every=1, budget=1.0) as live:
        train(model, optimizer, 3)
        optimizer.fails = True
        with pytest.raises(RuntimeError, match="after the step"):
            train(model, optimizer, 1)
        optimizer.fails = False
        train(model, optimizer, 3)
    tally = live.recording().tally
    assert live.step == 6 and tally.steps_without_backward == 0

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss

    setup = nbdebug.Setup(model, [batch(n) for n in range(4)], nn.CrossEntropyLoss(), optimizer, train_step=step)
    loop = nbdebug.Session(setup).gather(Loop)
    assert isinstance(loop, Loop) and not loop.error
    assert {call.steps for call in loop.calls} == {1}
