"""Everything global is put back, at whatever line an interrupt lands."""

from __future__ import annotations

import random
import signal
import sys
import threading
import warnings
from typing import Any

import numpy as np
import pytest
import torch

from nbdebug.core.control import Control
from nbdebug.core.rng_safe_import import drawing_nothing
from nbdebug.errors import Cancelled, OutOfTime
from nbdebug.sandbox.guard import Guard, guarded
from tests.trust.fingerprint import difference, fingerprint

OURS = (
    "nbdebug/sandbox/guard.py",
    "nbdebug/sandbox/autocast.py",
    "nbdebug/core/control.py",
    "nbdebug/sandbox/state_snapshot.py",
    "torch/autograd/grad_mode.py",
    "autocast_mode.py",
)


def mess_everything_up() -> str:
    """Change everything global that there is."""
    torch.rand(3), np.random.rand(3), random.random()
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    torch.autograd.set_detect_anomaly(True)
    torch.backends.cudnn.benchmark = not torch.backends.cudnn.benchmark
    torch.set_autocast_enabled("cpu", True)
    torch.set_autocast_dtype("cpu", torch.float16)
    torch.set_float32_matmul_precision("medium")
    np.seterr(all="raise")
    warnings.simplefilter("error")
    return "done"


def test_puts_everything_back() -> None:
    before = fingerprint()
    assert guarded(mess_everything_up, (), Control()) == "done"
    assert not difference(before, fingerprint())


def test_puts_determinism_back() -> None:
    guarded(lambda: torch.use_deterministic_algorithms(True, warn_only=True), (), Control())
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("error", [RuntimeError, MemoryError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_whatever_ends_the_experiment(error: type[BaseException]) -> None:
    def experiment() -> None:
        mess_everything_up()
        raise error

    before = fingerprint()
    with pytest.raises(error):
        guarded(experiment, (), Control())
    assert not difference(before, fingerprint())


def test_has_its_own_seed_and_gradients() -> None:
    with torch.no_grad():
        one = guarded(lambda: (float(torch.rand(())), torch.is_grad_enabled()), (), Control(), seed=5)
    torch.rand(7)
    two = guarded(lambda: (float(torch.rand(())), torch.is_grad_enabled()), (), Control(), seed=5)
    assert one == two and one[1]


def test_generators_of_the_users_things() -> None:
    held = {"torch": torch.Generator().manual_seed(1), "numpy": np.random.default_rng(1), "python": random.Random(1)}

    def experiment() -> None:
        torch.rand(2, generator=held["torch"])
        held["numpy"].random()
        held["python"].random()

    before = fingerprint(held)
    guarded(experiment, (held,), Control())
    assert not difference(before, fingerprint(held))


def _lines_of(run: Any) -> int:
    """Count the line events of our own files in one run."""
    counter = _Pressing(at=0)
    sys.settrace(counter.trace)
    try:
        run()
    finally:
        sys.settrace(None)
    return counter.seen


class _Pressing:
    """Presses Ctrl-C twice, quickly, at the n-th line of our own code."""

    def __init__(self, at: int) -> None:
        self.at, self.seen = at, 0

    def trace(self, frame: Any, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.endswith(OURS):
            return None
        if event == "line":
            self.seen += 1
            if self.seen == self.at:
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)
        return self.trace


def _pressed(at: int) -> None:
    control = Control()
    tracer = _Pressing(at)
    try:
        sys.settrace(tracer.trace)
        guarded(mess_everything_up, (), control)
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)


def test_two_interrupts_at_any_line() -> None:
    """Every third line of the guard and of torch's own context managers in it; all of them with the marker."""
    _sweep(step=3)


@pytest.mark.slow
def test_two_interrupts_at_every_line() -> None:
    _sweep(step=1)


def _sweep(step: int) -> None:
    traced = sys.gettrace()
    total, before = _lines_of(lambda: guarded(mess_everything_up, (), Control())), fingerprint()
    assert total > 100
    residue = []
    for at in range(1, total + 1, step):
        _pressed(at)
        lines = difference(before, fingerprint())
        residue += [f"line {at}: {line}" for line in lines]
        if lines:
            guarded(lambda: None, (), Control())
            break
    sys.settrace(traced)
    assert not residue, residue


def test_one_interrupt_only_sets_a_flag() -> None:
    control, reached = Control(), []

    def experiment() -> None:
        signal.raise_signal(signal.SIGINT)
        reached.append("after the first")
        control.poll()
        reached.append("after the poll")

    with pytest.raises(KeyboardInterrupt):
        guarded(experiment, (), control)
    assert reached == ["after the first"]


def test_a_second_raises_at_once() -> None:
    control, reached = Control(), []

    def experiment() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        reached.append("after the second")

    with pytest.raises(KeyboardInterrupt):
        guarded(experiment, (), control)
    assert not reached and control.insisted.is_set()


def test_an_interrupt_that_was_swallowed_still_ends_it() -> None:
    def experiment() -> str:
        try:
            signal.raise_signal(signal.SIGINT)
            control.poll()
        except KeyboardInterrupt:
            pass
        return "went on"

    control = Control()
    with pytest.raises(KeyboardInterrupt):
        guarded(experiment, (), control)


def test_off_the_main_thread() -> None:
    """No handler can be set there; everything else is kept all the same."""
    said: list[Any] = []

    def work() -> None:
        before = fingerprint()
        guarded(mess_everything_up, (), Control())
        said.extend(difference(before, fingerprint()))
        said.append("ended")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert said == ["ended"]


def test_an_undo_that_fails_does_not_keep_the_others() -> None:
    class Broken(random.Random):
        def setstate(self, state: Any) -> None:
            raise ValueError("no")

    before = fingerprint()
    with pytest.warns(RuntimeWarning, match="could not restore an object"):
        guarded(mess_everything_up, (Broken(1),), Control())
    assert not [line for line in difference(before, fingerprint()) if "filters" not in line]


def test_importing_draws_nothing() -> None:
    before = fingerprint()
    with drawing_nothing():
        torch.rand(1), random.random(), np.random.rand()
    assert not difference(before, fingerprint())


def test_control() -> None:
    control = Control()
    control.poll()
    control.cancel.set()
    with pytest.raises(Cancelled):
        control.poll()
    control.reset()
    now = [0.0]
    control = Control(time_limit=100.0, clock=lambda: now[0])
    with control.share(0.25):
        now[0] = 26.0
        with pytest.raises(OutOfTime):
            control.poll()
    control.poll()
    assert not control.is_over and control.seconds_left == 74.0
    now[0] = 101.0
    assert control.is_over and control.session_left == 0.0


def test_an_autocast_block_left_open_is_closed() -> None:
    """An interrupt in the exit of autocast leaves its block open; the guard closes it."""
    before = torch.autocast_increment_nesting() and torch.autocast_decrement_nesting()
    guard = Guard(Control())
    guard.save_flags()
    torch.autocast_increment_nesting()
    guard.close()
    assert before == (torch.autocast_increment_nesting() and torch.autocast_decrement_nesting())
