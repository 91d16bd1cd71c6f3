"""The fast path through an ordinary step at which nothing is due.

Between two layers of a training everything of Python is out of the cache, so that a hook costs by the code and the
objects that it touches, not by what it computes. Most steps are alike: one pass of one model, one loss, one backward
pass, one step. For those a few times and the loss are noted here, and that is all. Whatever is not as it was the last
time is left to `Passes` and `Steps`, together with what was noted so far.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import nn

from nbdebug.core.torch_compat import RUN_BACKWARD, backward_id, current_transform, gradient_hooks, hook_gradient
from nbdebug.watch.recorder.hooks import QuietHook, is_traced, scaler_of_step
from nbdebug.watch.recorder.rates import read_rate

if TYPE_CHECKING:
    from nbdebug.watch.recorder.recorder import Recorder

__all__ = ["FastPath", "Noted"]

# How far a step is that goes the fast path; CLOSED is one that goes the slow path.
CLOSED, READY, FORWARD, AWAITED, BACKWARD, STEP = range(6)
FEW, NEAR = 8, 5  # groups of parameters, and frames within which a GradScaler is looked for
Noted: TypeAlias = tuple[float, float, float, float, float, list[float]]  # loss, times of a step, learning rates
_TENSOR, _is_grad_enabled, _is_transformed = torch.Tensor, torch.is_grad_enabled, current_transform


class FastPath:
    """What was noted of the step that is being made, and of those before it. It opens after a step that fitted."""

    __slots__ = (
        "backward",
        "began",
        "ended",
        "fits",
        "hooks",
        "key",
        "left",
        "loss",
        "noted",
        "older",
        "on_begin",
        "optimizer",
        "passes",
        "recorder",
        "stage",
        "step",
        "task",
        "until",
    )

    def __init__(self, recorder: Recorder) -> None:
        self.recorder, self.passes, self.stage, self.fits = recorder, recorder.passes, CLOSED, False
        self.optimizer: Any = None  # that sets the pace
        self.noted: list[Noted] = []
        self.began = self.ended = self.backward = self.step = self.loss = self.until = 0.0
        self.left, self.task = 0, -1
        self.hooks: dict[int, Any] = {}  # of the last output
        self.older: dict[int, Any] = {}  # and of the one before, whose graph may be gone through again
        passes, steps = recorder.passes, recorder.steps
        self.key = passes.key
        self.on_begin = passes.on_begin = _Begin(self, passes.on_begin)
        passes.on_before, passes.on_after = _Before(self, passes.on_before), _After(self, passes.on_after)
        steps.on_before, steps.on_after = _StepBefore(self, steps.on_before), _StepAfter(self, steps.on_after)

    @property
    def is_taken(self) -> bool:
        """Whether a step is on its way."""
        return self.stage > READY

    @property
    def has_backward(self) -> bool:
        """Whether the step that is on its way had its backward pass."""
        return self.stage >= BACKWARD

    def judge(self) -> None:
        """See whether the step that ends now would have fitted."""
        steps, pace = self.recorder.steps, self.recorder.steps.pace
        self.fits = pace is not None and self.passes.is_plain and steps.is_plain
        if pace is not None:
            self.optimizer, groups = pace.optimizer, pace.optimizer.param_groups
            self.fits = self.fits and len(groups) <= FEW and all(type(group.get("lr")) is float for group in groups)

    def open(self, steps: int, until: float) -> None:
        """Take so many steps up to that time, if the last one fitted."""
        self.left, self.until = steps, until
        self.stage = READY if steps and self.fits else CLOSED

    def close(self) -> None:
        """Take no more steps."""
        self.stage, self.fits = CLOSED, False
        self.noted.clear()
        self.passes.done += [self.older, self.hooks]

    def leave(self) -> None:
        """Let the step go the slow path from here on; whatever goes wrong in that does not reach the training."""
        try:
            self._hand_over()
        except Exception as error:
            self.recorder.give_up(error)

    def _hand_over(self) -> None:
        self.recorder.collect()
        stage, self.stage, self.fits = self.stage, CLOSED, False
        self.passes.done.append(self.older)
        if stage <= READY:
            self.passes.done.append(self.hooks)
            return
        self.passes.take_over(self.began, None if stage == FORWARD else self.ended, self.hooks)
        if stage >= BACKWARD:
            self.passes.take_over_backward(self.loss, self.backward, self.task)
        if stage >= STEP:
            self.recorder.steps.take_over(self.step)


class _Turn(QuietHook):
    """A hook of the path; `act` is the one of the slow path."""

    __slots__ = ("path",)

    def __init__(self, path: FastPath, act: Callable[..., Any]) -> None:
        super().__init__(act)
        self.path = path


class _Before(_Turn):
    """Notes when a pass begins."""

    __slots__ = ()

    def __call__(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        path = self.path
        if is_traced():
            return
        if path.stage:
            if path.stage == READY and module.training and _is_grad_enabled() and _is_transformed() is None:
                path.stage, path.began = FORWARD, perf_counter()
                return
            if path.stage > READY or _is_grad_enabled():
                path.leave()
        self.act(module, args, kwargs)


class _After(_Turn):
    """Notes when a pass ends, and hooks the tensor that it gave."""

    __slots__ = ()

    def __call__(self, module: nn.Module, args: Any, output: Any) -> None:
        path = self.path
        if path.stage == FORWARD and type(output) is _TENSOR:
            now, node = perf_counter(), output.grad_fn
            if node is not None and gradient_hooks(output) is None:
                path.older.pop(path.key, None)
                path.older = path.hooks
                path.hooks = hook_gradient(output, node)
                path.hooks[path.key] = path.on_begin
                path.stage, path.ended = AWAITED, now
                return
        if path.stage > READY:
            path.leave()
        self.act(module, args, output)


class _Begin(_Turn):
    """Notes the loss, and when the backward pass begins."""

    __slots__ = ()

    def __call__(self, gradient: Any) -> None:
        path = self.path
        if path.stage == AWAITED:
            try:
                frame = sys._getframe(1)
            except ValueError:  # on a thread of the engine nothing is further out
                frame = None
            if frame is not None and frame.f_code is RUN_BACKWARD:
                held = frame.f_locals
                outputs, named = held.get("t_outputs", ()), held.get("kwargs", {})
                is_one = len(outputs) == 1 and type(loss := outputs[0]) is _TENSOR and loss.numel() == 1
                if is_one and loss.is_cpu and named.get("accumulate_grad"):
                    path.loss, path.task = loss.item(), backward_id()
                    path.stage, path.backward = BACKWARD, perf_counter()
                    return
        if path.stage:
            path.leave()
        self.act(gradient)


class _StepBefore(_Turn):
    """Notes when a step begins."""

    __slots__ = ()

    def __call__(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        path = self.path
        is_plain = path.stage == BACKWARD and optimizer is path.optimizer and len(args) == 1 and not kwargs
        if is_plain and scaler_of_step(NEAR) is None:
            path.stage, path.step = STEP, perf_counter()
            return
        if path.stage:
            path.leave()
        self.act(optimizer, args, kwargs)


class _StepAfter(_Turn):
    """Closes the step."""

    __slots__ = ()

    def __call__(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        path = self.path
        if path.stage == STEP and optimizer is path.optimizer:
            now, passes, rates = perf_counter(), path.passes, []
            for group in optimizer.param_groups:  # a comprehension is one more frame
                rate = group.get("lr", math.nan)
                rates.append(rate if type(rate) is float else read_rate(rate))
            began, ended, step = path.began, path.ended, path.step
            path.noted.append((path.loss, began - passes.mark, ended - began, step - path.backward, now - step, rates))
            passes.mark, path.stage = now, READY
            path.left -= 1
            if not path.left or now > path.until:
                path.recorder.passed()
            return
        if path.stage > READY:
            path.leave()
        self.act(optimizer, args, kwargs)
