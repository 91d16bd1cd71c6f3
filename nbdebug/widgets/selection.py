"""The layer that is selected: the same in every tab, and in the finding that is about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import ipywidgets as widgets

from nbdebug.core.finding import Finding
from nbdebug.core.text import clean_text, shortened
from nbdebug.widgets.boxes import beside, new_button, side_by_side
from nbdebug.widgets.closing import take_down
from nbdebug.widgets.screens import prose

__all__ = ["Selection"]

GRAVE = ("bug", "suspect", "note")


class Selection:
    """Keeps the tabs' choices the same, and says what was found at the layer that is chosen."""

    def __init__(self, go_to: Callable[[Finding], None]) -> None:
        self._go_to = go_to
        self._views: list[Any] = []
        self._details: list[Any] = []
        self._findings: Sequence[Finding] = ()
        self.path = ""
        self._says, self._button = widgets.HTML(layout=beside()), new_button("Go to finding")
        self._button.on_click(lambda _: self._go())
        self.view = side_by_side("selected", [self._says, self._button])
        self._show()

    def join(self, view: Any) -> None:
        """Let a view take part: it shows what is selected elsewhere, and its own choice is passed on."""
        with view.hold_sync():
            view.selected, view.marks = self.path, self._marks()
        view.observe(lambda change: self.choose(change["new"]), "selected")
        self._views.append(view)

    def show_in(self, detail: Any) -> None:
        """Let something show what is selected, from now on."""
        self._details.append(detail)
        detail.choose(self.path)

    def leave(self) -> None:
        """Forget the views, because they are taken down."""
        self._views.clear()
        self._details.clear()

    def close(self) -> None:
        """Take its own line down."""
        take_down((self.view,))

    def choose(self, path: str) -> None:
        """Select a layer or a parameter in every view."""
        if path == self.path:
            return
        self.path = path
        for view in self._views:
            view.selected = path
        for detail in self._details:
            detail.choose(path)
        self._show()

    def follow(self, findings: Sequence[Finding]) -> None:
        """Take what was found by now; without a choice of the user's, that of the first cause is selected."""
        self._findings = findings
        alarms = [finding for finding in findings if finding.is_alarm and finding.where not in ("", "model")]
        for view in self._views:
            view.marks = self._marks()
        if not self.path and alarms:
            self.choose(alarms[0].where)
        self._show()

    @property
    def finding(self) -> Finding | None:
        """The gravest finding about what is selected."""
        here = [f for f in self._findings if self.path and is_about(f.where, self.path)]
        return min(here, key=lambda finding: GRAVE.index(finding.severity), default=None)

    def _marks(self) -> dict[str, str]:
        marks: dict[str, str] = {}
        for finding in sorted(self._findings, key=lambda finding: -GRAVE.index(finding.severity)):
            marks[clean_text(finding.where)] = finding.severity
        return marks

    def _show(self) -> None:
        found = self.finding
        where = "Activations, Gradients and Layers"
        told = f"Selected in {where}: <b>{escape(shortened(clean_text(self.path), 80))}</b>"
        if found is not None:
            told += f" · {found.severity}: {escape(shortened(clean_text(found.says).replace('`', ''), 200))}"
        self._says.value = prose(told) if self.path else ""
        self._button.layout.display = "none" if found is None else None
        self.view.layout.display = None if self.path else "none"

    def _go(self) -> None:
        found = self.finding
        if found is not None:
            self._go_to(found)


def is_about(where: str, path: str) -> bool:
    """Return whether a finding's place is this layer, one of its parameters, or the layer of this parameter."""
    layer = path.split(" → ")[0]
    return bool(where) and (where == layer or where.startswith(f"{layer}.") or layer.startswith(f"{where}."))
