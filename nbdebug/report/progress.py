"""Progress of a run: what is being tried, the fraction done, and the time that is left.

In a terminal it is a line on standard error. In a notebook it is an output of the cell that is removed at the end:
whatever was written to standard error would stay there, as an empty colored box.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any, TypeAlias

from nbdebug.core.control import Control
from nbdebug.core.journal import Event
from nbdebug.engine.session import Session
from nbdebug.report.cell_output import CellOutput, in_notebook

__all__ = ["Shown", "control_shown", "progress_bar", "progress_line"]

Shown: TypeAlias = bool | Callable[[Event], None]  # whether progress is drawn, or who hears of it instead

SECONDS, LOG_SECONDS = 0.2, 10.0  # between two updates, where they replace each other, and in a log, line after line
PATIENCE = 0.5  # what is over sooner shows no progress in a notebook
STYLE = "display:flex;gap:8px;align-items:center;font-variant-numeric:tabular-nums"


@contextmanager
def progress_bar(session: Session, checks: Sequence[str], *, shown: Shown) -> Iterator[Callable[[str], None]]:
    """Show one bar over these checks while the block runs; it names the current experiment and the time left.

    Yield a function that says something before them, such as how long the run may take. If `shown` is a listener, it
    hears the events, and nothing is drawn.
    """
    if not shown or not checks:
        yield lambda text: None
        return
    if callable(shown):
        hear, unsubscribe = shown, session.journal.subscribe(shown)
        try:
            yield lambda text: hear(Event("progress", "plan", text=text))
        finally:
            unsubscribe()
        return
    bar = _new_bar(
        total=len(checks),
        desc="nbdebug",
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
            bar.set_postfix_str(_tried(session.control, event.text), refresh=False)
        bar.refresh() if bar.mininterval < LOG_SECONDS and event.kind != "progress" else bar.update(0)

    def say(text: str) -> None:
        bar.set_description_str(f"nbdebug ({text})" if text else "nbdebug")

    unsubscribe = session.journal.subscribe(listen)
    try:
        yield say
    finally:
        unsubscribe()
        bar.close()


def _tried(control: Control, text: str) -> str:
    """Return what is being tried, with the time that is left where it is limited."""
    return f"{text}, {control.session_left:.0f} s left" if control.has_budget else text


@contextmanager
def progress_line(what: str, *, shown: Shown, control: Control | None = None) -> Iterator[Callable[[Event], None]]:
    """Yield a listener for sessions with an unknown number of experiments: one line names the current one.

    If `shown` is already a listener, yield it, and draw nothing.
    """
    if not shown or callable(shown):
        yield shown if callable(shown) else lambda event: None
        return
    bar = _new_bar(total=1.0, desc=f"nbdebug: {what}", bar_format="{desc} {percentage:3.0f}% [{elapsed}]{postfix}")

    def listen(event: Event) -> None:
        if event.text and (event.kind == "probe-started" or control is not None):
            bar.set_postfix_str(event.text if control is None else _tried(control, event.text), refresh=False)
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


def _new_bar(**options: Any) -> Any:
    """Return a bar of tqdm, drawn where this runs; what it showed is gone when it is closed."""
    from tqdm import tqdm

    class CellBar(tqdm):
        """A bar that is an output of the running cell."""

        def __init__(self, **options: Any) -> None:
            self.output, self.drawn = CellOutput(), 0.0
            super().__init__(gui=True, **options)  # which writes to no stream

        def display(self, *_: Any, **__: Any) -> bool:
            now = self._time()
            if now - self.start_t >= PATIENCE and now - self.drawn >= self.mininterval:
                self.drawn = now
                self.output.show(_forms(self.format_dict))
            return True

        def close(self) -> None:
            super().close()
            self.output.remove()

    if in_notebook():
        return CellBar(mininterval=SECONDS, miniters=0, **options)
    interval = SECONDS if sys.stderr.isatty() else LOG_SECONDS
    return tqdm(file=sys.stderr, leave=False, mininterval=interval, **options)


def _forms(state: dict[str, Any]) -> dict[str, str]:
    """Return the state of a bar as a page and as text."""
    from tqdm import tqdm

    text = tqdm.format_meter(**{**state, "bar_format": state["bar_format"].replace("|{bar}|", "")})
    share = min(max(state["n"] / state["total"], 0.0), 1.0)
    bar = f'<progress max="1" value="{share:.3f}" aria-label="Progress"></progress>'
    return {"text/html": f'<div style="{STYLE}">{bar}<span>{escape(text)}</span></div>', "text/plain": text}
