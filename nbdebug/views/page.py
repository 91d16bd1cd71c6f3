"""Static pages of the viewers, from exhibits and tables; everything is escaped, nothing is fetched."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from nbdebug.charts import Exhibit
from nbdebug.charts.draw import as_svg_address
from nbdebug.charts.pixels import png_bytes
from nbdebug.core.text import aligned, clean_text, figure

__all__ = ["address_of", "aligned", "code", "drawn", "lines", "number", "page", "pictures", "table"]

RIGHT = ' style="text-align:right"'


def page(title: str, *parts: str) -> str:
    """Put the parts under a title."""
    return f'<div style="max-width:960px;overflow-x:auto"><p><strong>{_text(title)}</strong></p>{"".join(parts)}</div>'


def lines(texts: Iterable[str], *, numbered: bool = False) -> str:
    """Return short texts one under another."""
    listed, kind = "".join(f"<li>{_text(text)}</li>" for text in texts), "ol" if numbered else "ul"
    return f"<{kind}>{listed}</{kind}>" if listed else ""


def code(text: str) -> str:
    """Return lines of code, to be copied."""
    return f"<pre><code>{_text(text)}</code></pre>"


def drawn(exhibit: Exhibit, label: str, width: int = 560) -> str:
    """Return an exhibit as an image, which sites that show notebooks leave alone."""
    address = as_svg_address(exhibit, label)
    return (
        f'<p><img src="{address}" alt="{_text(label)}" width="{width}" style="max-width:100%"></p>' if address else ""
    )


def pictures(items: Sequence[tuple[np.ndarray, str]], size: int = 96) -> str:
    """Return pictures with a caption each, as many in a row as there is room for."""
    cells = "".join(
        f'<div style="display:inline-block;vertical-align:top;width:{size + 12}px;font-size:12px;margin:0 6px 8px 0">'
        f'<img src="{address_of(pixels)}" alt="{_text(caption)}" width="{size}" style="image-rendering:pixelated">'
        f"<br>{_text(caption)}</div>"
        for pixels, caption in items
    )
    return f"<div>{cells}</div>"


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return rows of plain values under named columns."""
    head = "".join(f"<th>{_text(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(_cell(figure(value)) for value in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(text: str) -> str:
    """Put numbers to the right, so that their sizes can be seen."""
    is_number = bool(text) and text.lstrip("-−")[:1].isdigit()
    return f"<td{RIGHT if is_number else ''}>{_text(text)}</td>"


def number(value: float | None, digits: int = 4) -> float | str | None:
    """Return a number that JSON can hold, with a few digits; what it cannot hold is named as JavaScript reads it."""
    if value is None:
        return None
    if math.isnan(value):
        return "NaN"
    return float(f"{float(value):.{digits}g}") if math.isfinite(value) else f"{'-' if value < 0 else ''}Infinity"


def address_of(pixels: np.ndarray) -> str:
    """Return a picture as an address that needs no file."""
    return f"data:image/png;base64,{base64.b64encode(png_bytes(pixels)).decode('ascii')}"


def _text(text: object) -> str:
    return escape(clean_text(text))
