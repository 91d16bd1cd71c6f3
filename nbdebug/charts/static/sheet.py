"""A figure measured in pixels from its top left corner, with the marks and colors that all charts share."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.lines import Line2D
from matplotlib.transforms import Affine2D

from nbdebug.charts.static.scales import Scale, tick_label
from nbdebug.core.text import clean_text

__all__ = [
    "BLUE",
    "COLORS",
    "GREEN",
    "INK",
    "RIGHT",
    "VERMILION",
    "WIDTH",
    "Sheet",
    "below_title",
    "label_width",
    "width_of",
]

INK = "#262626"  # on white; in SVG it stands for the text color of the page, and no other mark has it
BLUE, VERMILION, GREEN = "#0072b2", "#d55e00", "#009e73"  # Okabe and Ito: color-blind people can tell them apart
COLORS = (BLUE, "#e69f00", GREEN, "#cc79a7", VERMILION, "#56b4e9", "#8c8c8c")
WIDTH = 420.0  # so that the words are legible when a phone shrinks the picture
INCH = 72.0  # at this resolution a point is a pixel
RIGHT = 10.0  # room beside a plot, into which half of the last tick's label may reach
TICK = 10.5
GRID: dict[str, Any] = {"colors": INK, "lw": 0.6, "alpha": 0.22, "zorder": 0, "clip_on": False}
Anchor = Literal["start", "middle", "end"]
_ALIGNED = {"start": "left", "middle": "center", "end": "right"}


class Sheet:
    """A figure of a known height, on which places are pixels from the top left corner."""

    def __init__(self, height: float, title: str = "") -> None:
        self.width, self.height = WIDTH, height
        self.figure = Figure(figsize=(WIDTH / INCH, height / INCH), dpi=INCH)
        self.figure.patch.set_visible(False)
        self.pixels = Affine2D().scale(1, -1).translate(0, height).scale(1 / INCH) + self.figure.dpi_scale_trans
        for index, line in enumerate(_title_lines(title)):
            self.text(0, 14 + 16 * index, line, 13, bold=True)

    def text(
        self, x: float, y: float, text: object, size: float = 11.0, anchor: Anchor = "start", bold: bool = False
    ) -> None:
        """Write one line of text on the base line y."""
        style: dict[str, Any] = {
            "fontproperties": _font(size, bold),
            "color": INK,
            "ha": _ALIGNED[anchor],
            "va": "baseline",
        }
        self.figure.text(x, y, clean_text(text), transform=self.pixels, **style)

    def line(self, xs: Sequence[float], ys: Sequence[float], **style: Any) -> None:
        """Draw a line through these places."""
        self.figure.add_artist(Line2D(xs, ys, transform=self.pixels, **style))

    def box(self, x: float, y: float, width: float, height: float, color: str, alpha: float = 1.0) -> None:
        """Fill a rectangle."""
        self.line((x, x + width), (y + height / 2,) * 2, color=color, lw=height, alpha=alpha, solid_capstyle="butt")

    def images(self, placed: Sequence[tuple[float, float, float, float, np.ndarray]]) -> None:
        """Show pixels, each a sharp rectangle; a picture comes with its left, top, width and height."""
        axes = self.plot(0, 0, self.height, Scale(0, WIDTH), right=0)
        for x, y, width, height, values in placed:
            style: dict[str, Any] = {"cmap": "gray", "vmin": 0, "vmax": 255} if values.ndim == 2 else {}
            room = (x, x + width, y + height, y)
            axes.imshow(values, interpolation="none", extent=room, aspect="auto", clip_on=False, **style)

    def plot(
        self, left: float, top: float, height: float, across: Scale, up: Scale | None = None, right: float = RIGHT
    ) -> Axes:
        """Return the empty axes of a plot; without a vertical scale, y is in pixels from the top down."""
        width = WIDTH - right - left
        room = (left / WIDTH, 1 - (top + height) / self.height, width / WIDTH, height / self.height)
        axes = self.figure.add_axes(room, autoscale_on=False, zorder=-1)
        axes.set_axis_off()
        limits = up or Scale(height, 0)
        for scale, set_scale in ((across, axes.set_xscale), (limits, axes.set_yscale)):
            if scale.log:
                set_scale("log", nonpositive="mask")
        axes.set(xlim=(across.low, across.high), ylim=(limits.low, limits.high))
        return axes

    def place(self, axes: Axes, x: float, y: float) -> tuple[float, float]:
        """Return the pixels at which a value of a plot stands."""
        at, up = axes.transData.transform((x, y))
        return float(at), self.height - float(up)

    def ticks_below(self, axes: Axes, scale: Scale, bottom: float, apart: float = 48) -> None:
        """Draw faint lines at the ticks of a horizontal scale, with their values below."""
        room = axes.get_position().width * WIDTH
        ticks = scale.ticks(max(2, min(6, int(room / apart))))
        axes.vlines(ticks, 0, 1, transform=axes.get_xaxis_transform(), **GRID)
        for tick in ticks:
            x, _ = self.place(axes, tick, axes.get_ylim()[0])
            self.tick(x, bottom + 14, tick_label(tick))

    def tick(self, x: float, y: float, label: str) -> None:
        """Write the label of a tick below it, as near as it can be without leaving the sheet."""
        half = width_of(label, TICK) / 2
        self.text(min(max(x, half), WIDTH - half), y, label, TICK, "middle")

    def ticks_beside(self, axes: Axes, scale: Scale, left: float, gap: float) -> None:
        """Draw faint lines at the ticks of a vertical scale, with their values at the left."""
        ticks = scale.ticks()
        axes.hlines(ticks, 0, 1, transform=axes.get_yaxis_transform(), **GRID)
        for tick in ticks:
            _, y = self.place(axes, axes.get_xlim()[0], tick)
            self.text(left - gap, y + 4, tick_label(tick), TICK, "end")


def _title_lines(title: str) -> list[str]:
    """Break a title into as many lines as it needs, at most three."""
    return textwrap.wrap(clean_text(title), 56, max_lines=3, placeholder=" …")


def below_title(title: str) -> float:
    """Return where the next thing may stand."""
    lines = _title_lines(title)
    return 16.0 * len(lines) + (10 if lines else 4)


def label_width(labels: list[str], size: float = 11.0) -> float:
    """Return the room that labels need at the left of a plot."""
    return min(0.48 * WIDTH, max((width_of(label, size) for label in labels), default=0) + 10)


@cache
def _font(size: float, bold: bool = False) -> FontProperties:
    return FontProperties(family="DejaVu Sans", size=size, weight="bold" if bold else "normal")


@cache
def _drawable() -> frozenset[str]:
    """Return the characters of the font that matplotlib brings along."""
    return frozenset(map(chr, get_font(findfont(_font(TICK))).get_charmap()))


def in_font(text: str) -> str:
    """Put a replacement in the place of characters that the font lacks, of which drawing would warn."""
    return text if text.isascii() else "".join(c if c in _drawable() else "\ufffd" for c in text)


def width_of(text: str, size: float) -> float:
    """Return how wide a line is in the font that matplotlib brings along, which is wider than those of most pages."""
    return size * sum(map(_advance, in_font(text)))


@cache
def _advance(character: str) -> float:
    """Return the width of a character as a share of the font's size."""
    font = get_font(findfont(_font(TICK)))
    font.set_size(100, INCH)
    return float(font.load_char(ord(character)).linearHoriAdvance) / 65536 / 100
