"""One static renderer for each kind of exhibit: SVG for pages, PNG for notebooks; tables are written, not drawn."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import numpy as np

from nbdebug.charts import Bars, Exhibit, HistogramGrid, Images, Lines
from nbdebug.charts.drawing.bars import bars
from nbdebug.charts.drawing.histograms import histograms
from nbdebug.charts.drawing.images import images, pixels_of
from nbdebug.charts.drawing.lines import lines
from nbdebug.charts.drawing.raster import png_of
from nbdebug.charts.drawing.sheet import Sheet, png_bytes

__all__ = ["as_png", "as_svg", "as_svg_address", "picture_of"]

GREY = "#767676"

_LAYOUTS: dict[type[Exhibit], tuple[str, Callable[[Any], Sheet]]] = {
    Bars: ("values", bars),
    Lines: ("series", lines),
    HistogramGrid: ("counts", histograms),
    Images: ("pictures", images),
}


def as_svg(exhibit: Exhibit, label: str) -> str:
    """Draw an exhibit as markup that takes the colors of its page; empty where there is nothing to draw."""
    sheet = _laid_out(exhibit)
    return sheet.to_svg(label) if sheet else ""


def as_svg_address(exhibit: Exhibit, label: str) -> str:
    """Draw an exhibit as the address of an image, in a gray that can be read on light and on dark.

    A notebook that is not trusted, and sites that show notebooks, take markup apart but leave images alone.
    """
    sheet = _laid_out(exhibit)
    if sheet is None:
        return ""
    return "data:image/svg+xml;base64," + base64.b64encode(sheet.to_svg(label, GREY).encode("utf-8")).decode("ascii")


def as_png(exhibit: Exhibit) -> bytes:
    """Draw an exhibit on white, for places that show pictures only; empty where there is nothing to draw."""
    sheet = _laid_out(exhibit)
    return png_of(sheet) if sheet else b""


def picture_of(pixels: np.ndarray) -> bytes:
    """Return one sample as a PNG of its own."""
    return png_bytes(pixels_of(pixels))


def _laid_out(exhibit: Exhibit) -> Sheet | None:
    data, layout = _LAYOUTS.get(type(exhibit), ("kind", None))
    return layout(exhibit) if layout and len(getattr(exhibit, data)) else None
