"""`nbdebug.show_live`: the curves of a training, while it runs and after."""

from __future__ import annotations

import time
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from nbdebug.charts import Lines
from nbdebug.charts.draw import as_png
from nbdebug.core.registry import registry
from nbdebug.errors import BadInput, plainly
from nbdebug.evidence.recording import Recording
from nbdebug.report.cell_output import current_execution, in_notebook, on_cell_end
from nbdebug.views import page
from nbdebug.views.asking import recorded
from nbdebug.views.curve_data import curve_data, thinned
from nbdebug.views.view import View
from nbdebug.watch.showing import LAYER_COLUMNS, is_empty, layer_rows, newest, nothing, rate_names

__all__ = ["LiveView", "show_live", "view_of"]

SEND_SHARE = 0.01  # of the time, at most, to bring the curves up to date
JUDGE_SECONDS, JUDGE_SHARE = 5.0, 0.005  # findings are looked for so seldom that it costs next to nothing


@plainly
def show_live(live: Any) -> LiveView:
    """Show the curves of a watched training: loss, validation, learning rate, and where findings appeared.

    In a notebook they are displayed under the running cell, wherever in it this is called, and follow the training
    while it runs; a run that is over, or was loaded, is shown as it was recorded.
    """
    if recorded(live) is None:
        raise BadInput(
            f"it is a {type(live).__name__}",
            where="live",
            expected="what nbdebug.watch gives, or a run that nbdebug.watch.load opened",
            do="write: with nbdebug.watch(model, optimizer) as live: …, and show it before the loop or after",
        )
    view = view_of(live)
    view.show()
    return view


def view_of(live: Any) -> LiveView:
    """Return the one view of a run: shown in several cells, it is drawn and kept up to date only once."""
    known = getattr(live, "view", None)
    view = known if isinstance(known, LiveView) else LiveView(live)
    if hasattr(live, "view"):
        live.view = view
    return view


class LiveView(View):
    """The curves of one run; they grow while it is recorded."""

    name = "curve"

    def __init__(self, live: Any) -> None:
        super().__init__()
        # A widget lives as long as the kernel; it must not keep the run, and with it the user's model, in memory.
        self._source = weakref.ref(live) if hasattr(live, "subscribe") else lambda: live
        self._found: list[dict[str, Any]] = []
        self._judged, self._cost, self._seen = 0.0, 0.0, -1
        self._due = 0.0  # when the curves are brought up to date next
        self._is_bad = False  # whether a loss that is not finite was heard of
        self._execution = ""  # of the cell that shows it
        self._kept = (-1, 0)  # how much of the run is in the static picture
        self._end_listening: Callable[[], None] | None = None  # to the ends of cells
        subscribe = getattr(live, "subscribe", None)
        self._unsubscribe = subscribe(self.follow) if callable(subscribe) else lambda: None
        registry.load()  # now, and not in the middle of the training
        self._recording = self._taken()
        self._judge(self._recording)

    @property
    def data(self) -> dict[str, Any]:
        """What the front end draws."""
        run = self._recording
        return {
            "title": f"{run.model}, {run.optimizer}",
            "steps": run.tally.steps,
            "running": self.is_running,
            "curves": [curve_data(name, series) for name, series in run.scalars.items() if len(series)],
            "rates": [curve_data(name, series) for name, series in run.rates.items() if len(series)],
            "findings": self._found,
            "notes": [*([nothing(run)] if is_empty(run) else []), *run.unseen],
            "empty": is_empty(run),
        }

    @property
    def is_running(self) -> bool:
        """Whether the run is being recorded now."""
        return bool(getattr(self._source(), "is_running", False))

    @property
    def html(self) -> str:
        """The static page."""
        pictures = [page.drawn(lines, lines.title, 560) for lines in self._lines()]
        rows = layer_rows(self._taken())
        table = page.table(LAYER_COLUMNS, rows) if rows else ""
        return page.page(self._says, page.lines(map(_told, self._found)), *pictures, table)

    @property
    def png(self) -> bytes:
        """The loss as a picture."""
        lines = self._lines()
        return as_png(lines[0]) if lines else b""

    def __repr__(self) -> str:
        """Say in one line what it is."""
        return f"<nbdebug {self._says}>"

    def __str__(self) -> str:
        """Return the run as text."""
        live = self._source()
        return repr(live) if hasattr(live, "findings") else "\n".join([self._says, *map(_told, self._found)])

    def show(self) -> None:
        """Display the curves under the running cell, once however often it is asked; outside a notebook, do nothing."""
        execution = current_execution()
        if not in_notebook() or (execution and execution == self._execution):
            return
        self._execution = execution
        self.refresh()
        super()._ipython_display_()
        self._kept = self._extent(self._recording)
        self._keep_at_cell_end()

    def _ipython_display_(self) -> None:
        if in_notebook():
            self.show()
        else:
            super()._ipython_display_()

    def refresh(self) -> None:
        """Take in what was recorded since, and judge it."""
        self._recording = self._taken()
        self._judge(self._recording)
        self._send()

    def close(self) -> None:
        """Stop following the run and take the live view down."""
        self._unsubscribe()
        if self._end_listening is not None:
            self._end_listening()
        live: Any = self._source()
        if getattr(live, "view", None) is self:
            live.view = None
        super().close()

    @property
    def _says(self) -> str:
        run = self._recording
        if is_empty(run):
            return f"{run.model}: {nothing(run)}"
        last = [f"{name} {newest(series)}" for name, series in run.scalars.items() if len(series)]
        return f"{run.model} after {run.tally.steps} steps: {', '.join(last) or 'nothing logged yet'}"

    def _lines(self) -> list[Lines]:
        run = self._recording
        losses = {name: series for name, series in run.scalars.items() if "loss" in name.lower()}
        rates = {text: run.rates[name] for name, text in rate_names(run).items()}
        drawn = []
        for title, known in {"loss": losses, "learning rate": rates}.items():
            curves = [(name, thinned(series)) for name, series in known.items() if len(series)]
            series = tuple((n, tuple(map(float, s.steps)), tuple(map(float, s.values))) for n, s in curves)
            if series:
                drawn.append(Lines(series, title, "step", title))
        return drawn

    def _taken(self, **options: bool) -> Recording:
        return recorded(self._source(), **options) or self._recording

    def follow(self, _: Any) -> None:
        """Hear from the watch, between two steps of the user's training; it must cost little."""
        ended, begun = not self.is_running, time.monotonic()
        if begun < self._due and not ended:
            return
        self._recording = self._taken(layers=ended)
        self._send()
        self._due = begun + (time.monotonic() - begun) / SEND_SHARE
        wait = max(JUDGE_SECONDS, self._cost / JUDGE_SHARE)
        is_bad = self._recording.loss.first_not_finite is not None
        if ended or (is_bad and not self._is_bad) or time.monotonic() - self._judged > wait:
            self._judge(self._recording)
            self._send()
        self._is_bad = is_bad
        if self._execution:
            self._keep_at_cell_end()

    def _send(self) -> None:
        if self._widget is not None:
            self._widget.data = self.data

    def _keep_at_cell_end(self) -> None:
        """Draw the static picture when a cell ends, and not whenever the training pauses: drawing takes time."""
        if self._end_listening is None:
            self._end_listening = on_cell_end(self._cell_ended)

    def _cell_ended(self, _: Any) -> None:
        if not self.is_running and self._end_listening is not None:
            self._end_listening()
            self._end_listening = None
        if self._extent(self._taken(layers=False)) == self._kept:
            return
        try:
            self.refresh()
            self._kept = self._extent(self._recording)
            self._keep()
        except Exception as error:
            warnings.warn(f"nbdebug could not draw the curves for the saved notebook: {error!r}", stacklevel=2)

    @staticmethod
    def _extent(run: Recording) -> tuple[int, int]:
        return run.tally.steps, sum(map(len, run.scalars.values()))  # numbers may be logged after the last step, too

    def _judge(self, run: Recording) -> None:
        """Look for findings; the run itself knows when each appeared, so that all views say the same."""
        live: Any = self._source()
        if run.tally.steps == self._seen or not run.tally.steps or not hasattr(live, "findings"):
            return
        begun = time.monotonic()
        alarms = [finding for finding in live.findings if finding.is_alarm]
        self._found = [  # anew: what was seen in between may be gone
            {
                "check": finding.check,
                "severity": finding.severity,
                "says": finding.says,
                "where": finding.where,
                "step": live.appeared(finding),
            }
            for finding in alarms
        ]
        self._judged, self._seen = time.monotonic(), run.tally.steps
        self._cost = self._judged - begun


def _told(found: dict[str, Any]) -> str:
    when = "" if found["step"] is None else f", seen at step {found['step']}"
    return f"{found['severity']} {found['check']}{when}: {found['says']}"
