"""Run the user's loss or training step once, recorded, and leave the copy and everything global as it was."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from nbdebug.errors import NotApplicable
from nbdebug.experiments.capture import tapped
from nbdebug.experiments.tape.ops import Recording
from nbdebug.experiments.tape.patches import note_gradients, record_patches
from nbdebug.experiments.tape.record import ReachedEnd, Recorder
from nbdebug.experiments.tape.restore import restore_copy
from nbdebug.experiments.tape.taint import Origins
from nbdebug.sandbox import Sandbox
from nbdebug.sandbox.guard import Guard, close_for_sure
from nbdebug.setup import Batch
from nbdebug.setup.loss import total_of
from nbdebug.setup.sample_dataset import seed_all

__all__ = ["TapeUnreadable", "run_recorded", "run_until"]


class TapeUnreadable(NotApplicable):
    """The run cannot be recorded, or what is asked for cannot be read off it; the message is the reason."""


def run_recorded(
    sandbox: Sandbox,
    batch: Batch,
    *,
    step: bool,
    seed: int = 0,
    backward: bool = False,
    hold_modes: bool = False,
    overrides: dict[int, torch.Tensor] | None = None,
    last: int | None = None,
    keep_data: bool = False,
) -> Recording:
    """Run the loss, or the training step with its optimizer held, on a copy of the batch, and return what it did.

    A step goes backward by itself; after a loss, `backward` does. With `hold_modes` the model stays in training or eval
    mode as it is, also where the program calls `model.train()`. With `last`, the run ends at the value of that number.
    With `keep_data`, values that no parameter takes part in keep their tensors, too.
    """
    sandbox.verify(batch)
    own = batch.clone()
    recorder, guard = Recorder(Origins(sandbox, own), overrides, last, keep_data), Guard(sandbox.control)
    try:
        guard.save_generators(sandbox.model, sandbox.loss_fn, sandbox.compute_loss, sandbox.train_step)
        restore_copy(guard, sandbox, step)
        _run_eagerly(guard)
        record_patches(guard, sandbox, recorder, step=step, hold_modes=hold_modes)
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
    except ReachedEnd:
        pass
    finally:
        close_for_sure(guard)
    return recorder.recording


def run_until(
    sandbox: Sandbox, batch: Batch, numbers: tuple[int, ...], *, step: bool, seed: int = 0
) -> list[tuple[str, torch.Tensor]]:
    """Run the program until these values are made, and return each with its graph and the op that made it."""
    recording = run_recorded(sandbox, batch, step=step, seed=seed, last=max(numbers))
    found = []
    for number in numbers:
        value = recording.values[number] if number < len(recording.values) else None
        if value is None or value.tensor is None:
            raise TapeUnreadable("another run of the program does not make this value")
        found.append((recording.ops[value.producer].name if value.producer >= 0 else "", value.tensor))
    return found


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
