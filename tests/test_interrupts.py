"""Ctrl-C, cancel and time limits: a partial report, and everything ready for the next run."""

from __future__ import annotations

import signal
import threading
from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.core.control import Control
from nbdebug.core.journal import Event
from nbdebug.engine.session import Session
from nbdebug.setup import Setup
from tests.trust.setups import classify, mlp

CHECKS = ["forward-fails", "batch-mixing", "initial-loss-off", "cannot-overfit-batch"]


class Presses(nn.Module):
    """Presses Ctrl-C at its n-th call, and notes who was called after that."""

    def __init__(self, at: int, times: int = 1) -> None:
        super().__init__()
        self.first, self.second, self.at, self.times = nn.Linear(6, 6), nn.Linear(6, 3), at, times

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        LOG.append("call")
        if LOG.count("call") == self.at:
            for _ in range(self.times):
                signal.raise_signal(signal.SIGINT)
            LOG.append("went on")
        x = self.first(x)
        LOG.append("first")
        return self.second(x)


class _Log:
    """A list that is shared between the model and its copies, because it cannot be copied."""

    def __init__(self) -> None:
        self.items: list[str] = []

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("shared on purpose")

    def append(self, item: str) -> None:
        self.items.append(item)

    def count(self, item: str) -> int:
        return self.items.count(item)


LOG = _Log()


@pytest.fixture(autouse=True)
def _empty_log() -> None:
    LOG.items.clear()


def test_one_interrupt_gives_a_partial_report() -> None:
    handler = signal.getsignal(signal.SIGINT)
    report = nbdebug.diagnose(**classify(Presses(at=15)), checks=CHECKS, progress=False)
    assert [result.check for result in report.results] == CHECKS
    statuses = [(result.status, result.reason) for result in report.results]
    assert statuses[0][0] == "clean" and statuses[-1] == ("skipped", "interrupted")
    assert any("stopped: interrupted" in note for note in report.notes)
    assert signal.getsignal(signal.SIGINT) is handler


def test_it_stops_within_one_module_call() -> None:
    nbdebug.diagnose(**classify(Presses(at=3)), checks=CHECKS, progress=False)
    assert LOG.items[-1] == "went on"  # the next module was not even begun


def test_the_second_interrupt_is_raised() -> None:
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        nbdebug.diagnose(**classify(Presses(at=3, times=2)), checks=CHECKS, progress=False)
    assert "went on" not in LOG.items
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_session_runs_again_after_an_interrupt() -> None:
    session = Session(Setup(**classify(Presses(at=3))))
    session.run(CHECKS)
    assert session.journal.results[-1].reason == "interrupted"
    session.run(CHECKS)
    assert {result.status for result in session.journal.results} <= {"clean", "found"}


def test_gather_after_an_interrupt() -> None:
    from nbdebug.evidence.trial_run import TrialRun

    session = Session(Setup(**classify(Presses(at=1))))
    with pytest.raises(KeyboardInterrupt):
        session.gather(TrialRun)
    assert session.gather(TrialRun).ok


def test_cancel_from_another_thread() -> None:
    control = Control()
    session = Session(Setup(**classify(mlp())), control=control)
    control.on_progress = lambda fraction, text: control.cancel.set()
    worker = threading.Thread(target=session.run, args=(CHECKS,))
    worker.start()
    worker.join(60)
    assert session.journal.results[-1].reason == "canceled by the user"
    assert not control.cancel.is_set()


def test_time_limit() -> None:
    report = nbdebug.diagnose(**classify(mlp()), checks=CHECKS, progress=False, time_limit=1e-3)
    assert {result.status for result in report.results} == {"skipped"}
    assert {result.reason for result in report.results} == {"not tried: time limit of 0.001 s"}


def test_an_interrupt_between_experiments() -> None:
    """A listener stands for everything that runs outside the guard."""
    session = Session(Setup(**classify(mlp())))

    def press(event: Event) -> None:
        if event.kind == "result" and event.name == CHECKS[0]:
            signal.raise_signal(signal.SIGINT)

    session.journal.subscribe(press)
    results = session.run(CHECKS)
    assert [result.reason for result in results][1:] == ["interrupted"] * 3
