"""A view with a front end of its own: plain data goes there, requests come back; without the bundle, plain ipywidgets.

`Viewer` and `PlainViewer` have the same interface: ``data``, ``detail``, ``status`` and ``static`` are written here, an
observable ``request`` is written there. `viewer` chooses between them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import anywidget
import ipywidgets
import traitlets

from nbdebug.widgets import bundle

__all__ = ["PlainViewer", "Viewer", "viewer", "viewer_class"]


class Viewer(anywidget.AnyWidget):
    """A view drawn by its bundle, see `viewer_class`; ``key`` names the static output that it takes the place of.

    ``selected`` is the layer that is selected in several views at once, and ``marks`` the severity of what was found,
    by the path of its layer.
    """

    data = traitlets.Dict().tag(sync=True)
    detail = traitlets.Dict().tag(sync=True)
    status = traitlets.Unicode().tag(sync=True)
    request = traitlets.Dict().tag(sync=True)
    key = traitlets.Unicode().tag(sync=True)
    selected = traitlets.Unicode().tag(sync=True)
    marks = traitlets.Dict().tag(sync=True)
    static = traitlets.Unicode()


@cache
def viewer_class(name: str, script: str, style: str) -> type[Viewer]:
    """Return the class of the view with this name.

    Each view needs a class of its own: anywidget keeps one style sheet per class name, and the view that is shown last
    would take the style sheets of all others off the page.
    """
    traits = {
        "_esm": traitlets.Unicode(script).tag(sync=True),
        "_css": traitlets.Unicode(style).tag(sync=True),
        "__module__": __name__,
        "__doc__": f"The view `{name}`, drawn by its own bundle.",
    }
    return type(f"{name.capitalize()}Viewer", (Viewer,), traits)


class PlainViewer(ipywidgets.VBox):
    """The static picture with a button for each request, for an installation without the bundle."""

    data = traitlets.Dict()
    detail = traitlets.Dict()
    status = traitlets.Unicode()
    request = traitlets.Dict()
    selected = traitlets.Unicode()
    marks = traitlets.Dict()
    static = traitlets.Unicode()

    def __init__(self, static: str, actions: Sequence[tuple[str, str]] = ()) -> None:
        self._count = itertools.count(1)
        self._picture, self._told = ipywidgets.HTML(static), ipywidgets.Label()
        self._buttons = [self._button(action, text) for action, text in actions]
        super().__init__([ipywidgets.HBox([*self._buttons, self._told]), self._picture])
        self.observe(lambda change: setattr(self._told, "value", change["new"]), "status")
        self.observe(lambda change: setattr(self._picture, "value", change["new"]), "static")

    def _button(self, action: str, text: str) -> ipywidgets.Button:
        button = ipywidgets.Button(description=text, layout=ipywidgets.Layout(width="auto"))
        button.on_click(partial(self._ask, action))
        return button

    def _ask(self, action: str, _: ipywidgets.Button) -> None:
        self.request = {"action": action, "count": next(self._count)}


def viewer(
    name: str, data: dict[str, Any], static: str, *, key: str = "", actions: Sequence[tuple[str, str]] = ()
) -> Viewer | PlainViewer:
    """Return the view with its own front end where that was built, else the static picture with plain buttons."""
    if bundle.is_usable(name):
        return viewer_class(name, *bundle.read(name))(data=data, key=key)
    return PlainViewer(static, actions)
