"""Patches that make backward passes, custom functions and optimizer steps known to a recorder, each with its undo."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.autograd import function as autograd_function

from nbdebug.experiments.tape.ops import Recording
from nbdebug.experiments.tape.record import Recorder
from nbdebug.experiments.tape.restore import optimizers_of
from nbdebug.sandbox import Sandbox
from nbdebug.sandbox.guard import Guard

__all__ = ["note_gradients", "record_patches"]


def record_patches(guard: Guard, sandbox: Sandbox, recorder: Recorder, *, step: bool, hold_modes: bool) -> None:
    """Make backward passes, custom functions and optimizer steps known to the recorder, for this thread only."""
    backward = torch.autograd.backward
    single = autograd_function._SingleLevelFunction

    def recorded_backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if recorder.is_paused:
            return backward(tensors, *args, **kwargs)
        for tensor in [tensors] if isinstance(tensors, torch.Tensor) else list(tensors):
            recorder.add_root(tensor)
        return recorder.unrecorded(lambda: backward(tensors, *args, **kwargs))

    def recorded_apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        def plain(*args: Any, **kwargs: Any) -> Any:
            return super(single, cls).apply(*args, **kwargs)

        if recorder.is_paused:
            return plain(*args, **kwargs)
        run = lambda *args, **kwargs: recorder.unrecorded(lambda: plain(*args, **kwargs))  # noqa: E731
        return recorder.call(cls.__name__, run, args, kwargs, is_custom=True)

    _set(guard, torch.autograd, "backward", recorded_backward)
    _set(guard, single, "apply", classmethod(recorded_apply))
    if step:
        _hold_optimizers(guard, sandbox, recorder)
    if hold_modes:
        _hold_modes(guard, sandbox)


def _hold_optimizers(guard: Guard, sandbox: Sandbox, recorder: Recorder) -> None:
    """Let no optimizer step while the step runs; closures are called, because they hold the loss."""

    def hold(step: Any) -> Any:
        def held(*args: Any, **kwargs: Any) -> Any:
            if not recorder.is_this_thread:
                return step(*args, **kwargs)
            note_gradients(recorder.recording, sandbox.model)
            found = [value for value in (*args, *kwargs.values()) if callable(value) and not _is_optimizer(value)]
            return found[0]() if found else None

        held.hooked = True  # type: ignore[attr-defined]  # or torch would wrap it when an optimizer is made
        return held

    for kind in _subclasses(torch.optim.Optimizer):
        if "step" in vars(kind):
            _set(guard, kind, "step", hold(vars(kind)["step"]))
    for optimizer in optimizers_of(sandbox):
        if "step" in vars(optimizer) or not isinstance(optimizer, torch.optim.Optimizer):
            _set(guard, optimizer, "step", hold(optimizer.step))


def _hold_modes(guard: Guard, sandbox: Sandbox) -> None:
    """Let `train()` and `eval()` change nothing in the model."""
    train, held = nn.Module.train, {id(module) for module in sandbox.model.modules()}

    def stays(module: nn.Module, mode: bool = True) -> nn.Module:
        return module if id(module) in held else train(module, mode)

    _set(guard, nn.Module, "train", stays)


def note_gradients(recording: Recording, model: nn.Module, only_if_none: bool = False) -> None:
    """Keep the gradients of the parameters as they are now."""
    if not (only_if_none and recording.gradients):
        found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        recording.gradients.update({name: gradient.detach().clone() for name, gradient in found.items()})


def _is_optimizer(part: Any) -> bool:
    return isinstance(part, torch.optim.Optimizer)


def _subclasses(kind: Any) -> list[Any]:
    return [part for sub in kind.__subclasses__() for part in (sub, *_subclasses(sub))]


def _set(guard: Guard, owner: Any, name: str, value: Any) -> None:
    """Set an attribute after writing down how it is restored."""
    missing = object()
    before = vars(owner).get(name, missing)

    def undo() -> None:
        if before is not missing:
            setattr(owner, name, before)
        elif name in vars(owner):
            delattr(owner, name)

    guard.on_close(undo)
    setattr(owner, name, value)
