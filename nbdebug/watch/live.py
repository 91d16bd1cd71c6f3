"""What the user holds while a training is recorded."""

from __future__ import annotations

import time
import warnings
import weakref
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch

from nbdebug.core.announcements import begun
from nbdebug.errors import BadInput, plainly
from nbdebug.evidence.recording import Recording
from nbdebug.report.cell_output import in_notebook
from nbdebug.watch.logged import number, unnamed
from nbdebug.watch.ranks import RankWatch
from nbdebug.watch.recorder.recorder import Recorder
from nbdebug.watch.recorder.store import MOST_NAMES
from nbdebug.watch.recorder.targets import target_of
from nbdebug.watch.run import Run
from nbdebug.watch.snapshot import snapshot

__all__ = ["Live", "watch"]

AUTO_BUDGET, EXPLICIT_BUDGET = 0.005, 0.5
REFRESH = 0.5  # seconds between two calls of a subscriber
_RUNNING: weakref.WeakKeyDictionary[torch.nn.Module, weakref.ref[Live]] = weakref.WeakKeyDictionary()


class Live(Run):
    """A run that is being recorded: a context manager, or `start()` and `stop()` across cells."""

    def __init__(self, recorder: Recorder, *, show: bool = False) -> None:
        self._recorder, self._shows = recorder, show
        self._judged = self.view = None
        self.first_seen = {}
        self._listeners: list[Callable[[Live], Any]] = []
        self._told, self._is_telling = 0.0, False
        recorder.on_flush, recorder.is_heard = self._tell, lambda: bool(self._listeners)
        self._key = next(iter(recorder.target.roots.values()))
        self._ranks = RankWatch(recorder)

    def start(self) -> Live:
        """Begin to record, until `stop()`; a run of the same model that a cell started before is stopped."""
        older = _RUNNING.get(self._key)
        before = older() if older is not None else None
        if before is not None and before is not self:
            before.stop()
        _RUNNING[self._key] = weakref.ref(self)
        self._begin()
        return self

    def stop(self) -> Live:
        """Stop recording and take every hook off; what was recorded stays, and `start()` goes on with it."""
        self._recorder.stop()
        self._ranks.end()
        running = _RUNNING.get(self._key)
        if running is not None and running() is self:
            del _RUNNING[self._key]
        self._tell(always=True)
        return self

    def __enter__(self) -> Live:
        """Begin to record; watches may be nested."""
        self._begin()
        return self

    def _begin(self) -> None:
        was_running = self.is_running
        if self._shows and not was_running:
            self._show()  # before the first step is timed
        self._ranks.begin()
        self._recorder.start()
        if not was_running:
            try:
                begun(self)
                if self.view is not None:
                    self._tell_one(self.view.follow)  # it runs now
            except KeyboardInterrupt:  # no `with` block has begun that would take the hooks off
                self.stop()
                raise

    def _show(self) -> None:
        """Display the curves under the running cell of a notebook; the training goes on where that fails."""
        if not in_notebook():
            return
        from nbdebug.views.live import show_live

        try:
            show_live(self)
        except Exception as error:
            warnings.warn(f"nbdebug.watch could not show the curves: {error!r}", stacklevel=4)

    def __exit__(self, *error: Any) -> None:
        """Take every hook off, whatever ended the block."""
        try:
            self.stop()
        except KeyboardInterrupt:  # landed in the middle of it
            self.stop()
            raise

    @property
    def is_running(self) -> bool:
        """Whether it records now."""
        return self._recorder.is_running

    @property
    def roots(self) -> list[torch.nn.Module]:
        """The models that are watched."""
        return list(self._recorder.target.roots.values())

    @property
    def step(self) -> int:
        """How many optimizer steps were seen."""
        return self._recorder.step

    def look_inside(self) -> Live:
        """See passes by the layers from the first step on, where the model is never called as a whole.

        Otherwise that is noticed after two steps, whose losses are lost.
        """
        self._recorder.look_inside()
        return self

    @plainly
    def log(self, /, *nameless: Any, **values: Any) -> None:
        """Record numbers of your own: a float, or a tensor with one element, which is not waited for.

        After a forward pass they belong to the step that is being made, otherwise to the one that was made last, also
        when the recording is over. Of a name that is logged twice in a step the last number is kept.
        """
        if nameless:
            raise unnamed(nameless)
        kept = {name: number(name, value) for name, value in values.items()}
        recorder = self._recorder
        is_in_step = recorder.is_running and recorder.is_in_step
        step = recorder.step if is_in_step else max(recorder.step - 1, 0)
        left_out = [] if recorder.explicit.issuperset(kept) else self._take_in(kept)
        is_first = bool(left_out) and not recorder.store.lost
        for name in left_out:
            del kept[name]
            recorder.store.leave_out(name)
        recorder.store.log(step, kept)
        if is_first:
            warnings.warn(f"nbdebug.watch: {recorder.store.lost}", stacklevel=3)

    def _take_in(self, names: Iterable[str]) -> list[str]:
        """Make room for names that were not logged before, and give those that there is none for."""
        recorder = self._recorder
        new = [name for name in names if name not in recorder.explicit]
        taken = new[: max(MOST_NAMES - len(recorder.explicit), 0)]
        recorder.explicit.update(taken)
        return new[len(taken) :]

    @plainly
    def subscribe(self, listener: Callable[[Live], Any]) -> Callable[[], None]:
        """Call the listener a few times a second at most, between steps; the returned function ends that."""
        if not callable(listener):
            raise BadInput(
                f"the listener is {type(listener).__name__}",
                where="live.subscribe",
                expected="a function that is called with the run",
                do="live.subscribe(lambda live: print(live.step))",
            )
        listeners = self._listeners  # and not the run itself, which would keep the model alive for the listener's life
        listeners.append(listener)

        def unsubscribe() -> None:
            if listener in listeners:
                listeners.remove(listener)

        return unsubscribe

    def recording(self, *, layers: bool = True) -> Recording:
        """Return everything that was recorded so far, as plain numbers that no longer change.

        `layers=False` leaves out layers and parameters, which is quicker while a training runs.
        """
        ranks, missing = self._ranks.gathered()
        recording = snapshot(self._recorder, layers=layers)
        if ranks or missing:
            recording = replace(recording, ranks=ranks, unseen=(*recording.unseen, *missing))
        return self._ranks.whole(recording)

    def _tell(self, *, always: bool = False) -> None:
        now = time.perf_counter()
        if not always and now - self._told < max(REFRESH, 0.01 * self._recorder.elapsed):
            return
        if self._is_telling:  # a listener has stopped the run
            return
        self._told, self._is_telling = now, True
        try:
            self._ranks.tell()
            for listener in list(self._listeners):
                self._tell_one(listener)
        finally:
            self._is_telling = False

    def _tell_one(self, listener: Callable[[Live], Any]) -> None:
        try:
            listener(self)
        except Exception as error:
            if listener in self._listeners:
                self._listeners.remove(listener)
            warnings.warn(f"a listener of nbdebug.watch failed and was removed: {error!r}", stacklevel=2)


@plainly
def watch(
    model: Any,
    optimizer: Any = None,
    *,
    every: int | None = None,
    budget: float | None = None,
    layers: Any = None,
    show: bool = True,
) -> Live:
    """Record a training as it runs: loss, learning rates, times, and for every layer activations, gradients, updates.

        with nbdebug.watch(model, optimizer) as live:
            ...                                         # your loop, as it is

    Steps are seen by themselves, and so is the loss where `loss.backward()` is called on it. Without an optimizer,
    every one that steps and holds parameters of the model is followed. Scalars are recorded at every step, layers as
    often as `budget`, a share of the time, allows (0.005 unless you say otherwise); `every=1` measures them at every
    step. `layers` are names or patterns of modules. Several models and optimizers go in as lists or dicts.

    In a notebook the curves are displayed under the cell and follow the training; `show=False` turns that off.

    Args:
        model: Your model, or several as a list or a dict.
        optimizer: Your optimizer, or several; by default every one that holds parameters of the model.
        every: Measure the layers at every so many steps; by default as often as the budget allows.
        budget: The share of the time that measuring may take; 0.005 by default.
        layers: Names or patterns of the modules to follow; all by default.
        show: Whether the curves are displayed under the cell.
    """
    if every is not None and (not isinstance(every, int) or isinstance(every, bool) or every < 1):
        raise BadInput(
            f"every is {every!r}",
            where="nbdebug.watch(every)",
            expected="an integer number of steps >= 1, or None to let the budget decide",
            do="every=1 measures the layers at every step",
        )
    if budget is not None and (not isinstance(budget, (int, float)) or not 0 <= budget <= 1):
        raise BadInput(
            f"budget is {budget!r}",
            where="nbdebug.watch(budget)",
            expected="a fraction of the time between 0 and 1",
            do="budget=0.05 lets the recorder take 5 % of the time",
        )
    share = budget if budget is not None else AUTO_BUDGET if every is None else EXPLICIT_BUDGET
    return Live(Recorder(target_of(model, optimizer, layers), every=every, budget=share), show=show)
