"""The fingerprint matrix: every probe on every set-up, undisturbed and with a fault at the k-th poll.

Run as a script it tries everything and prints the figures: python -m tests.trust.matrix [stride] [name of a set-up…]
"""

from __future__ import annotations

import gc
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch

from nbdebug.core.registry import ProbeSpec, registry
from nbdebug.engine.session import Session
from nbdebug.errors import BadInput, NbdebugError, SandboxRefused
from nbdebug.setup import Setup
from tests.trust.fingerprint import difference, fingerprint
from tests.trust.setups import Case, all_cases, loader


class Planted(RuntimeError):
    """An error that a test put there."""


def _raise(error: type[BaseException]) -> Callable[[], None]:
    def fault() -> None:
        raise error("planted by a test")

    return fault


def _once() -> None:
    signal.raise_signal(signal.SIGINT)


def _twice() -> None:
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)


FAULTS: dict[str, Callable[[], None]] = {
    "RuntimeError": _raise(Planted),
    "MemoryError": _raise(MemoryError),
    "OutOfMemoryError": _raise(torch.OutOfMemoryError),
    "KeyboardInterrupt": _raise(KeyboardInterrupt),
    "SIGINT once": _once,
    "SIGINT twice": _twice,
}
KINDS = (("RuntimeError",), ("MemoryError", "OutOfMemoryError"), ("KeyboardInterrupt", "SIGINT once", "SIGINT twice"))


def one_of_each(turn: int) -> list[str]:
    """Return one fault of each kind: an error, a lack of memory, an interrupt; other ones each turn."""
    return [kind[turn % len(kind)] for kind in KINDS]


@dataclass
class Tally:
    """What was tried and what was found."""

    setups: int = 0
    probes: set[str] = field(default_factory=set)
    tried: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        faults = ", ".join(f"{name}: {count}" for name, count in self.tried.items())
        return (
            f"{self.setups} set-ups × {len(self.probes)} probes, {sum(self.tried.values())} runs ({faults}); "
            f"{self.refused} set-ups refused; {len(self.differences)} differences"
        )


class _Polls:
    """Counts the polls of a session's control, and lets a fault happen at one of them."""

    def __init__(self, session: Session) -> None:
        self.count, self.at, self.fault = 0, 0, _raise(Planted)
        self._poll = session.control.poll
        session.control.poll = self  # type: ignore[method-assign]

    def arm(self, at: int, fault: Callable[[], None]) -> None:
        self.count, self.at, self.fault = 0, at, fault

    def __call__(self) -> None:
        self.count += 1
        if self.count == self.at:
            self.fault()
        self._poll()


def examine(
    case: Case, tally: Tally, *, faults: list[str] | None = None, places: int = 1, probes: list[str] | None = None
) -> None:
    """Run every probe on one set-up, first undisturbed, then with each fault, and compare fingerprints each time.

    Without a word about faults, each probe gets one of each kind.
    """
    if case.in_thread:
        worker = threading.Thread(target=_examine, args=(case, tally, faults, places, probes))
        worker.start()
        worker.join()
    else:
        _examine(case, tally, faults, places, probes)


def _examine(case: Case, tally: Tally, faults: list[str] | None, places: int, probes: list[str] | None) -> None:
    gc.collect()  # the workers of an earlier set-up's loader end when it does
    arguments, live = case.made()
    tally.setups += 1
    with case.around(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = fingerprint(*live)

        def compare(what: str) -> None:
            lines = difference(before, fingerprint(*live))
            tally.differences.extend(f"{case.name} · {what} · {line}" for line in lines)

        try:
            session = Session(Setup(**arguments, sweep_samples=64, sweep_seconds=1.0))
        except BadInput:
            tally.refused += 1
            compare("refused")
            return
        _run_all(session, tally, faults, places, probes, compare)


def _run_all(
    session: Session,
    tally: Tally,
    faults: list[str] | None,
    places: int,
    probes: list[str] | None,
    compare: Callable[[str], None],
) -> None:
    polls, told = _Polls(session), 0
    for spec in _specs(probes):
        tally.probes.add(spec.name)
        polls.arm(0, _raise(Planted))
        _gather(session, spec)
        tally.tried["no fault"] += 1
        compare(spec.name)
        total = polls.count
        kept = dict(session._evidence)
        chosen = one_of_each(tally.tried["no fault"]) if faults is None else faults
        if threading.current_thread() is not threading.main_thread():  # a signal reaches the main thread alone
            chosen = [fault for fault in chosen if "SIGINT" not in fault]
        for fault in chosen:
            for at in _places(total, places, sum(tally.tried.values())):
                session._evidence = {kind: value for kind, value in kept.items() if kind is not spec.yields}
                polls.arm(at, FAULTS[fault])
                _gather(session, spec)
                tally.tried[fault] += 1
                compare(f"{spec.name} with {fault} at poll {at} of {total}")
        session._evidence = kept
        loud = [note for note in session.journal.notes if note.startswith("ATTENTION")]
        for note in loud[told:]:  # what had to be restored is a difference, too
            tally.differences.append(f"{spec.name} · {note}")
        told = len(loud)


def _specs(probes: list[str] | None) -> list[ProbeSpec]:
    known = registry.load().probes.values()
    return [
        spec
        for spec in known
        if spec.function.__module__.startswith("nbdebug.") and (not probes or spec.name in probes)
    ]


def _gather(session: Session, spec: ProbeSpec) -> None:
    try:
        session.gather(spec.yields)
    except (NbdebugError, KeyboardInterrupt, SandboxRefused):
        pass
    finally:
        session.control.reset()


def _places(total: int, places: int, turn: int) -> Iterator[int]:
    """Spread the faults over the first hundred polls, where all kinds of work have begun; other ones each turn."""
    if total:
        end = min(total, 120)
        yield from sorted({1 + (end * step // places + 7 * turn) % end for step in range(places)})


def warm_up() -> None:
    """Import everything that is imported on first use: torch's compiler and scikit-learn set variables then."""
    torch.optim.Adam([torch.zeros(1, requires_grad=True)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = Session(Setup(torch.nn.Linear(6, 3), loader(), sweep_samples=64))
        session.control.allow(1000.0)
        for spec in _specs(None):
            with session.control.share(1e-4):
                _gather(session, spec)


def main() -> None:
    """Try everything and print the figures."""
    tempfile.tempdir = tempfile.mkdtemp()
    stride = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    warm_up()
    wanted, tally, started = sys.argv[2:], Tally(), time.perf_counter()
    for case in [one for one in all_cases() if not wanted or one.name in wanted][::stride]:
        found, begun = len(tally.differences), time.perf_counter()
        examine(case, tally)
        print(
            f"{case.name}: {time.perf_counter() - begun:.1f} s, {len(tally.differences) - found} differences",
            flush=True,
        )
        for line in tally.differences[found:][:12]:
            print("   ", line)
    print(f"{tally} in {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
