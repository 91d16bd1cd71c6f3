"""Which step a value belongs to: one call of the whole model, told apart for every thread."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from nbdebug.core.torch_compat import backward_id, is_without_values
from nbdebug.watch.recorder.hooks import is_traced

__all__ = ["Letters", "Moment", "Steps", "is_no_real_pass", "is_recomputing"]

Letters = dict[str, tuple[int, str]]  # a letter of a shape: its size in this step, and where it was seen first


def is_no_real_pass() -> bool:
    """Whether the model is traced, exported, transformed or run with fake tensors: there are no values to look at."""
    return is_traced() or is_without_values()  # the tracer takes the first for True, and does not read the second


def is_recomputing() -> bool:
    """Whether a backward pass is running, so that a forward in it is a checkpoint that computes again what was seen."""
    return backward_id() != -1


@dataclass(frozen=True)
class Moment:
    """When a module was called: the step, its how-manieth call in it, and what the letters of shapes stand for there.

    A gradient keeps the moment of the forward that it belongs to, so that two passes with one backward stay apart.
    """

    step: int
    call: int
    letters: Letters = field(default_factory=dict, repr=False, compare=False)


class _Turns:
    """The letters of modules that are called alone.

    While their calls go round in one order (encoder, decoder, encoder, decoder), one round shares its letters. Where
    the order changes, as when one of two networks is called twice, it is unknown which calls belong together: from
    then on a letter holds within one value only.
    """

    def __init__(self) -> None:
        self._order: list[str] = []
        self._at, self._is_first, self._is_regular = 0, True, True
        self._letters: Letters = {}

    def letters(self, name: str) -> Letters:
        """Return the letters for this call."""
        if self._is_first and name not in self._order:
            self._order.append(name)
            return self._letters
        self._is_first = False
        self._is_regular = self._is_regular and self._order[self._at] == name
        if self._at == 0 or not self._is_regular:
            self._letters = {}
        self._at = (self._at + 1) % len(self._order)
        return self._letters


class _OfThread(threading.local):
    """What one thread is doing."""

    def __init__(self) -> None:
        self.step, self.is_running = -1, False
        self.calls: dict[str, int] = {}
        self.calls_are_of = -1  # the step that they are counted in
        self.letters: Letters = {}
        self.turns = _Turns()


class Steps:
    """Counts the calls of the whole model, and those of its modules within."""

    def __init__(self) -> None:
        self.newest = -1
        self._lock = threading.Lock()
        self._here = _OfThread()

    def begin(self, *_: Any) -> None:
        """The whole model is called."""
        if is_no_real_pass() or is_recomputing():
            return
        with self._lock:
            self.newest += 1
            self._here.step = self.newest
        self._here.is_running, self._here.letters, self._here.turns = True, {}, _Turns()

    def end(self, *_: Any) -> None:
        """The call of the whole model is over: what its modules are given now is no part of the step."""
        if not is_no_real_pass() and not is_recomputing():
            self._here.is_running = False

    def count(self, name: str) -> Moment:
        """Return the moment of the call of a module that begins or ends now, and count it."""
        here, moment = self._here, self.ahead(name)
        here.calls[name] = here.calls.get(name, 0) + 1
        letters = here.letters if here.is_running and not is_recomputing() else here.turns.letters(name)
        return Moment(moment.step, moment.call, letters)

    def ahead(self, name: str) -> Moment:
        """Return the moment of the next call to be counted; without calls of the whole model each call is a step."""
        here = self._here
        step = here.step if here.step >= 0 else self.newest  # threads that only help have no step of their own
        if step != here.calls_are_of:
            here.calls_are_of = step
            here.calls.clear()
        seen = here.calls.get(name, 0)
        return Moment(step, seen) if step >= 0 else Moment(seen, 0)

    def last(self, name: str) -> Moment:
        """Return the moment of the call that was counted last."""
        moment = self.ahead(name)
        if self.newest >= 0:
            return Moment(moment.step, max(moment.call - 1, 0))
        return Moment(max(moment.step - 1, 0), 0)
