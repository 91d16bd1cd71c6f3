"""A sheet as PNG, on white, for places that show pictures only."""

from __future__ import annotations

import importlib.util
import io
import itertools
import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbdebug.charts.drawing.sheet import INK, Box, Pixels, Sheet, Stroke, Words
from nbdebug.core.text import clean_text

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["png_of"]

SCALE = 2  # sharp on dense screens
FINER = 2  # curves are drawn larger still and then reduced, because the lines of the library have hard edges
DARK = (38, 38, 38)


def png_of(sheet: Sheet) -> bytes:
    """Draw the sheet at twice its size."""
    from PIL import Image, ImageDraw

    finer = FINER if any(isinstance(mark, Stroke) and len(mark.points) > 2 for mark in sheet.marks) else 1
    zoom = SCALE * finer
    canvas = Image.new("RGB", (math.ceil(sheet.width * zoom), math.ceil(sheet.height * zoom)), "white")
    pen = ImageDraw.Draw(canvas, "RGBA")
    for mark in sheet.marks:
        if not isinstance(mark, Words):
            _DRAWN[type(mark)](canvas, pen, mark, zoom)
    canvas = canvas.reduce(finer) if finer > 1 else canvas
    pen = ImageDraw.Draw(canvas)
    for mark in sheet.marks:
        if isinstance(mark, Words):
            _words(pen, mark)
    buffer = io.BytesIO()
    canvas.quantize(96, method=Image.Quantize.FASTOCTREE).save(buffer, format="png")
    return buffer.getvalue()


def _color(name: str, opacity: float = 1.0) -> tuple[int, int, int, int]:
    red, green, blue = DARK if name == INK else (int(name[i : i + 2], 16) for i in (1, 3, 5))
    return red, green, blue, round(255 * opacity)


def _box(canvas: Image, pen: Any, mark: Box, zoom: int) -> None:
    corner = (zoom * mark.x, zoom * mark.y)
    if mark.width * zoom >= 1:
        pen.rectangle(
            (*corner, zoom * (mark.x + mark.width) - 1, max(corner[1], zoom * (mark.y + mark.height) - 1)),
            fill=_color(mark.color, mark.opacity),
        )


def _stroke(canvas: Image, pen: Any, mark: Stroke, zoom: int) -> None:
    width, color = max(1, round(zoom * mark.width)), _color(mark.color, mark.opacity)
    for run in mark.runs():
        points = [(zoom * x, zoom * y) for x, y in run]
        for piece in _dashes(points, mark.dash, zoom) if mark.dash else [points]:
            pen.line(piece, fill=color, width=width, joint="curve" if len(piece) < 300 else None)


def _dashes(points: list[tuple[float, float]], dash: tuple[float, float], zoom: int) -> list[list[tuple[float, float]]]:
    """Cut a line into pieces of the dash's length, measured along the line."""
    pieces: list[list[tuple[float, float]]] = [[points[0]]]
    on, left = True, dash[0] * zoom
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        length, done = math.hypot(x1 - x0, y1 - y0), 0.0
        while length - done > left:
            done += left
            cut = (x0 + (x1 - x0) * done / length, y0 + (y1 - y0) * done / length)
            pieces[-1].append(cut)
            on, left = not on, dash[int(on)] * zoom
            pieces.append([cut])
        left -= length - done
        pieces[-1].append((x1, y1))
    return [piece for piece in pieces[::2] if len(piece) > 1]


def _pixels(canvas: Image, pen: Any, mark: Pixels, zoom: int) -> None:
    from PIL import Image

    picture = Image.fromarray(mark.values).convert("RGB")
    size = (max(1, round(zoom * mark.width)), max(1, round(zoom * mark.height)))
    canvas.paste(picture.resize(size, Image.Resampling.NEAREST), (round(zoom * mark.x), round(zoom * mark.y)))


def _words(pen: Any, mark: Words) -> None:
    anchor = {"start": "ls", "middle": "ms", "end": "rs"}[mark.anchor]
    place = (SCALE * mark.x, SCALE * mark.y)
    # This font is wider than those of pages.
    pen.text(
        place, clean_text(mark.text), fill=_color(mark.color), font=_font(0.9 * mark.size, mark.bold), anchor=anchor
    )


@cache
def _font(size: float, bold: bool) -> Any:
    """Take the font that matplotlib brings along, without loading matplotlib."""
    from PIL import ImageFont

    home = importlib.util.find_spec("matplotlib")
    folder = Path(home.origin or "").parent if home else Path()
    path = folder / "mpl-data" / "fonts" / "ttf" / f"DejaVuSans{'-Bold' if bold else ''}.ttf"
    if not path.is_file():
        return ImageFont.load_default(SCALE * size)
    return ImageFont.truetype(str(path), SCALE * size, layout_engine=ImageFont.Layout.BASIC)


_DRAWN: dict[type, Any] = {Box: _box, Stroke: _stroke, Pixels: _pixels}
