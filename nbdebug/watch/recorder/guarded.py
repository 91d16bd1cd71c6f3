"""What hooks of a recorder do is timed, and what goes wrong in it does not reach the training."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from nbdebug.watch.recorder.hooks import QuietHook, is_compiling

if TYPE_CHECKING:
    from nbdebug.watch.recorder.recorder import Recorder

__all__ = ["Guarded"]


class Guarded(QuietHook):
    """A hook that an error inside ends together with the watching."""

    __slots__ = ("recorder",)

    def __init__(self, recorder: Recorder, act: Callable[..., None]) -> None:
        super().__init__(act)
        self.recorder = recorder

    def __call__(self, *args: Any) -> None:
        """Do it, if anybody records."""
        recorder = self.recorder
        if not recorder.is_running or is_compiling():
            if recorder.has_loose_ends:
                recorder.detach()
            return
        weight = recorder.weight
        if weight:
            recorder.hook_began = began = perf_counter()
        try:
            self.act(*args)
        except Exception as error:
            recorder.give_up(error)
        if weight:
            recorder.spent += weight * (perf_counter() - began)
