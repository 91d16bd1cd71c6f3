"""Write a report to a file, in the form that the file's ending asks for."""

from __future__ import annotations

import json
from pathlib import Path

from nbdebug.errors import BadInput
from nbdebug.report.report import Report

__all__ = ["load", "write"]


def write(report: Report, path: Path, *, include_samples: bool = False) -> Path:
    """Write the report; the file appears whole or not at all."""
    text = _text(report, path, include_samples)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
    return path


def load(path: str | Path) -> Report:
    """Read a report that was saved as .json."""
    return Report.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))


def _text(report: Report, path: Path, include_samples: bool) -> str:
    if path.suffix == ".json":
        return json.dumps(report.to_dict(), indent=1, allow_nan=False)
    if path.suffix == ".html":
        from nbdebug.report.page import as_page

        return as_page(report)
    if path.suffix == ".ipynb":
        from nbdebug.report.notebook import as_notebook

        return as_notebook(report)
    raise BadInput(
        f"{path.name!r} ends in {path.suffix or 'nothing'!r}",
        where="report.save",
        expected="a path that ends in .html, .ipynb or .json",
        do="choose one of these endings",
    )
