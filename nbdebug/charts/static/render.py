"""A figure as PNG, and as SVG that can stand in any page: no ids, no style sheet, the page's font and text color."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import RendererSVG
from PIL import Image

from nbdebug.charts.static.sheet import INCH, INK, WIDTH, Sheet, in_font

__all__ = ["own_settings", "png_of", "svg_body"]

NOTHING = dict.fromkeys(("Date", "Creator", "Format", "Type"))  # what matplotlib would write about itself
TEXT = ("font-size", "font-weight", "text-anchor", "fill")  # the family is the page's
USUAL = {"text-anchor": "start"}
_DIGITS = re.compile(r"(?<=\.\d)\d+")
Element = ElementTree.Element


class _Renderer(RendererSVG):
    """matplotlib's own, without what refers to ids: a page with several charts would hold each several times."""

    draw_markers = RendererBase.draw_markers
    draw_path_collection = RendererBase.draw_path_collection

    def open_group(self, s: str, gid: str | None = None) -> None:
        """Open none."""

    def close_group(self, s: str) -> None:
        """Close none."""

    def get_text_width_height_descent(self, s: str, prop: Any, ismath: Any) -> tuple[float, float, float]:
        """Return a guess: the browser places a text by its anchor, in a font that is not known here."""
        size = float(prop.get_size())
        return 0.64 * size * len(s), 0.75 * size, 0.2 * size


def svg_body(sheet: Sheet) -> str:
    """Return the marks of a sheet as markup, in which `currentColor` is the ink."""
    buffer = io.StringIO()
    make: Any = _Renderer  # matplotlib leaves it untyped
    renderer = make(WIDTH, sheet.height, buffer, image_dpi=72, metadata=NOTHING)
    sheet.figure.draw(renderer)
    renderer.finalize()
    marks = [mark for mark in ElementTree.fromstring(buffer.getvalue()).iter() if _kind(mark) in _WRITTEN]
    shown = [_WRITTEN[_kind(mark)](mark) for mark in marks]
    return "".join(ElementTree.tostring(mark, encoding="unicode") for mark in shown)


def _kind(mark: Element) -> str:
    return str(mark.tag).rpartition("}")[2]


def _path(mark: Element) -> Element:
    data = _DIGITS.sub("", mark.get("d", "")).replace("\n", "").replace(" L ", "L").replace("M ", "M").strip()
    return ElementTree.Element("path", {"d": data, "style": _inked(mark.get("style", ""))})


def _text(mark: Element) -> Element:
    style = dict(part.split(": ", 1) for part in mark.get("style", "").split("; "))
    kept = {name: _inked(style[name]) for name in TEXT if name in style and style[name] != USUAL.get(name)}
    shown = ElementTree.Element("text", {axis: _DIGITS.sub("", mark.get(axis, "0")) for axis in "xy"} | kept)
    shown.text = mark.text
    return shown


def _image(mark: Element) -> Element:
    address = next(value for name, value in mark.items() if name.endswith("href"))
    kept = {name: mark.get(name, "") for name in ("width", "height", "transform")}
    style = {"preserveAspectRatio": "none", "style": "image-rendering:pixelated"}
    return ElementTree.Element("image", kept | style | {"href": "".join(address.split())})


def _inked(style: str) -> str:
    return style.replace(INK, "currentColor")


_WRITTEN = {"path": _path, "text": _text, "image": _image}


# What decides how a figure looks. The backend and the like are left alone: a figure of ours never meets pyplot.
GROUPS = ("axes", "figure", "font", "grid", "image", "lines", "markers", "mathtext", "patch", "path", "svg", "text")
TICKS = ("xaxis", "yaxis", "xtick", "ytick")
OURS = {
    "svg.fonttype": "none",  # text stays text: it can be searched and takes the font of its page
    "svg.hashsalt": "nbdebug",  # the same chart gives the same file
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "text.hinting": "none",  # which takes a third of the time of a PNG, and at twice the size changes little
}
_LOCK = threading.RLock()


@contextmanager
def own_settings() -> Iterator[None]:
    """Draw with matplotlib's defaults and a few settings of ours.

    Only what differs is changed and restored, so that a setting that another thread makes meanwhile stays.
    """
    with _LOCK, np.errstate(all="ignore"):
        current: Any = matplotlib.rcParams
        theirs = {name: current[name] for name, value in _wanted().items() if current[name] != value}
        current.update({name: _wanted()[name] for name in theirs})
        try:
            yield
        finally:
            current.update(theirs)


@cache
def _wanted() -> dict[str, Any]:
    defaults: Any = matplotlib.rcParamsDefault
    return {name: defaults[name] for name in defaults if name.split(".")[0] in (*GROUPS, *TICKS)} | OURS


SCALE = 2  # sharp on dense screens


def png_of(sheet: Sheet) -> bytes:
    """Draw the sheet at twice its size."""
    for text in sheet.figure.texts:
        text.set_text(in_font(text.get_text()))
        text.set_fontsize(0.9 * float(text.get_fontsize()))  # this font is wider than those of pages
    sheet.figure.patch.set(visible=True, facecolor="white")
    sheet.figure.set_dpi(SCALE * INCH)
    canvas = FigureCanvasAgg(sheet.figure)
    canvas.draw()
    picture = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    buffer = io.BytesIO()
    picture.quantize(96, method=Image.Quantize.FASTOCTREE).save(buffer, format="png")
    return buffer.getvalue()
