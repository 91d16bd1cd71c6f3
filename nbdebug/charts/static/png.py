"""A figure as PNG on white, for places that show pictures only."""

from __future__ import annotations

import io

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from nbdebug.charts.static.sheet import INCH, Sheet, in_font

__all__ = ["png_of"]

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
