"""*I have a version that works*: bisect the wizard's set-up against another one, on the first screen.

The other one is a variable of the notebook (a dict of the arguments, an object that has them, a function that makes
it), or "package.module:function". It runs in the wizard's own queue, so that Stop and the progress are the wizard's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ipywidgets as widgets

from nbdebug.core.journal import Event
from nbdebug.core.shell import running_shell
from nbdebug.engine.session import Session
from nbdebug.errors import BadInput
from nbdebug.setup.user_code import is_users_function
from nbdebug.widgets.boxes import fitting, new_button, row, wrapped
from nbdebug.widgets.layout import Face
from nbdebug.widgets.screens import prose

__all__ = ["Bisect", "Bisecting"]

HOW = (
    "A variable of this notebook that holds the arguments of the version that works as a dict, or a function that "
    "returns them, or <code>package.module:function</code>. It is <code>good</code>, yours is <code>bad</code>: "
    "what differs is exchanged on copies until yours learns."
)
MOST_OFFERED = 30
VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True)
class Bisect:
    """The job of bisecting: the version that works, and who is told of the result."""

    good: Any = field(compare=False)
    done: Callable[[Any], None] = field(compare=False)

    def __str__(self) -> str:
        """Say what is done."""
        return "what broke it"

    def run(self, session: Session, tell: Callable[[Event], None]) -> str:
        """Bisect, and return the answer in a sentence."""
        from nbdebug.engine.bisection.bisecting import bisect

        control = session.control.shared()
        control.on_progress = lambda fraction, text: tell(Event("progress", "bisect", fraction, text))
        result = bisect(self.good, session.setup, progress=False, control=control)
        self.done(result)
        return result.says.replace("`", "")


class Bisecting:
    """The part of the first screen that asks for a version that works, and shows what came of it."""

    def __init__(self, face: Face, start: Callable[[Sequence[Any]], None]) -> None:
        self.result: Any = None  # the newest `Bisection`
        self._face, self._start = face, start
        self.open = new_button("I have a version that works", "quiet")
        self.name = widgets.Combobox(
            placeholder="good_setup", ensure_option=False, layout=widgets.Layout(flex="1 1 160px")
        )
        self.name.continuous_update = True
        self.begin = new_button("Find what broke it", "primary")
        self.shown = widgets.HTML(layout=row())
        how = widgets.HTML(fitting(prose(f"<span class='nbdebug-quiet'>{HOW}</span>")), layout=row())
        asked = widgets.HBox([self.name, self.begin], layout=wrapped(align_items="center"))
        self._form = widgets.VBox([how, asked], layout=row(display="none"))
        self._form.add_class("nbdebug-works")
        face.works.children = (self.open, self._form, self.shown)
        face.on_click(self.open, self._unfold)
        face.on_click(self.begin, self._bisect)

    def clear(self) -> None:
        """Forget a result that is about another set-up."""
        self.result, self.shown.value = None, ""

    def _unfold(self) -> None:
        is_hidden = self._form.layout.display == "none"
        self._form.layout.display = None if is_hidden else "none"
        self.name.options = tuple(sorted(_offered(_namespace())))[:MOST_OFFERED]

    def _bisect(self) -> None:
        good = _named(self.name.value.strip(), _namespace())
        self.clear()
        self._start([Bisect(good, self._show)])

    def _show(self, result: Any) -> None:
        self.result = result
        self.shown.value = fitting(result._repr_html_())


def _named(name: str, known: Mapping[str, Any]) -> Any:
    """Return what a name stands for; a name with a colon is imported by `bisect` itself."""
    if ":" in name:
        return name
    if name in known:
        return known[name]
    offered = ", ".join(sorted(_offered(known))[:4])
    raise BadInput(
        f"there is no variable {name!r}" if name else "it is empty",
        where="the version that works",
        expected="a variable of this notebook, or package.module:function",
        do=f"choose {offered}" if offered else 'write good_setup = {"model": …, "loader": …} in a cell first',
    )


def _namespace() -> Mapping[str, Any]:

    shell = running_shell()
    found: Mapping[str, Any] = getattr(shell, "user_ns", {})
    return found


def _offered(known: Mapping[str, Any]) -> list[str]:
    """Return the variables that may be a set-up: dicts and objects with a model and a loader, and functions."""
    return [name for name, value in list(known.items()) if not name.startswith("_") and _may_be(value)]


def _may_be(value: Any) -> bool:
    if isinstance(value, Mapping):
        return "model" in value and "loader" in value
    if is_users_function(value):
        required = [
            p for p in inspect.signature(value).parameters.values() if p.default is p.empty and p.kind not in VARIABLE
        ]
        return not required
    held = getattr(value, "__dict__", None)
    return isinstance(held, dict) and "model" in held and "loader" in held
