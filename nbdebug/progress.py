"""Progress of a run on stderr: current check, fraction done, time remaining."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nbdebug.control import Control
from nbdebug.journal import Event
from nbdebug.session import Session

__all__ = ["control_shown", "progress_bar", "progress_line"]

LOG_SECONDS = 10.0


@contextmanager
def progress_bar(session: Session, checks: list[str], *, shown: bool) -> Iterator[list[str]]:
    """Show one bar over these checks while the block runs; it names the current experiment."""
    if not shown or not checks:
        yield checks
        return
    from tqdm import tqdm

    lively = sys.stderr.isatty() or "ipykernel" in sys.modules  # elsewhere it goes to a log, line after line
    bar = tqdm(
        total=len(checks),
        desc="nbdebug",
        file=sys.stderr,
        leave=False,
        mininterval=0.2 if lively else LOG_SECONDS,
        bar_format="{desc}: {percentage:3.0f}%|{bar}| {n:.0f}/{total_fmt} checks [{elapsed}<{remaining}]{postfix}",
    )
    done = 0

    def listen(event: Event) -> None:
        nonlocal done
        if event.kind == "result":
            done += 1
            bar.n = done
        elif event.kind == "progress":
            bar.n = max(bar.n, done + event.fraction * 0.99)
        elif event.kind == "probe-started":
            bar.set_postfix_str(event.text, refresh=False)
        bar.refresh() if lively and event.kind != "progress" else bar.update(0)

    unsubscribe = session.journal.subscribe(listen)
    try:
        yield checks
    finally:
        unsubscribe()
        bar.close()


@contextmanager
def progress_line(what: str, *, shown: bool | Callable[[Event], None]) -> Iterator[Callable[[Event], None]]:
    """Yield a listener for sessions with an unknown number of experiments: one line names the current one.

    If `shown` is already a listener, yield it, and draw nothing.
    """
    if not shown or callable(shown):
        yield shown if callable(shown) else lambda event: None
        return
    from tqdm import tqdm

    lively = sys.stderr.isatty() or "ipykernel" in sys.modules
    bar = tqdm(
        total=1.0,
        desc=f"nbdebug: {what}",
        file=sys.stderr,
        leave=False,
        mininterval=0.2 if lively else LOG_SECONDS,
        bar_format="{desc} {percentage:3.0f}% [{elapsed}]{postfix}",
    )

    def listen(event: Event) -> None:
        if event.kind == "probe-started":
            bar.set_postfix_str(event.text, refresh=False)
        if event.kind in ("probe-started", "progress"):
            bar.n = event.fraction
            bar.update(0)

    try:
        yield listen
    finally:
        bar.close()


@contextmanager
def control_shown(shown: bool, what: str) -> Iterator[Control]:
    """Yield a controller whose progress is shown on one line while the block runs."""
    with progress_line(what, shown=shown) as listen:
        yield Control(on_progress=lambda fraction, text: listen(Event("progress", what, fraction, text)))
