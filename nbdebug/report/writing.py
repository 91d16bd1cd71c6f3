"""Write a report to a file, in the form that the file's ending asks for, and read back the one that is data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from nbdebug.errors import BadInput
from nbdebug.report.prepare import prepared
from nbdebug.report.report import Report

__all__ = ["load", "write"]


def write(report: Report, path: Path, *, include_samples: bool = False) -> Path:
    """Write the report; the file appears whole or not at all."""
    form = _FORMS.get(path.suffix.lower())
    if form is None:
        raise BadInput(
            f"{path.name!r} ends in {path.suffix or 'nothing'!r}",
            where="report.save",
            expected=f"a path that ends in one of {', '.join(_FORMS)}",
            do="choose one of these endings",
        )
    text = form(report, include_samples)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
    return path


def load(path: str | Path) -> Report:
    """Read a report that was saved as .json."""
    return Report.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))


def _html(report: Report, include_samples: bool) -> str:
    from nbdebug.report.page import as_page

    return as_page(report, include_samples=include_samples)


def _ipynb(report: Report, include_samples: bool) -> str:
    from nbdebug.report.notebook import as_notebook

    return as_notebook(report, include_samples=include_samples)


def _json(report: Report, include_samples: bool) -> str:
    return json.dumps(prepared(report, include_samples=include_samples).to_dict(), indent=1, allow_nan=False)


def _md(report: Report, include_samples: bool) -> str:
    from nbdebug.report.markdown import as_summary

    return as_summary(report)


_FORMS: dict[str, Callable[[Report, bool], str]] = {".html": _html, ".ipynb": _ipynb, ".json": _json, ".md": _md}
