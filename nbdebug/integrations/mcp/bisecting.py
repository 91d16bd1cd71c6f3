"""In the child: bisect two setups or two revisions, and return the result as structured content."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbdebug.core.control import Control
from nbdebug.engine.bisection.given import given
from nbdebug.engine.bisection.showing import source_diff
from nbdebug.integrations.mcp.loading import function_of, load

if TYPE_CHECKING:
    from nbdebug.engine.bisection.ingredient import Ingredient
    from nbdebug.engine.bisection.result import Bisection, Cause
    from nbdebug.engine.bisection.revisions.answer import RevisionBisection

__all__ = ["bisected"]

TEXT = 3000  # characters of the text beside the structured content


def bisected(job: Mapping[str, Any], root: Path, control: Control) -> dict[str, Any]:
    """Do what a call asks for."""
    if "revisions" in job:
        return _of_revisions(job, root, control)
    from nbdebug.engine.bisection.bisecting import bisect

    sides = [given(lambda name=name: load(job[name])[0], name, control) for name in ("good", "bad")]
    metric = function_of(job["metric"]) if job.get("metric") else None
    result = bisect(*sides, metric=metric, steps=job.get("steps"), progress=False, control=control)
    return {**_common(result, result.stopped, str(result)), **_exchanged(result, pictures=bool(job.get("pictures")))}


def _of_revisions(job: Mapping[str, Any], root: Path, control: Control) -> dict[str, Any]:
    from nbdebug.engine.bisection.revisions.bisecting import RevisionFails, bisect_revisions

    target, metric = job["good"], job.get("metric")
    folder = Path(target["folder"])
    try:
        result = bisect_revisions(
            f"{target['module']}:{target['function']}",
            *job["revisions"],
            folder=root if folder == root / "src" else folder,
            metric=f"{metric['module']}:{metric['function']}" if metric else "",
            steps=job.get("steps"),
            time_limit=control.session_left,
            links=[str(root / link) for link in job["links"]],
            hear=control.on_progress or (lambda fraction, text: None),
        )
    except RevisionFails as error:
        says = {"type": error.where, "message": f"{error.seen} ({error.do})"}
        return {"status": "crashed", "error": says}
    return {**_common(result, result.stopped, str(result)), **_walked(result, pictures=bool(job.get("pictures")))}


def _common(result: Bisection | RevisionBisection, stopped: str, text: str) -> dict[str, Any]:
    return {
        "status": "partial" if stopped else "completed",
        "outcome": result.outcome,
        "says": result.says,
        "notes": list(result.notes),
        "text": text if len(text) <= TEXT else f"{text[:TEXT]}\n…",
    }


def _exchanged(result: Bisection, *, pictures: bool) -> dict[str, Any]:
    """Return what came of an exchange."""
    from nbdebug.charts.draw import as_png
    from nbdebug.integrations.mcp.structured import encoded

    drawn = as_png(result.curves) if pictures and result.curves.series else b""
    rows = [*result.differences.rows, *(row for row in result.named if row not in result.differences.rows)]
    return {
        "measure": result.measure,
        "good_value": _number(result.good_value),
        "bad_value": _number(result.bad_value),
        "causes": [_cause(cause) for cause in (*result.causes, *result.also)],
        "differences": [_difference(row) for row in rows],
        "training_steps": result.training_steps,
        "pictures": encoded([("what each comes to", drawn)] if drawn else []),
    }


def _walked(result: RevisionBisection, *, pictures: bool) -> dict[str, Any]:
    """Return what came of two revisions: of the exchange, of the walk, or of both."""
    found = _exchanged(result.exchange, pictures=pictures) if result.exchange is not None else {}
    walk = result.walk
    if walk is None:
        return found
    return {
        **found,
        "measure": walk.measure,
        "training_steps": walk.training_steps + found.get("training_steps", 0),
        "first_bad": walk.first_bad.to_dict() if walk.first_bad is not None else None,
        "suspects": [revision.to_dict() for revision in walk.suspects],
        "walked": [{**step.to_dict(), **step.revision.to_dict()} for step in walk.steps],
        "commit_diff": walk.diff,
    }


def _cause(cause: Cause) -> dict[str, Any]:
    parts = [part.name.partition(": ")[2] for part in cause.parts]
    value = _number(cause.value)
    return {"ingredients": list(cause.names), "parts": parts, "value": value, "confirmed": cause.is_confirmed}


def _difference(row: Ingredient) -> dict[str, Any]:
    places = {
        f"{side}_place": {"file": place.file, "line": place.line, "text": place.text} if place is not None else None
        for side, place in (("good", row.good_place), ("bad", row.bad_place))
    }
    known = {"ingredient": row.name, "good": row.good, "bad": row.bad, "exchanged": row.is_exchanged}
    return {**known, "note": row.kept or row.note, "diff": source_diff(row) or None, **places}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
