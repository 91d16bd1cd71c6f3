"""Run a search for a cause after the checks, under guard: it ends with the time, and with an interrupt."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from nbdebug.core.journal import Event
from nbdebug.engine.session import Session, not_tried
from nbdebug.errors import Cancelled, NbdebugError, OutOfTime
from nbdebug.report.progress import Shown, progress_line
from nbdebug.sandbox import interrupts_held

__all__ = ["searched"]

T = TypeVar("T")


def searched(session: Session, names: tuple[str, str, str], search: Callable[[], T], shown: Shown) -> T | None:
    """Return what the search finds; None where it was stopped or the copies cannot be made.

    `names` are the name of the experiment, its title, and the beginning of a sentence that ends in "not tried".
    """
    name, title, late = names
    started = time.perf_counter()
    try:
        line = progress_line(title, shown=shown, control=session.control)
        with interrupts_held(session.control), line as listen, _heard(session, listen):
            return session.experiment(name, title, search)
    except OutOfTime:
        session.journal.note(f"{late} {not_tried(session.control)}.")
    except (Cancelled, KeyboardInterrupt):
        if session.control.insisted.is_set():
            raise
    except NbdebugError as why:
        session.journal.note(f"{late} not possible: {why}")
    finally:
        session.control.reset()
        session.timings[name] = time.perf_counter() - started
    return None


class _heard:
    """Pass the events of a session on to a listener inside the block."""

    def __init__(self, session: Session, listen: Callable[[Event], Any]) -> None:
        self.session, self.listen = session, listen

    def __enter__(self) -> None:
        self.stop = self.session.journal.subscribe(self.listen)

    def __exit__(self, *_: object) -> None:
        self.stop()
