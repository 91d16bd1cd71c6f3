"""Follow what a model answers about a fixed batch while it trains."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from nbdebug.core.rng_safe_import import drawing_nothing
from nbdebug.errors import BadInput, plainly
from nbdebug.evidence.recorded.values import CHANGED
from nbdebug.experiments.inert_hooks import LiveHook
from nbdebug.sandbox.copying import copy_together
from nbdebug.setup.loss import main_output
from nbdebug.watch.live import Live

__all__ = ["follow_predictions"]

HALF_A_SPREAD = 0.5


@plainly
def follow_predictions(live: Live, *inputs: Any, every: int = 20, **named: Any) -> Callable[[], None]:
    """Ask the model about the same batch every so many steps, and record how many of its answers change.

        with nbdebug.watch(model, optimizer) as live:
            nbdebug.follow_predictions(live, x_fixed)
            ...

    The inputs are those that the model is called with. The questions go to a copy in eval mode that is given the
    weights of the moment, so that your training goes on untouched. It ends with the recording, or when the function
    that is returned is called.

    Args:
        live: What `nbdebug.watch` returned.
        *inputs: The inputs that the model is called with.
        every: The number of steps from one prediction to the next.
        **named: Inputs that the model is called with by name.
    """
    if not isinstance(live, Live):
        raise BadInput(
            f"it is a {type(live).__name__}",
            where="follow_predictions: live",
            expected="the object that nbdebug.watch(model, optimizer) returns",
            do="with nbdebug.watch(model, optimizer) as live: nbdebug.follow_predictions(live, x)",
        )
    if not isinstance(every, int) or isinstance(every, bool) or every < 1:
        raise BadInput(
            f"every is {every!r}",
            where="follow_predictions",
            expected="an integer number of steps >= 1",
            do="omit it to measure every 20 steps",
        )
    return _Follower(live, inputs, named, every).start().stop


class _Follower:
    """A copy of the model, the fixed batch, and the answers of the last look."""

    def __init__(self, live: Live, inputs: tuple[Any, ...], named: dict[str, Any], every: int) -> None:
        self.live, self.inputs, self.named, self.every = live, inputs, named, every
        self.model = next(iter(live.roots))
        with drawing_nothing():
            self.copy: nn.Module = copy_together(self.model).parts[0].eval()
        self.last: torch.Tensor | None = None
        self.next_look = live.step
        self._handles: list[Any] = []
        self._unsubscribe: Callable[[], None] = lambda: None

    def start(self) -> _Follower:
        """Ask once, so that inputs which the model does not take are refused now, and then whenever it is time."""
        try:
            with torch.no_grad(), drawing_nothing():
                self._answers()
        except Exception as error:
            raise BadInput(
                f"the model fails with these inputs: {type(error).__name__}: {error}",
                where="follow_predictions: inputs",
                expected="the inputs that the model gets in training",
                do="pass the inputs of one batch as the model receives them, without the labels",
            ) from error
        self._handles = [self.model.register_forward_pre_hook(LiveHook(self._perhaps_look))]
        self._unsubscribe = self.live.subscribe(lambda run: None if run.is_running else self.stop())
        return self

    def stop(self) -> None:
        """Look no more, and take the hook off."""
        while self._handles:
            self._handles.pop().remove()
        self._unsubscribe()

    def _perhaps_look(self, *_: Any) -> None:
        if self.live.step < self.next_look or not self.live.is_running or not torch.is_grad_enabled():
            return
        self.next_look = self.live.step + self.every
        try:
            with torch.no_grad(), drawing_nothing():
                answers = self._answers()
        except Exception as error:
            self.stop()
            warnings.warn(f"nbdebug.follow_predictions stopped, because the model failed: {error!r}", stacklevel=2)
            return
        if answers is not None and self.last is not None and answers.shape == self.last.shape:
            self.live.log(**{CHANGED: _changed(self.last, answers)})
        self.last = answers

    def _answers(self) -> torch.Tensor | None:
        held = {**dict(self.model.named_parameters()), **{n: b.clone() for n, b in self.model.named_buffers()}}
        output = main_output(torch.func.functional_call(self.copy, held, self.inputs, self.named))
        return output.detach().clone() if isinstance(output, torch.Tensor) else None


def _changed(before: torch.Tensor, after: torch.Tensor) -> float:
    """Return the share of answers that changed: other classes, or values that moved by half of their spread."""
    if after.dim() > 1 and after.shape[1] > 1 and after.is_floating_point():
        return float((before.argmax(1) != after.argmax(1)).float().mean())
    if not after.is_floating_point():
        return float((before != after).float().mean())
    spread = float(before.std()) if before.numel() > 1 else 0.0
    return float(((after - before).abs() > HALF_A_SPREAD * max(spread, 1e-12)).float().mean())
