"""A budget counts the time that the program worked, and not the time that it waited for a processor."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from nbdebug.core.work_clock import MOST_STRETCH, REFRESH, WorkClock, waited_for_processor


class Machine:
    """Seconds that passed, and that were waited."""

    def __init__(self) -> None:
        self.passed, self.waited = 0.0, 0.0
        self.clock = WorkClock(lambda: self.passed, lambda: self.waited)
        self.spend(1.0)  # the first look of a thread only begins to count

    def spend(self, seconds: float, waiting: float = 0.0) -> float:
        """Return what the clock says of these seconds."""
        before = self.clock()
        self.passed += seconds
        self.waited += waiting
        return self.clock() - before


def test_time_with_a_processor_counts() -> None:
    assert Machine().spend(2.0) == pytest.approx(2.0)


def test_time_without_a_processor_does_not_count() -> None:
    assert Machine().spend(2.0, waiting=0.5) == pytest.approx(1.5)


def test_a_minute_ends_however_busy_the_machine_is() -> None:
    assert Machine().spend(2.0, waiting=1.9) == pytest.approx(2.0 / MOST_STRETCH)


def test_short_steps_are_timed_between_two_looks() -> None:
    machine = Machine()
    assert machine.spend(0.2 * REFRESH) == pytest.approx(0.2 * REFRESH)


def test_it_never_runs_backward() -> None:
    """Time that was told before the waiting was seen stays told."""
    machine = Machine()
    told = []
    for _ in range(50):
        machine.spend(0.3 * REFRESH, waiting=0.25 * REFRESH)
        told.append(machine.clock())
    assert told == sorted(told)
    assert told[-1] - told[0] < 0.6 * 49 * 0.3 * REFRESH


BURN = """
import time
from nbdebug.core.work_clock import WorkClock
end, clock = time.monotonic() + {seconds}, WorkClock()
begun = clock()
while time.monotonic() < end:
    clock()
print(clock() - begun)
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes cannot be bound to one processor here")
def test_two_programs_on_one_processor_count_about_half_each() -> None:
    if waited_for_processor() == 0.0:
        pytest.skip("this kernel does not count the time that a thread waits")
    processor = min(os.sched_getaffinity(0))

    def bound() -> None:
        os.sched_setaffinity(0, {processor})

    programs = [
        subprocess.Popen(
            [sys.executable, "-c", BURN.format(seconds=3.0)], stdout=subprocess.PIPE, text=True, preexec_fn=bound
        )
        for _ in range(2)
    ]
    begun = time.monotonic()
    counted = [float(program.communicate()[0]) for program in programs]
    assert sum(counted) < 5.0, (counted, time.monotonic() - begun)  # 6 s passed for both of them
