"""What all viewers share: live in a notebook, a static picture beside it for when the kernel is gone, and text."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from nbdebug.core.control import Control
from nbdebug.views.output import Output, in_notebook

__all__ = ["View"]


class View:
    """One thing to look at. A kind of view gives its data, its static page and its text; the rest is here."""

    name = ""  # of the bundle
    actions: tuple[tuple[str, str], ...] = ()  # what a plain button can ask for, with its text

    def __init__(self, control: Control | None = None) -> None:
        self._output = Output()
        self._control = control or Control()
        self._widget: Any = None
        self._worker: Any = None

    @property
    def data(self) -> dict[str, Any]:
        """What the front end draws, as plain values."""
        raise NotImplementedError

    @property
    def html(self) -> str:
        """The static page."""
        raise NotImplementedError

    @property
    def png(self) -> bytes:
        """The static picture, for places that show pictures only."""
        return b""

    @property
    def widget(self) -> Any:
        """The live view, made when it is first asked for."""
        if self._widget is None:
            from nbdebug.widgets.viewer import viewer
            from nbdebug.widgets.worker import Worker

            # Made here, in the cell that shows it, because a worker counts the cells from its own on.
            self._worker = Worker(self._answer, self._control, self._tell)
            self._widget = viewer(self.name, self.data, self.html, key=self._output.key, actions=self.actions)
            self._widget.observe(lambda change: self._asked(change["new"]), "request")
        return self._widget

    def close(self) -> None:
        """Take the live view down and stop its worker."""
        if self._widget is not None:
            from nbdebug.widgets.closing import take_down

            self._worker.close()
            take_down((self._widget,))
            self._widget = None

    def _refresh(self) -> None:
        """Show new data in the live view, if there is one."""
        if self._widget is not None:
            with self._widget.hold_sync():
                self._widget.data = self.data
            self._widget.static = self.html

    def _asked(self, request: Mapping[str, Any]) -> None:
        """Hear a click, and leave the answer to the worker."""
        if request.get("action"):
            self._worker.start([(str(request["action"]), request.get("place"), request.get("count"))])

    def _answer(self, job: tuple[str, Any, Any]) -> None:
        """Do what was asked: an action, the place it is about, and the number of the click."""

    def _tell(self, state: str, text: str) -> None:
        if self._widget is not None:
            self._widget.status = {"running": "drawing …", "idle": ""}.get(state, text)

    def _repr_html_(self) -> str:
        return self.html

    def _ipython_display_(self) -> None:
        """Show the live view and the static picture, which the live view hides; in a terminal, the text."""
        if in_notebook():
            self._output.show(self.widget, repr(self), self._static_forms())
        else:
            sys.stdout.write(f"{self}\n")

    def _static_forms(self) -> dict[str, str]:
        import base64

        forms = {"text/html": self.html}
        if self.png:
            forms["image/png"] = base64.b64encode(self.png).decode("ascii")
        return {**forms, "text/plain": str(self)}

    def _keep(self) -> None:
        """Put what is seen now into the static picture that stays in the notebook."""
        self._output.keep(self._static_forms)
