"""A tape leaves nothing behind: no patch, no mode, no gradient, no moved generator, no tensor that it does not need."""

from __future__ import annotations

import copy
import gc
import random
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from nbdebug.experiments.tape import record
from nbdebug.sandbox import Sandbox
from tests.experiments.tape import programs
from tests.experiments.tape.programs import Net, X, Y, computed, in_a_step, sandbox_of, tape_of


def patched() -> list[Any]:
    """Return everything global that a tape changes while it records."""
    kinds = [torch.optim.Optimizer, *torch.optim.Optimizer.__subclasses__()]
    steps = [vars(kind).get("step") for kind in kinds]
    single = torch.autograd.function._SingleLevelFunction
    return [torch.autograd.backward, "apply" in vars(single), *steps, torch._C._len_torch_function_stack()]


def draws() -> tuple[str, str, bytes]:
    """Return the state of the global generators."""
    numpy = str(np.random.get_state())  # noqa: NPY002 - the old global generator is the one that programs draw from
    return str(random.getstate()), numpy, bytes(torch.get_rng_state().numpy())


def state(sandbox: Sandbox) -> dict[str, Any]:
    """Return what the copy holds, by value."""
    held = {name: value.clone() for name, value in sandbox.model.state_dict().items()}
    held |= {
        f"{name}.grad": p.grad if p.grad is None else p.grad.clone() for name, p in sandbox.model.named_parameters()
    }
    held |= {"modes": [module.training for module in sandbox.model.modules()]}
    held |= {"hooks": [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in sandbox.model.modules()]}
    held |= {
        "groups": copy.deepcopy([{k: v for k, v in g.items() if k != "params"} for g in sandbox.optimizer.param_groups])
    }
    return held | {"attributes": [sorted(vars(module)) for module in sandbox.model.modules()]}


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Compare two states."""
    assert one.keys() == other.keys()
    for name, value in one.items():
        same = torch.equal(value, other[name]) if isinstance(value, torch.Tensor) else value == other[name]
        assert same, name


class Busy(Net):
    """Draws from all generators, counts its calls, and normalizes by running statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.calls, self.seen = nn.BatchNorm1d(5), 0, []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Use and change whatever a module may."""
        self.calls += 1
        self.seen.append(self.calls)
        noise = random.random() + np.random.rand() + torch.rand(())  # noqa: NPY002
        return super().forward(self.norm(x) + 0 * noise)


def scheduled(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """Change modes, rates and weights beside the step."""
    model.eval()
    loss = in_a_step(model, batch, loss_fn, optimizer)
    optimizer.param_groups[0]["lr"] *= 0.5
    with torch.no_grad():
        next(model.parameters()).mul_(0.9)
    return loss


@contextmanager
def unchanged(step: Any) -> Iterator[Sandbox]:
    """Make a program that changes what it can, with gradients pending, and compare everything with before."""
    sandbox = sandbox_of(Busy(), nn.CrossEntropyLoss(), train_step=step)
    for parameter in sandbox.model.parameters():
        parameter.grad = torch.ones_like(parameter)
    sandbox.batch()  # drawn once and kept
    model: Any = sandbox.model
    before, patches, generators, kept = state(sandbox), patched(), draws(), (model.calls, list(model.seen))
    yield sandbox
    assert patched() == patches
    assert all(one == other for one, other in zip(draws(), generators, strict=True))
    assert_same(before, state(sandbox))
    assert (model.calls, model.seen) == kept


STEPS = pytest.mark.parametrize("step", [None, scheduled], ids=["loss", "step"])


@STEPS
def test_a_run_leaves_no_trace(step: Any) -> None:
    with unchanged(step) as sandbox:
        assert tape_of(sandbox, gradients=True).loss_name == "cross_entropy"


@STEPS
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, MemoryError])
def test_neither_does_one_that_ends_early(step: Any, error: type[BaseException]) -> None:
    def fail(*_: Any) -> None:
        raise error("stopped")

    with unchanged(step) as sandbox:
        model: Any = sandbox.model
        handle = model.head.register_forward_hook(fail)
        try:
            with pytest.raises(error, match="stopped"):
                record(sandbox, sandbox.batch())
        finally:
            handle.remove()


def test_the_batch_is_not_changed() -> None:
    sandbox = computed(lambda model, x, y: F.cross_entropy(model(x.mul_(2)), y))
    batch = sandbox.batch()
    record(sandbox, batch)
    assert torch.equal(batch.raw[0], X) and torch.equal(batch.raw[1], Y)


def test_another_thread_trains_on_meanwhile() -> None:
    before = programs.OTHER.weight.detach().clone()

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        thread = threading.Thread(target=programs.train_the_other)
        thread.start()
        thread.join()
        return in_a_step(model, batch, loss_fn, optimizer)

    tape = tape_of(sandbox_of(Net(), nn.CrossEntropyLoss(), train_step=step))
    assert not torch.equal(programs.OTHER.weight, before)
    assert len(tape.recording.roots) == 1


class Deep(nn.Module):
    """Forty layers, of which nothing is needed behind the last."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(5, 5) for _ in range(40))
        self.head = nn.Linear(5, 3)
        self.activations: list[Any] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Note each activation without keeping it."""
        for layer in self.layers:
            x = layer(x).tanh()
            self.activations.append(weakref.ref(x))
        return self.head(x)


def test_only_what_a_replay_needs_is_kept() -> None:
    """Of the tape: prediction, target, the operands of the last ops; of the run: no activation and no graph."""
    references: list[Any] = []
    model = Deep()
    model.activations = references
    sandbox = sandbox_of(model, nn.CrossEntropyLoss())
    references = sandbox.model.activations  # type: ignore[assignment]
    alive: list[Any] = []

    def note(module: Any, args: Any, output: Any) -> None:
        alive.extend(references)

    sandbox.model.register_forward_hook(note)
    tape = tape_of(sandbox)
    gc.collect()
    assert len(alive) == 40 and not any(reference() is not None for reference in alive)
    kept = [value.tensor for value in tape.recording.values if value.tensor is not None]
    assert len(kept) <= 4 and not any(tensor.requires_grad for tensor in kept)
    assert float(tape.replay(tape.prediction.value)) == pytest.approx(tape.loss)


def test_a_pass_without_gradients_is_not_kept_while_recording() -> None:
    """A teacher under no_grad costs the memory that it costs without a tape."""
    teacher = Deep().requires_grad_(False)

    def distilled(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            wanted = teacher(x)
        gc.collect()
        programs.NOTES.append(sum(reference() is not None for reference in teacher.activations))
        return F.mse_loss(model(x), wanted)

    sandbox = computed(distilled)
    sandbox.verify(sandbox.batch())
    programs.NOTES.clear()
    tape = tape_of(sandbox)
    assert programs.NOTES == [0] and tape.loss_name == "mse_loss"


def test_values_are_let_go_on_release() -> None:
    sandbox = computed(lambda model, x, y: F.cross_entropy(model(x).tanh() * 3, y))
    tape = tape_of(sandbox)
    tape.release()
    kept = sum(value.tensor is not None for value in tape.recording.values)
    operands = {n for op in tape.recording.ops[-3:] for n in op.inputs}
    assert kept <= len(operands) + 2
