"""Which reports there are to export, and writing one of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from nbdebug.errors import BadInput

__all__ = ["export", "reports"]


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
