"""Run probes and other experiments on copies, under guard; what stops one is kept in place of its evidence."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from nbdebug.core.control import OUT_OF_TIME, Control
from nbdebug.core.finding import LeftOut, Status
from nbdebug.core.journal import Event, Journal
from nbdebug.core.registry import ProbeSpec
from nbdebug.errors import (
    BadInput,
    Cancelled,
    CopyNotIsolated,
    ModelTooLarge,
    NbdebugError,
    NotApplicable,
    OutOfTime,
    SandboxRefused,
    described,
)
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.observe_call import observed_reading
from nbdebug.sandbox import Sandbox, guarded, make_sandbox
from nbdebug.sandbox.isolation import refuse_leaking
from nbdebug.sandbox.late_copy import is_made, late_sandbox
from nbdebug.sandbox.state_snapshot import StateSnapshot
from nbdebug.setup import Reading, Setup
from nbdebug.setup.user_code import raised_by_user

__all__ = ["Missing", "ProbeRunner", "collecting_only_new", "not_tried"]

T = TypeVar("T")


@dataclass(frozen=True)
class Missing:
    """Why some evidence could not be had: kept, so that every check that needs it says the same."""

    status: Status
    reason: str
    left_out: LeftOut = ""
    allowance: int = 0  # of which budget it did not fit into the rest; the next one begins anew


class ProbeRunner:
    """Runs experiments on copies of one setup, one at a time, and tells the journal how they go."""

    def __init__(self, setup: Setup, control: Control, seed: int) -> None:
        self.setup, self.control, self.seed = setup, control, seed
        self.journal = Journal()
        self.control.on_progress = self._tell_progress
        self.timings: dict[str, float] = {}
        self._running = ""
        self._snapshot: StateSnapshot | None = None  # of this run; it serves on as long as nothing is touched

    def run_probe(self, spec: ProbeSpec, needs: dict[str, Any]) -> Any:
        """Run one probe under guard with the evidence that it needs; return what it found, or why it found nothing."""
        self._observe()
        try:
            found = self.experiment(spec.name, spec.title, lambda: self._run_probe(spec, needs))
            if isinstance(found, TrialRun) and found.layout is not None:
                self.setup.layout = found.layout
            return found
        except NotApplicable as why:
            return Missing("skipped", str(why))
        except (CopyNotIsolated, ModelTooLarge) as refused:
            self.journal.note(f"{refused} What needs no copy was judged all the same.")
            is_large = isinstance(refused, ModelTooLarge)
            return Missing("skipped", str(refused).splitlines()[0], "memory" if is_large else "")
        except (Cancelled, BadInput, SandboxRefused):
            raise
        except OutOfTime as why:
            if self.control.is_over:
                raise
            said = "" if str(why) == OUT_OF_TIME else f": {why}"
            return Missing("skipped", not_tried(self.control) + said, "time", self.control.allowances)
        except Exception as error:
            if any(isinstance(known, TrialRun) and known.has_met(error) for known in needs.values()):
                return Missing("skipped", "a later batch fails in the same way; see forward-fails")
            if raised_by_user(error):
                return Missing("skipped", f"your program does not run in this experiment: {described(error)}")
            return Missing("crashed", f"the probe {spec.name} failed: {described(error)}")

    def _observe(self) -> None:
        """Look once how the user's own code reads a batch, where there is such code."""
        setup = self.setup
        if setup.is_observed or (setup.compute_loss is None and setup.train_step is None):
            return
        setup.is_observed = True
        with suppress(NbdebugError, RuntimeError, ValueError, TypeError, LookupError, AttributeError):
            reading = self.experiment("batch_layout", "Reading the batch as your code does", self._observed)
            if reading is not None:
                setup.read_as(reading)

    def _observed(self) -> Reading | None:
        sandbox = make_sandbox(self.setup, self.control)
        return observed_reading(sandbox, sandbox.batch())

    def _tell_progress(self, fraction: float, text: str) -> None:
        self.journal.tell(Event("progress", self._running, fraction, text))

    def experiment(self, name: str, title: str, function: Callable[[], T]) -> T:
        """Run an experiment under guard; nothing of the user's is changed by it."""
        self._running = name
        self.journal.tell(Event("probe-started", name, text=title))
        started, live = time.perf_counter(), self.setup.live_parts()
        snapshot = self._snapshot or StateSnapshot(*live)
        try:
            return guarded(function, live, self.control, seed=self.seed, snapshot=snapshot)
        finally:
            self._tell_touched(name, snapshot)
            seconds = time.perf_counter() - started
            self.timings[name] = self.timings.get(name, 0.0) + seconds
            self.journal.tell(Event("probe-finished", name, 1.0, text=title))

    def _tell_touched(self, name: str, snapshot: StateSnapshot) -> None:
        """Say loudly that something of the user's is not as it was, because experiments must never do that."""
        touched = snapshot.touched()
        if touched:
            self._snapshot = None  # what is as it was left is seen anew
            self.journal.note(
                f"ATTENTION: your objects were modified while the probe {name} ran: {'; '.join(touched[:5])}. "
                "Your own code reached them from the copy, or modified them at the same time in another thread."
            )

    def _tell_notes(self, sandbox: Sandbox) -> None:
        for note in sandbox.notes:
            self.journal.note(note)

    def _run_probe(self, spec: ProbeSpec, needs: dict[str, Any]) -> Any:
        for name, need in spec.needs.items():
            if need.kind is Control:
                needs[name] = self.control
            elif need.kind is Sandbox:
                needs[name] = late_sandbox(self.setup, self.control, self._tell_notes)
        try:
            with self.control.share(spec.share):
                return spec.function(**needs)
        finally:
            for made in needs.values():
                if isinstance(made, Sandbox) and is_made(made):
                    self._tell_notes(made)  # what its first pass showed
            if any(need.kind is Sandbox for need in spec.needs.values()) and not self.control.interrupted.is_set():
                refuse_leaking(self.setup)  # whatever the probe made of a run that was ended


@contextmanager
def collecting_only_new() -> Iterator[None]:
    """Let the garbage collector leave out what exists already: walking through all of torch takes long."""
    if gc.get_freeze_count():  # by the user, or by a run around this one
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def not_tried(control: Control) -> str:
    """Return why something was left out for want of time."""
    return f"not tried: time limit of {control.budget:.3g} s"
