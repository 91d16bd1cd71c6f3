"""Every long experiment on how a training goes tells how far it is, and obeys a cancel and a time limit at once."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from nbdebug.core.control import Control
from nbdebug.core.journal import Event
from nbdebug.core.registry import registry
from nbdebug.engine.session import Session
from nbdebug.errors import Cancelled, OutOfTime
from nbdebug.setup import Setup
from tests import loops
from tests.trust.fingerprint import difference, fingerprint

LONG = (
    "overfit_one_batch", "rate_trials", "short_run", "blind_run", "own_loop", "baselines", "decay_race", "repeats",
    "practice",
)  # fmt: skip


def setup(name: str) -> dict[str, Any]:
    """Return digits with a training step and decay, and a rate that leaves the experiment something to do."""
    torch.optim.Adam([torch.zeros(1, requires_grad=True)])  # the first of a process imports torch's compiler
    rate = 10.0 if name == "rate_trials" else 1e-3  # other rates are only tried where the given one fails
    decay = 100.0 if name == "decay_race" else 0.1  # and a race is only run where decay counts
    return loops.setup(loops.right, rate, torch.optim.AdamW, weight_decay=decay)


def kind_of(name: str) -> type:
    """Return the evidence that a probe yields."""
    return next(kind for kind, spec in registry.load().probes.items() if spec.name == name)


def stopped(name: str, made: dict[str, Any], stop: Any) -> tuple[BaseException, list[Event]]:
    """Run one experiment, stop it at its first sign of life, and give what it raised and said."""
    session, heard = Session(Setup(**made), control=Control()), list[Event]()

    def listen(event: Event) -> None:
        if event.kind == "progress" and event.name == name:
            heard.append(event)
            stop(session.control)

    session.journal.subscribe(listen)
    with pytest.raises((Cancelled, OutOfTime)) as raised:
        session.measure(kind_of(name))
    return raised.value, heard


@pytest.mark.parametrize("name", LONG)
def test_it_tells_how_far_it_is_and_obeys(name: str) -> None:
    """It says what it does before it has done it; nothing more is said after a stop, and nothing is touched."""
    made = setup(name)
    before = fingerprint(*made.values())
    cancelled, heard = stopped(name, made, lambda control: control.cancel.set())
    assert isinstance(cancelled, Cancelled) and len(heard) == 1
    assert heard[0].text and 0 <= heard[0].fraction < 1
    out_of_time, heard = stopped(name, made, lambda control: control.allow(-1.0))
    assert isinstance(out_of_time, OutOfTime) and len(heard) == 1
    assert not difference(before, fingerprint(*made.values()))
