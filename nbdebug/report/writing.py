"""Write a report to a file, in the form that the file's ending asks for, and read back the one that is data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from nbdebug.errors import BadInput
from nbdebug.report.prepare import prepared
from nbdebug.report.report import Report

__all__ = ["as_json", "load", "write"]


def write(report: Report, path: Path, *, include_samples: bool = False) -> Path:
    """Write the report; the file appears whole or not at all."""
    form = _FORMS.get(path.suffix.lower())
    if form is None:
        raise BadInput(
            f"{path.name!r} ends in {path.suffix or 'nothing'!r}",
            where="report.save",
            expected=f"a path that ends in one of {', '.join(_FORMS)}",
            do="choose one of these suffixes",
        )
    text = form(report, include_samples, path.parent)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
    return path


def load(path: str | Path) -> Report:
    """Read a report that was saved as .json; it holds plain data, so that reading it runs nothing."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _foreign(path, f"it is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise _foreign(path, f"it contains a {type(data).__name__}")
    return Report.from_dict(data)


def _foreign(path: str | Path, seen: str) -> BadInput:
    return BadInput(
        seen,
        where=f"nbdebug.load({Path(path).name!r})",
        expected="a .json file written by report.save",
        do='save the report as data: report.save("report.json")',
    )


def _html(report: Report, include_samples: bool, folder: Path) -> str:
    from nbdebug.report.page import as_page

    return as_page(report, include_samples=include_samples, folder=folder)


def _ipynb(report: Report, include_samples: bool, folder: Path) -> str:
    from nbdebug.report.notebook import as_notebook

    return as_notebook(report, include_samples=include_samples, folder=folder)


def as_json(report: Report, include_samples: bool = False, folder: Path | None = None) -> str:
    """Return the report as data; docs/report-schema.md describes it. Indented, long curves would be ten times as
    long.
    """
    return json.dumps(prepared(report, include_samples=include_samples).to_dict(), allow_nan=False) + "\n"


def _md(report: Report, include_samples: bool, folder: Path) -> str:
    from nbdebug.report.markdown import as_summary

    return as_summary(report)


def _sarif(report: Report, include_samples: bool, folder: Path) -> str:
    from nbdebug.report.sarif import as_sarif

    return as_sarif(report)


_FORMS: dict[str, Callable[[Report, bool, Path], str]] = {
    ".html": _html,
    ".ipynb": _ipynb,
    ".json": as_json,
    ".md": _md,
    ".sarif": _sarif,
}
