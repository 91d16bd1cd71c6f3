"""`nbdebug.show_live`: the curves of a training, while it runs and after."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from nbdebug.errors import BadInput, plainly
from nbdebug.evidence import Recording, Series
from nbdebug.exhibit import Lines
from nbdebug.registry import registry
from nbdebug.report.draw import as_png
from nbdebug.show import page
from nbdebug.show.asking import recorded
from nbdebug.show.view import View
from nbdebug.watch.showing import LAYER_COLUMNS, is_empty, layer_rows, newest, nothing, rate_names

__all__ = ["LiveView", "show_live"]

POINTS = 300  # of one curve; a message stays under 100 kB, and an hour of training under 50 MB
JUDGE_SECONDS, JUDGE_SHARE = 5.0, 0.02  # findings are looked for so seldom that it costs next to nothing


@plainly
def show_live(live: Any) -> LiveView:
    """Show the curves of a watched training: loss, validation, learning rate, and where findings appeared.

    Called before the training, it follows it; called after, or with a run that was loaded, it shows what was recorded.
    """
    if recorded(live) is None:
        raise BadInput(
            f"it is a {type(live).__name__}",
            where="live",
            expected="what nbdebug.watch gives, or a run that nbdebug.watch.load opened",
            do="write: with nbdebug.watch(model, optimizer) as live: …, and show it before the loop or after",
        )
    return LiveView(live)


class LiveView(View):
    """The curves of one run; they grow while it is recorded."""

    name = "curve"

    def __init__(self, live: Any) -> None:
        super().__init__()
        self._live = live
        self._found: list[dict[str, Any]] = []
        self._judged, self._cost, self._seen = 0.0, 0.0, -1
        self._is_bad = False  # whether a loss that is not finite was heard of
        subscribe = getattr(live, "subscribe", None)
        self._unsubscribe = subscribe(self._grown) if callable(subscribe) else lambda: None
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
            "running": bool(getattr(self._live, "is_running", False)),
            "curves": [_curve(name, series) for name, series in run.scalars.items() if len(series)],
            "rates": [_curve(name, series) for name, series in run.rates.items() if len(series)],
            "findings": self._found,
            "notes": [*([nothing(run)] if is_empty(run) else []), *run.unseen],
            "empty": is_empty(run),
        }

    @property
    def html(self) -> str:
        """The static page."""
        pictures = [page.drawn(lines, lines.title, 560) for lines in self._lines()]
        rows = layer_rows(self._recording)
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
        """Give the run as text."""
        return repr(self._live) if hasattr(self._live, "findings") else self._says

    def close(self) -> None:
        """Stop following the run and take the live view down."""
        self._unsubscribe()
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
            curves = [(name, _thinned(series)) for name, series in known.items() if len(series)]
            series = tuple((n, tuple(map(float, s.steps)), tuple(map(float, s.values))) for n, s in curves)
            if series:
                drawn.append(Lines(series, title, "step", title))
        return drawn

    def _taken(self) -> Recording:
        run = recorded(self._live)
        assert run is not None
        return run

    def _grown(self, _: Any) -> None:
        """Hear from the watch, between two steps of the user's training; it must cost little."""
        self._recording = self._taken()
        ended = not getattr(self._live, "is_running", False)
        wait = max(JUDGE_SECONDS, self._cost / JUDGE_SHARE)
        is_bad = self._recording.loss.first_not_finite is not None
        if ended or (is_bad and not self._is_bad) or time.monotonic() - self._judged > wait:
            self._judge(self._recording)
        self._is_bad = is_bad
        if self._widget is not None:
            self._widget.data = self.data
        if ended:
            self._keep()

    def _judge(self, run: Recording) -> None:
        """Look for findings; the run itself knows when each appeared, so that all views say the same."""
        if run.tally.steps == self._seen or not run.tally.steps or not hasattr(self._live, "findings"):
            return
        begun = time.monotonic()
        alarms = [finding for finding in self._live.findings if finding.is_alarm]
        self._found = [  # anew: what was seen in between may be gone
            {
                "check": finding.check,
                "severity": finding.severity,
                "says": finding.says,
                "where": finding.where,
                "step": self._live.appeared(finding),
            }
            for finding in alarms
        ]
        self._judged, self._seen = time.monotonic(), run.tally.steps
        self._cost = self._judged - begun


def _told(found: dict[str, Any]) -> str:
    when = "" if found["step"] is None else f", seen at step {found['step']}"
    return f"{found['severity']} {found['check']}{when}: {found['says']}"


def _thinned(series: Series) -> Series:
    """Give a curve with few points: the mean of each stretch, with its lowest and highest value."""
    count = len(series)
    if count <= POINTS:
        return series
    starts = np.linspace(0, count, POINTS + 1).astype(int)[:-1]
    ends = np.append(starts[1:], count)
    is_finite = np.isfinite(series.values)
    sums = np.add.reduceat(np.where(is_finite, series.values, 0.0), starts)
    known = np.add.reduceat(is_finite.astype(float), starts)
    with np.errstate(invalid="ignore", divide="ignore"):
        values = np.where(known > 0, sums / known, np.nan)
    return Series(
        series.name,
        series.steps[ends - 1],
        values,
        np.fmin.reduceat(series.low, starts),
        np.fmax.reduceat(series.high, starts),
        np.add.reduceat(series.counts, starts),
    )


def _curve(name: str, series: Series) -> dict[str, Any]:
    thin = _thinned(series)
    data = {
        "name": name,
        "steps": [int(step) for step in thin.steps],
        "values": [page.number(value) for value in thin.values],
        "last": page.number(series.last),
    }
    if bool((thin.low < thin.high).any()):
        data |= {"low": [page.number(v, 3) for v in thin.low], "high": [page.number(v, 3) for v in thin.high]}
    return data
