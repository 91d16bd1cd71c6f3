"""One question of the extension, one answer as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from nbdebug.errors import BadInput, NbdebugError
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


def _error_pattern(_: Mapping[str, Any]) -> Mapping[str, Any]:
    """Say which kind of torch's errors the last one is; an empty kind for all others."""
    if "torch" not in sys.modules:
        return {"kind": "", "says": ""}
    from nbdebug.engine.explain_error.recognizing import last_error, recognized

    error = last_error()
    pattern = recognized(error) if error is not None else None
    return {"kind": pattern.kind, "says": pattern.says} if pattern is not None else {"kind": "", "says": ""}


def _explain(_: Mapping[str, Any]) -> Mapping[str, Any]:
    """Explain the last error, in the forms that an output of a cell has."""
    from nbdebug.engine.explain_error import explain_error

    explained = explain_error()
    return {"data": {"text/html": explained._repr_html_(), "text/plain": str(explained)}}


def _reports(_: Mapping[str, Any]) -> Mapping[str, Any]:

    return {"reports": reports(variables(), outputs())}


def _export(details: Mapping[str, Any]) -> Mapping[str, Any]:

    return export(variables(), outputs(), details)


_QUESTIONS: dict[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
    "candidates": _candidates,
    "connect": _connect,
    "disconnect": _disconnect,
    "mishap": _error_pattern,
    "explain": _explain,
    "reports": _reports,
    "export": _export,
}


def reports(names: Mapping[str, Any], outputs: Mapping[int, Any]) -> list[dict[str, str]]:
    """Return everything that has a report: wizards, reports and watched trainings, by a key and in words."""
    return [{"key": key, "text": _described(key, holder)} for key, holder in _holders(names, outputs)]


def export(names: Mapping[str, Any], outputs: Mapping[int, Any], details: Mapping[str, Any]) -> dict[str, str]:
    """Write the report of what the key names, in the form that the path asks for."""
    holders = dict(_holders(names, outputs))
    key = str(details.get("key"))
    if key not in holders:
        raise BadInput(
            f"there is no report called {key!r} any more",
            where="Export report",
            expected="a wizard, a report or a watched training run in this kernel",
            do="run nbdebug.diagnose(model, loader), or a step of the wizard, and export again",
        )
    report = getattr(holders[key], "report", holders[key])
    whole = report() if callable(report) else report
    path = whole.save(str(details["path"]), include_samples=bool(details.get("include_samples", False)))
    return {"path": str(path)}


def _holders(names: Mapping[str, Any], outputs: Mapping[int, Any]) -> Iterator[tuple[str, Any]]:
    """Return what has a report, the newest first; each thing once."""
    seen: set[int] = set()
    panel = sys.modules.get("nbdebug.integrations.lab.panel")
    shown = panel.shown_wizard() if panel is not None else None
    cells = getattr(sys.modules.get("nbdebug.widgets.wizard"), "_shown_in", {})
    listed = [("the wizard of the panel", shown)] if shown is not None else []
    listed += [(f"a wizard in a cell ({number})", wizard) for number, wizard in enumerate(cells.values(), 1)][::-1]
    listed += list(names.items())[::-1] + [(f"Out[{number}]", value) for number, value in outputs.items()][::-1]
    for key, value in listed:
        if _has_report(value) and id(value) not in seen:
            seen.add(id(value))
            yield key, value


def _has_report(value: Any) -> bool:
    """Whether it is one of ours; what was never imported cannot be."""
    homes = {"nbdebug.report.report": "Report", "nbdebug.widgets.wizard": "Wizard", "nbdebug.watch.live": "Run"}
    kinds = tuple(getattr(sys.modules[home], kind) for home, kind in homes.items() if home in sys.modules)
    return isinstance(value, kinds)


def _described(key: str, holder: Any) -> str:
    kind = {"Report": "report", "Wizard": "wizard"}.get(type(holder).__name__, "watched training run")
    return f"{key}: {kind}" if "wizard" not in key else key
