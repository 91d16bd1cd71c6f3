"""The report: findings with the most likely cause first, one result for each check, and the ways to write it down."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from nbdebug.charts import Lines, exhibit_from_dict
from nbdebug.core.finding import Finding, Place, Result, plain
from nbdebug.core.journal import Stopped
from nbdebug.core.renamed import current_id
from nbdebug.errors import BadInput

if TYPE_CHECKING:
    import pandas as pd

    from nbdebug.core.verification import Verification
    from nbdebug.report.difference import Difference

__all__ = ["SCHEMA", "Report"]

SCHEMA = 1


@dataclass(frozen=True)
class Report:
    """What was examined, what was found, and what was not looked at and why."""

    findings: list[Finding]
    results: list[Result]
    setup: Mapping[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    timings: Mapping[str, float] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    made: str = ""
    places: Mapping[str, Place] = field(default_factory=dict)
    symptom: str = ""
    answers: Mapping[str, Any] = field(default_factory=dict)
    curves: tuple[Lines, ...] = ()
    not_run: tuple[str, ...] = ()  # checks that belong to the run and have no result yet
    stopped: Stopped = ""

    @property
    def worst(self) -> str:
        """The gravest severity found: bug, suspect, note, or an empty text when nothing was found."""
        kinds = {finding.severity for finding in self.findings}
        return next((kind for kind in ("bug", "suspect", "note") if kind in kinds), "")

    @property
    def alarms(self) -> list[Finding]:
        """The findings that claim that something is wrong."""
        return [finding for finding in self.findings if finding.is_alarm]

    def result(self, check: str) -> Result:
        """Return the result of one check."""
        for result in self.results:
            if result.check == current_id(check):
                return result
        raise BadInput(
            f"this report has no result for {check!r}",
            where="report.result",
            expected=f"one of the {len(self.results)} checks that ran",
            do="report.to_frame() lists them",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the whole report as JSON can hold it; `from_dict` reads it back."""
        return {
            "schema": SCHEMA,
            "findings": [finding.to_dict() for finding in self.findings],
            "results": [self._result_to_dict(result) for result in self.results],
            "subject": plain(self.setup),
            "notes": plain(self.notes),
            "timings": plain(self.timings),
            "environment": plain(self.environment),
            "seconds": self.seconds,
            "made": self.made,
            "places": {plain(where): place.to_dict() for where, place in self.places.items()},
            "symptom": self.symptom,
            "answers": plain(self.answers),
            "curves": [curve.to_dict() for curve in self.curves],
            "not_run": list(self.not_run),
            "stopped": self.stopped,
        }

    def _result_to_dict(self, result: Result) -> dict[str, Any]:
        """Write a result with the places of its findings in this report instead of a second copy of them."""
        places = {(f.check, f.where, f.says): place for place, f in reversed(list(enumerate(self.findings)))}
        found = [places.get((f.check, f.where, f.says), f.to_dict()) for f in result.findings]
        return {**replace(result, findings=()).to_dict(), "findings": found}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Report:
        """Read back what `to_dict` wrote; a newer schema is refused with both numbers."""
        schema = data.get("schema")
        if schema != SCHEMA:
            newer = isinstance(schema, int) and schema > SCHEMA
            raise BadInput(
                f"the report has schema {schema!r}" if schema is not None else "this is not an nbdebug report",
                where="Report.from_dict",
                expected=f"schema {SCHEMA}",
                do="install a newer nbdebug" if newer else "save the report again with this version of nbdebug",
            )
        try:
            findings = [Finding.from_dict(item) for item in data["findings"]]
            return cls(
                findings=findings,
                results=[_result_from_dict(item, findings) for item in data["results"]],
                setup=data["subject"],
                **{key: data[key] for key in ("notes", "timings", "environment", "seconds", "made")},
                places={where: Place(**place) for where, place in data.get("places", {}).items()},
                curves=tuple(_curve(item) for item in data.get("curves", ())),
                symptom=str(data.get("symptom", "")),
                answers=dict(data.get("answers", {})),
                not_run=tuple(str(check) for check in data.get("not_run", ())),
                stopped=_stopped(data),
            )
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise BadInput(
                f"the report is broken: {type(error).__name__}: {error}",
                where="Report.from_dict",
                expected="the output of report.to_dict(), as described in docs/report-schema.md",
                do="save the report again",
            ) from error

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each finding, and one for each check that found nothing or did not run."""
        import pandas as pd

        rows = [
            {"check": f.check, "status": "found", "severity": f.severity, "where": f.where, "says": f.says}
            for f in self.findings
        ]
        rows += [
            {"check": r.check, "status": r.status, "severity": "", "where": "", "says": r.reason}
            for r in self.results
            if not r.findings
        ]
        frame: pd.DataFrame = pd.DataFrame(rows, columns=["check", "status", "severity", "where", "says"])
        return frame

    def save(self, path: str | Path, *, include_samples: bool = False) -> Path:
        """Write the report in the form that the ending of the path asks for.

        A page (.html), a notebook (.ipynb), data (.json), a summary for a pull request (.md) or findings for a CI
        (.sarif). Folders in file paths are left out, and so are pictures of your samples unless you ask for them.
        """
        from nbdebug.report.writing import write

        return write(self, Path(path), include_samples=include_samples)

    def to_markdown(self, max_chars: int | None = None) -> str:
        """Return the report as Markdown to paste into a chat or an issue.

        With `max_chars` it is no longer than that: the cause and its fix stay, and the last line names what was left
        out. As in a saved report, folders in file paths and samples of your data are left out.
        """
        from nbdebug.report.brief import as_brief

        return as_brief(self, max_chars)

    def verify(self, most: int = 1, *, time_limit: float | None = None, progress: bool = True) -> list[Verification]:
        """Try the remedies of the most likely causes on a copy: of the first so many that have one to try.

        What comes of it stands in the report from then on. Nothing is applied to your own objects.
        """
        able = [finding for finding in self.alarms if any(remedy.verifiable for remedy in finding.remedies)]
        chosen = able[:most] or self.alarms[:1]  # which says why it cannot be tried
        return [finding.verify(time_limit=time_limit, progress=progress) for finding in chosen]

    def diff(self, after: Report) -> Difference:
        """Compare with a later report: what was fixed, what is new, what is still there, what was not looked at."""
        from nbdebug.report.difference import difference

        return difference(self, after)

    def __str__(self) -> str:
        """Return the report on one screen: the cause with its fix, and a line for each other finding."""
        from nbdebug.report.screen import as_screen

        return as_screen(self)

    def __repr__(self) -> str:
        """Return one line."""
        counts = ", ".join(
            f"{sum(r.status == s for r in self.results)} {s}" for s in ("found", "clean", "skipped", "crashed")
        )
        first = f"; most likely cause: {self.findings[0].check}" if self.alarms else ""
        return f"<nbdebug report: {len(self.results)} checks: {counts}{first}>"

    def show(self) -> None:
        """Print all of the report, in color where the output is a terminal; `print(report)` fits on a screen."""
        from nbdebug.report.terminal import show

        show(self)

    def _repr_html_(self) -> str:
        from nbdebug.report.page import as_fragment

        return as_fragment(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from nbdebug.report.prepare import prepared
        from nbdebug.report.screen import as_screen

        # Notebooks are sent to others, so that both forms leave the machine as a saved report does.
        return {"text/plain": as_screen(prepared(self)), "text/html": self._repr_html_()}


def _curve(data: Mapping[str, Any]) -> Lines:
    curve = exhibit_from_dict(data)
    if not isinstance(curve, Lines):
        raise ValueError(f"unknown kind of curve: {data.get('kind')!r}")
    return curve


def _stopped(data: Mapping[str, Any]) -> Stopped:
    """Read what ended the run; files of before this was written down have it only as the sentence of a note."""
    if "stopped" in data:
        kind: Stopped = data["stopped"]
        if kind not in get_args(Stopped):
            raise ValueError(f"stopped is {kind!r}")
        return kind
    notes = [str(note) for note in data["notes"]]
    if not any(note.startswith("The run was stopped: ") for note in notes):
        return ""
    return "interrupted" if "The run was stopped: interrupted." in notes else "cancelled"


def _result_from_dict(data: Mapping[str, Any], findings: list[Finding]) -> Result:
    found = [findings[item] if isinstance(item, int) else Finding.from_dict(item) for item in data["findings"]]
    return replace(Result.from_dict({**data, "findings": []}), findings=tuple(found))


def environment() -> dict[str, str]:
    """Return the versions that a reader needs to repeat the run."""
    import torch

    import nbdebug

    return {
        "nbdebug": nbdebug.__version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def now() -> str:
    """Return the time of making, to the second, in universal time."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
