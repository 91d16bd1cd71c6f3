"""What all viewers share: live in a notebook, a static picture beside it for when the kernel is gone, and text."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Mapping
from typing import Any

from nbdebug.control import Control

__all__ = ["View", "in_notebook"]


class View:
    """One thing to look at. A kind of view gives its data, its static page and its text; the rest is here."""

    name = ""  # of the bundle
    actions: tuple[tuple[str, str], ...] = ()  # what a plain button can ask for, with its text

    def __init__(self, control: Control | None = None) -> None:
        self._key = secrets.token_hex(4)
        self._control = control or Control()
        self._widget: Any = None
        self._worker: Any = None
        self._still: Any = None  # the static output, once it is shown

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
            self._widget = viewer(self.name, self.data, self.html, key=self._key, actions=self.actions)
            self._widget.observe(lambda change: self._asked(change["new"]), "request")
        return self._widget

    def close(self) -> None:
        """Take the live view down and stop its worker."""
        if self._widget is not None:
            self._worker.close()
            self._widget.close()
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
        """Show the live view and, as an output of its own, the static picture, which the live view hides.

        A notebook that is reopened without its kernel shows an error in the place of a live view, and whatever other
        forms that same output had are lost; so the picture has to be an output of its own.
        """
        if not in_notebook():
            sys.stdout.write(f"{self}\n")
            return
        from IPython.display import display

        live = self.widget._repr_mimebundle_() or {}
        data, metadata = live if isinstance(live, tuple) else (live, {})
        display({**data, "text/plain": repr(self)}, metadata=metadata, raw=True)
        self._still = display(self._static_forms(), raw=True, display_id=True)

    def _static_forms(self) -> dict[str, str]:
        import base64

        forms = {"text/html": f'<div class="nbdebug-static nbdebug-static-{self._key}">{self.html}</div>'}
        if self.png:
            forms["image/png"] = base64.b64encode(self.png).decode("ascii")
        return {**forms, "text/plain": str(self)}

    def _keep(self) -> None:
        """Put what is seen now into the static picture that stays in the notebook."""
        if self._still is not None:
            self._still.update(self._static_forms(), raw=True)


def in_notebook() -> bool:
    """Whether this runs in a Jupyter kernel, where widgets can be shown."""
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return running is not None and hasattr(running, "kernel")
