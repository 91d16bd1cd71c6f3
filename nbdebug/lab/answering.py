"""One question of the extension, one answer as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from nbdebug.errors import NbdebugError

__all__ = ["Answer", "answer"]


class Answer:
    """A JSON value that the display machinery of IPython hands over as it is."""

    def __init__(self, value: Mapping[str, Any]) -> None:
        self.value = value

    def _repr_json_(self) -> Mapping[str, Any]:
        return self.value

    def __repr__(self) -> str:
        """Give a short text, which nobody reads."""
        return "<an answer of nbdebug to its JupyterLab extension>"


def answer(question: str, details: str = "{}") -> Answer:
    """Answer a question by its name; what went wrong is an answer, too, so that the extension can say it."""
    try:
        return Answer(_QUESTIONS[question](json.loads(details)))
    except NbdebugError as error:
        return Answer({"error": str(error)})
    except Exception as error:
        return Answer({"error": f"{type(error).__name__}: {error}"})


def _candidates(_: Mapping[str, Any]) -> Mapping[str, Any]:
    if "torch" not in sys.modules:  # without torch there is nothing to find, and importing it takes seconds
        return {"model": [], "loader": [], "loss_fn": [], "optimizer": []}
    from nbdebug.lab.candidates import candidates

    return candidates(variables())


def variables() -> dict[str, Any]:
    """Give the notebook's variables that the user made, the newest last."""
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is None:
        return {}
    hidden = shell.user_ns_hidden
    return {
        name: value
        for name, value in list(shell.user_ns.items())
        if not name.startswith("_") and hidden.get(name, _NOTHING) is not value
    }


_NOTHING = object()
_QUESTIONS: dict[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
    "candidates": _candidates,
}
