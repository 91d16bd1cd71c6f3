"""One question of the extension, one answer as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from nbdebug.errors import NbdebugError
from nbdebug.integrations.lab.variables import outputs, variables

__all__ = ["Answer", "answer"]


class Answer:
    """A JSON value that the display machinery of IPython hands over as it is."""

    def __init__(self, value: Mapping[str, Any]) -> None:
        self.value = value

    def _repr_json_(self) -> Mapping[str, Any]:
        return self.value

    def __repr__(self) -> str:
        """Return a short text, which nobody reads."""
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
    from nbdebug.integrations.lab.candidates import candidates

    return candidates(variables())


def _connect(details: Mapping[str, Any]) -> Mapping[str, Any]:
    from nbdebug.integrations.lab import channel

    return channel.connect(details)


def _disconnect(details: Mapping[str, Any]) -> Mapping[str, Any]:
    from nbdebug.integrations.lab import channel

    answered = channel.disconnect(details)
    panel = sys.modules.get("nbdebug.integrations.lab.panel")  # the widgets are imported once a wizard is opened
    if panel is not None and not channel.is_heard():
        panel.stop_following()
    return answered


def _mishap(_: Mapping[str, Any]) -> Mapping[str, Any]:
    """Say which kind of torch's errors the last one is; an empty kind for all others."""
    if "torch" not in sys.modules:
        return {"kind": "", "says": ""}
    from nbdebug.engine.explain_error.recognizing import last_error, recognized

    error = last_error()
    mishap = recognized(error) if error is not None else None
    return {"kind": mishap.kind, "says": mishap.says} if mishap is not None else {"kind": "", "says": ""}


def _explain(_: Mapping[str, Any]) -> Mapping[str, Any]:
    """Explain the last error, in the forms that an output of a cell has."""
    from nbdebug.engine.explain_error import explain_error

    explained = explain_error()
    return {"data": {"text/html": explained._repr_html_(), "text/plain": str(explained)}}


def _reports(_: Mapping[str, Any]) -> Mapping[str, Any]:
    from nbdebug.integrations.lab.exporting import reports

    return {"reports": reports(variables(), outputs())}


def _export(details: Mapping[str, Any]) -> Mapping[str, Any]:
    from nbdebug.integrations.lab.exporting import export

    return export(variables(), outputs(), details)


_QUESTIONS: dict[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
    "candidates": _candidates,
    "connect": _connect,
    "disconnect": _disconnect,
    "mishap": _mishap,
    "explain": _explain,
    "reports": _reports,
    "export": _export,
}
