"""A bisection as text, as a page, as a notebook and as data."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from nbdebug.core.text import plural, shortened
from nbdebug.engine.bisection.differences import COLUMNS
from nbdebug.errors import BadInput

if TYPE_CHECKING:
    from nbdebug.engine.bisection.ingredient import Ingredient
    from nbdebug.engine.bisection.result import Bisection

__all__ = ["as_html", "as_page", "as_text", "source_diff", "write", "written"]

MOST_LINES, SCREEN_LINES = 60, 16  # of a diff on a page, and in a terminal
MOST_TEXT = 80  # characters of a value in a terminal


def as_text(result: Bisection) -> str:
    """Return the answer, the two lines of what is named, and the table; it fits on a screen."""
    lines = [f"<nbdebug bisection: {result.says}>"]
    for row in result.named:
        lines += _sides(row)
        whole = _whole_of(result, row)
        lines += _sides(whole) if whole is not None else []
    others = [row.name for row in result.differences.rows if row.name not in _names(result)]
    if others:
        lines.append(f"  also different: {', '.join(others)}")
    lines += [f"  {note}" for note in result.notes]
    return "\n".join([*lines, f"  {_cost(result)}"])


def _sides(row: Ingredient) -> list[str]:
    """Return an ingredient on both sides with its places, and the diff between its sources."""
    lines = [f"  {row.name}"]
    for side, text, place in (("good", row.good, row.good_place), ("bad", row.bad, row.bad_place)):
        lines.append(f"    {side:<4}  {shortened(text, MOST_TEXT)}" + (f"  ({place}: {place.text})" if place else ""))
    diff = _first_lines(source_diff(row), SCREEN_LINES)[2:]
    return [*lines, *(["      - bad, + good:"] if diff else []), *(f"      {line}" for line in diff)]


def _whole_of(result: Bisection, row: Ingredient) -> Ingredient | None:
    """Return what a part without a source of its own belongs to: values are made by the code of the whole."""
    if row.good_place or row.bad_place or ": " not in row.name:
        return None
    name = row.name.partition(": ")[0]
    return next((other for other in result.differences.rows if other.name == name and other.bad_place), None)


def as_html(result: Bisection) -> str:
    """Return the result as the output of a notebook cell: the answer, the curves, both sources, the table."""
    from nbdebug.views.page import drawn, lines, page, table

    parts = [drawn(result.curves, result.says, width=640)] if result.curves.series else []
    for row in result.named:
        whole = _whole_of(result, row)
        parts += [_side_by_side(shown) for shown in (row, whole) if shown is not None]
    if result.differences.rows:
        parts.append("<p>What differs between the two:</p>")
        parts.append(table(COLUMNS, result.differences.table()))
    parts.append(lines([*result.notes, _cost(result)]))
    return page(result.says.replace("`", ""), *parts)


def source_diff(row: Ingredient) -> str:
    """Return the unified diff from bad's source to good's; empty where either is not known."""
    if not row.good_source or not row.bad_source or row.good_source == row.bad_source:
        return ""
    bad, good = (text.splitlines() for text in (row.bad_source, row.good_source))
    return "\n".join(
        difflib.unified_diff(bad, good, f"bad {row.bad_place or ''}", f"good {row.good_place or ''}", "", "", 3, "")
    )


def _names(result: Bisection) -> tuple[str, ...]:
    return result.cause.names if result.cause is not None else ()


def _first_lines(text: str, most: int) -> list[str]:
    lines = text.splitlines()
    return lines if len(lines) <= most else [*lines[:most], f"… {plural(len(lines) - most, 'more line')}"]


def _side_by_side(row: Ingredient) -> str:
    """Return both texts with their lines, and the diff of their sources."""
    cells = "".join(
        f'<td style="text-align:left;vertical-align:top;padding:2px 12px"><strong>{side}</strong>: {escape(text)}'
        + (f"<br><small>{escape(str(place))}</small><br><code>{escape(place.text)}</code>" if place else "")
        + "</td>"
        for side, text, place in (("good", row.good, row.good_place), ("bad", row.bad, row.bad_place))
    )
    code = "\n".join(_first_lines(source_diff(row), MOST_LINES))
    shown = f"<p>- bad, + good:</p><pre><code>{escape(code)}</code></pre>" if code else ""
    return f"<p><strong>{escape(row.name)}</strong></p><table><tr>{cells}</tr></table>{shown}"


def _cost(result: Bisection) -> str:
    trained = sum(1 for run in result.tried if run.steps > 1)
    return (
        f"{plural(trained, 'training')} on copies, {result.training_steps:,} steps in {result.seconds:.0f} s; "
        f"at most {result.steps} steps each, two random starts."
    )


def write(result: Bisection, path: Path) -> Path:
    """Write the result in the form that the file's ending asks for."""
    forms = {
        ".html": lambda: as_page(as_html(result)),
        ".ipynb": lambda: _notebook(result),
        ".json": lambda: as_json(result),
    }
    return written(forms, path)


def written(forms: Mapping[str, Callable[[], str]], path: Path) -> Path:
    """Write the text of the form that the file's ending asks for; a file is there as a whole or not at all."""
    form = forms.get(path.suffix.lower())
    if form is None:
        raise BadInput(
            f"{path.name!r} ends in {path.suffix or 'nothing'!r}",
            where="bisection.save",
            expected=f"a path that ends in one of {', '.join(forms)}",
            do="choose one of these suffixes",
        )
    text = form()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
    return path


def as_json(result: Bisection) -> str:
    """Return the result as data."""
    return json.dumps(result.to_dict(), allow_nan=False, indent=1) + "\n"


def as_page(body: str) -> str:
    """Return a page of its own around a result."""
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>nbdebug bisection</title>'
    style = "<style>:root{color-scheme:light dark}body{font-family:system-ui,sans-serif;margin:1.5rem}</style>"
    return f'<!doctype html><html lang="en"><head>{head}{style}</head><body>{body}</body></html>\n'


def _notebook(result: Bisection) -> str:
    import base64

    import nbformat
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

    from nbdebug.charts.draw import as_png

    cells = [new_markdown_cell(f"# {result.says}")]
    if result.curves.series:
        picture = {"image/png": base64.b64encode(as_png(result.curves)).decode("ascii"), "text/plain": result.says}
        cells.append(new_code_cell("# curves", outputs=[new_output("display_data", picture)]))
    for row in result.named:
        said = f"## {row.name}\n\n- good: `{row.good}` {row.good_place or ''}\n- bad: `{row.bad}` {row.bad_place or ''}"
        diff = source_diff(row)
        cells.append(new_markdown_cell(said + (f"\n\n```diff\n{diff}\n```" if diff else "")))
    page = {"text/html": result.differences._repr_html_(), "text/plain": str(result.differences)}
    cells.append(new_code_cell("# what differs", outputs=[new_output("display_data", page)]))
    for number, cell in enumerate(cells):
        cell["id"] = f"nbdebug-{number}"
    notebook = new_notebook(cells=cells, metadata={"language_info": {"name": "python"}})
    nbformat.validate(notebook)
    return f"{nbformat.writes(notebook)}\n"
