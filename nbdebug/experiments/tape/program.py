"""Run the user's loss or training step once, recorded, and leave the copy and everything global as it was."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from nbdebug.errors import NotApplicable
from nbdebug.experiments.capture import tapped
from nbdebug.experiments.kept_state import KeptState
from nbdebug.experiments.tape.ops import Recording
from nbdebug.experiments.tape.patches import note_gradients, record_patches
from nbdebug.experiments.tape.record import Recorder
from nbdebug.experiments.tape.taint import Origins
from nbdebug.sandbox import Sandbox
from nbdebug.sandbox.guard import Guard, close_for_sure
from nbdebug.setup import Batch
from nbdebug.setup.loss import total_of
from nbdebug.setup.sample_dataset import seed_all

__all__ = ["TapeUnreadable", "run_recorded"]


class TapeUnreadable(NotApplicable):
    """The run cannot be recorded, or what is asked for cannot be read off it; the message is the reason."""


def run_recorded(
    sandbox: Sandbox,
    batch: Batch,
    *,
    step: bool,
    seed: int = 0,
    backward: bool = False,
    overrides: dict[int, torch.Tensor] | None = None,
) -> Recording:
    """Run the loss, or the training step with its optimizer held, on a copy of the batch, and return what it did.

    A step goes backward by itself; after a loss, `backward` does.
    """
    own = batch.clone()
    recorder, guard = Recorder(Origins(sandbox, own), overrides), Guard(sandbox.control)
    try:
        guard.save_generators(sandbox.model, sandbox.loss_fn, sandbox.compute_loss, sandbox.train_step)
        _restore_copy(guard, sandbox, step)
        _run_eagerly(guard)
        record_patches(guard, sandbox, recorder)
        with _modes(recorder, sandbox):
            seed_all(seed)
            loss = None if step else total_of(sandbox.run(own).loss)
            if step:
                sandbox.user_step(own)
            elif isinstance(loss, torch.Tensor):
                recorder.add_root(loss)
        if backward and isinstance(loss, torch.Tensor):
            _go_backward(loss)
        note_gradients(recorder.recording, sandbox.model, only_if_none=True)
    finally:
        close_for_sure(guard)
    return recorder.recording


def _go_backward(loss: torch.Tensor) -> None:
    """Go backward by `backward()`: a re-entrant checkpoint allows no `autograd.grad`."""
    if not loss.requires_grad or loss.numel() != 1:
        return
    try:
        loss.backward()
    except RuntimeError as error:
        raise TapeUnreadable(f"the backward pass fails: {error}") from None


@contextmanager
def _modes(recorder: Recorder, sandbox: Sandbox) -> Iterator[None]:
    def enter(path: str, module: nn.Module, inputs: Any) -> None:
        recorder.open_modules.append(path)

    def leave(path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        while recorder.open_modules and recorder.open_modules.pop() != path:
            continue

    with ExitStack() as stack:
        stack.enter_context(torch.enable_grad())
        stack.enter_context(tapped(sandbox.model, after=leave, before=enter))
        stack.enter_context(recorder)
        yield


def _run_eagerly(guard: Guard) -> None:
    """Let compiled functions run uncompiled, or they would hide their ops.

    Nothing is compiled where the compiler was not imported; and other threads, which may train meanwhile, see the
    switch as well, so that a worker thread leaves it alone.
    """
    compiler: Any = sys.modules.get("torch._dynamo.eval_frame")
    set_stance = getattr(torch.compiler, "set_stance", None)  # since torch 2.6
    if compiler is None or set_stance is None or threading.current_thread() is not threading.main_thread():
        return
    guard.on_close(partial(setattr, compiler, "_stance", compiler._stance))
    set_stance("force_eager")


def _restore_copy(guard: Guard, sandbox: Sandbox, step: bool) -> None:
    """Write down how to restore the copy: gradients, buffers, attributes, modes, and after a step the weights."""
    modules = [part for part in (sandbox.model, sandbox.loss_fn) if isinstance(part, nn.Module)]
    for module in modules:
        guard.on_close(KeptState(module).restore)
        parameters = list(module.parameters())
        kept = [*module.buffers(), *(parameters if step else [])]
        guard.on_close(_restores_values([t for t in kept if not _is_lazy(t)]))
        guard.on_close(_restores_gradients(parameters))
        guard.on_close(_restores_modes(module))
        for parameter in parameters:
            parameter.grad = None
    if step:
        guard.on_close(_restores_groups(sandbox.optimizer))
        if sandbox.scheduler is not None:
            guard.on_close(_restores_attributes(sandbox.scheduler))


def _is_lazy(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, (nn.UninitializedParameter, nn.UninitializedBuffer))


def _restores_values(tensors: list[torch.Tensor]) -> Callable[[], None]:
    before = [t.detach().clone() for t in tensors]

    def undo() -> None:
        with torch.no_grad():
            for tensor, value in zip(tensors, before, strict=True):
                if tensor.shape == value.shape and not torch.equal(tensor, value):
                    tensor.data.copy_(value)

    return undo


def _restores_gradients(parameters: list[nn.Parameter]) -> Callable[[], None]:
    before = [(p, p.grad) for p in parameters]

    def undo() -> None:
        for parameter, gradient in before:
            parameter.grad = gradient

    return undo


def _restores_modes(module: nn.Module) -> Callable[[], None]:
    before = [(part, part.training) for part in module.modules()]

    def undo() -> None:
        for part, training in before:
            if part.training != training:
                part.training = training

    return undo


def _restores_groups(optimizer: Any) -> Callable[[], None]:
    groups = list(getattr(optimizer, "param_groups", None) or [])
    before = [dict(group) for group in groups]

    def undo() -> None:
        for group, values in zip(groups, before, strict=True):
            group.update(values)

    return undo


def _restores_attributes(scheduler: Any) -> Callable[[], None]:
    before = dict(vars(scheduler))
    return lambda: vars(scheduler).update(before)
