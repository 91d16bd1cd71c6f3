"""A sheet of marks (boxes, strokes, words, pixels), and the sheet as SVG that takes the colors of its page.

A plotting library would take a tenth of a second for each picture and change global settings on the way; a report of
a report of a deep model has dozens of images and is made inside the user's notebook.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal

import numpy as np

from nbdebug.core.text import clean_text

__all__ = [
    "BLUE",
    "COLORS",
    "GREEN",
    "INK",
    "VERMILION",
    "WIDTH",
    "Anchor",
    "Box",
    "Pixels",
    "Sheet",
    "Stroke",
    "Words",
    "clipped",
    "width_of",
]

INK = "currentColor"
BLUE, VERMILION, GREEN = "#0072B2", "#D55E00", "#009E73"  # Okabe and Ito: color-blind people can tell them apart
COLORS = (BLUE, "#E69F00", GREEN, "#CC79A7", VERMILION, "#56B4E9", "#8C8C8C")
WIDTH = 420.0  # so that the words are legible when a phone shrinks the picture
WIDEST_DIGIT = 0.64  # of the size: DejaVu Sans and Verdana, which stand in for system-ui on many machines
Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True)
class Box:
    """A filled rectangle."""

    x: float
    y: float
    width: float
    height: float
    color: str
    opacity: float = 1.0


@dataclass(frozen=True)
class Stroke:
    """A line through points; a point that is not finite interrupts it."""

    points: Sequence[tuple[float, float]]
    color: str
    width: float = 1.6
    dash: tuple[float, float] | None = None
    opacity: float = 1.0

    def runs(self) -> list[list[tuple[float, float]]]:
        """Return the stretches without interruption; a single point becomes a short dash."""
        runs: list[list[tuple[float, float]]] = [[]]
        for x, y in self.points:
            if math.isfinite(x) and math.isfinite(y):
                runs[-1].append((x, y))
            elif runs[-1]:
                runs.append([])
        return [
            run if len(run) > 1 else [(run[0][0] - 1.5, run[0][1]), (run[0][0] + 1.5, run[0][1])] for run in runs if run
        ]


@dataclass(frozen=True)
class Words:
    """One line of text; y is the base line."""

    x: float
    y: float
    text: str
    size: float = 11.5
    anchor: Anchor = "start"
    bold: bool = False
    color: str = INK


@dataclass(frozen=True)
class Pixels:
    """A picture of its own within the sheet, each of its pixels a sharp rectangle."""

    x: float
    y: float
    width: float
    height: float
    values: np.ndarray


@dataclass
class Sheet:
    """Marks in the order of drawing."""

    height: float = 0.0
    width: float = WIDTH
    marks: list[Box | Stroke | Words | Pixels] = field(default_factory=list)

    def add(self, *marks: Box | Stroke | Words | Pixels) -> None:
        """Draw these on top of what is there."""
        self.marks.extend(marks)

    def to_svg(self, label: str, ink: str = INK) -> str:
        """Return the sheet as markup, with a text for those who cannot see it."""
        body = "".join(_SVG[type(mark)](mark) for mark in self.marks)
        color = "" if ink == INK else f' color="{ink}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(self.width)} {_n(self.height)}" role="img" '
            f'font-family="system-ui, sans-serif"{color} aria-label="{escape(clean_text(label))}">{body}</svg>'
        )


def clipped(text: Any, limit: int) -> str:
    """Keep both ends of a long name, because the parts of a model differ at either."""
    line = " ".join(clean_text(text).split())
    return line if len(line) <= limit else f"{line[: limit // 2 - 1]}…{line[-(limit // 2) :]}"


def width_of(text: str, size: float) -> float:
    """Return about how wide a line is: which font shows it is not known here, so a digit of the wider ones counts."""
    return WIDEST_DIGIT * size * len(text)


def png_bytes(pixels: np.ndarray) -> bytes:
    """Encode a uint8 array as PNG."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, format="png")
    return buffer.getvalue()


def _n(number: float) -> str:
    return f"{number:.1f}".rstrip("0").rstrip(".")


def _box(mark: Box) -> str:
    fade = f' fill-opacity="{mark.opacity}"' if mark.opacity < 1 else ""
    return (
        f'<rect x="{_n(mark.x)}" y="{_n(mark.y)}" width="{_n(mark.width)}" height="{_n(mark.height)}" '
        f'fill="{mark.color}"{fade}/>'
    )


def _stroke(mark: Stroke) -> str:
    path = "".join("M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in run) for run in mark.runs())
    dash = f' stroke-dasharray="{mark.dash[0]} {mark.dash[1]}"' if mark.dash else ""
    fade = f' stroke-opacity="{mark.opacity}"' if mark.opacity < 1 else ""
    return (
        f'<path d="{path}" fill="none" stroke="{mark.color}" stroke-width="{_n(mark.width)}" '
        f'stroke-linejoin="round"{dash}{fade}/>'
    )


def _words(mark: Words) -> str:
    bold = ' font-weight="650"' if mark.bold else ""
    anchor = f' text-anchor="{mark.anchor}"' if mark.anchor != "start" else ""
    return (
        f'<text x="{_n(mark.x)}" y="{_n(mark.y)}" font-size="{_n(mark.size)}" fill="{mark.color}"{anchor}{bold}>'
        f"{escape(clean_text(mark.text))}</text>"
    )


def _pixels(mark: Pixels) -> str:
    data = base64.b64encode(png_bytes(mark.values)).decode("ascii")
    return (
        f'<image x="{_n(mark.x)}" y="{_n(mark.y)}" width="{_n(mark.width)}" height="{_n(mark.height)}" '
        f'preserveAspectRatio="none" style="image-rendering:pixelated" href="data:image/png;base64,{data}"/>'
    )


_SVG: dict[type, Any] = {Box: _box, Stroke: _stroke, Words: _words, Pixels: _pixels}
