"""How each kind of exhibit is laid out, in colours that colour-blind people can tell apart (Okabe and Ito)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.exhibit import Bars, Exhibit, HistogramGrid, Images, Lines
from nbdebug.report.words import figure as number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["bars", "histograms", "images", "is_empty", "lines", "thinned"]

BLUE, VERMILION, GREEN = "#0072B2", "#D55E00", "#009E73"
COLOURS = (BLUE, "#E69F00", GREEN, "#CC79A7", VERMILION, "#56B4E9", "#7F7F7F")
STYLES = ("-", "--", "-.", ":")
WIDTH = 460  # points; still legible when a phone shrinks it
ROW, MOST_BARS, MOST_ROWS, MOST_LINES, MOST_POINTS = 17, 40, 60, 10, 2000


def is_empty(exhibit: Exhibit) -> bool:
    """Whether there is nothing to draw."""
    parts = {Bars: "values", Lines: "series", HistogramGrid: "counts", Images: "pictures"}
    return not len(getattr(exhibit, parts.get(type(exhibit), "kind")))


def _canvas(height: float, title: str, *, left: float = 56, bottom: float = 40, top: float = 0) -> tuple[Figure, Axes]:
    """Make a figure with one axes at fixed margins, which is many times faster than measuring every text."""
    from matplotlib.figure import Figure

    heading = _wrapped(title, 62)
    head = (15 * len(heading) + 8 if heading else 6) + top
    whole = height + head + bottom
    figure = Figure(figsize=(WIDTH / 72, whole / 72), facecolor="white")
    axes = figure.add_axes((left / WIDTH, bottom / whole, (WIDTH - left - 16) / WIDTH, height / whole))
    for index, line in enumerate(heading):
        figure.text(4 / WIDTH, 1 - (14 + 15 * index) / whole, line, fontsize=11, fontweight="bold")
    axes.tick_params(length=3, width=0.6, labelsize=9.5)
    return figure, axes


def _wrapped(text: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(str(text), width, max_lines=3, placeholder=" …")


def _label(text: Any, limit: int = 30) -> str:
    """Keep both ends of a long name, because the parts of a model differ at either."""
    line = " ".join(str(text).split())
    return line if len(line) <= limit else f"{line[: limit // 2 - 1]}…{line[-(limit // 2) :]}"


def bars(exhibit: Bars) -> Figure:
    """Draw one horizontal bar a label; what is not finite is named, what lies outside the healthy band stands out."""
    values = [float(value) for value in exhibit.values]
    kept = _noteworthy(values, exhibit.band)
    labels = [_label(exhibit.labels[i] if i < len(exhibit.labels) else i) for i in kept]
    left = min(200, 6.2 * max(map(len, labels)) + 14)
    dropped = len(values) - len(kept)
    figure, axes = _canvas(ROW * len(kept) + 6, exhibit.title, left=left, bottom=54 if dropped else 40)
    shown = [values[i] for i in kept]
    start = _scale_bars(axes, shown, exhibit)
    for row, value in enumerate(shown):
        _bar(axes, row, value, start, exhibit)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(_label(exhibit.unit, 60), fontsize=9.5)
    if dropped:
        rest = [value for i, value in enumerate(values) if i not in set(kept)]
        figure.text(4 / WIDTH, 4 / (72 * figure.get_figheight()), f"… and {dropped} more, {_span(rest)}", fontsize=9.5)
    return figure


def _noteworthy(values: list[float], band: tuple[float, float] | None) -> list[int]:
    """Choose the bars to draw, in their order: those not finite or out of the band first, then both extremes."""
    if len(values) <= MOST_BARS:
        return list(range(len(values)))
    order = sorted(range(len(values)), key=lambda i: values[i] if math.isfinite(values[i]) else 0.0)
    extremes = [i for pair in zip(order, reversed(order), strict=True) for i in pair]
    first = [i for i in extremes if not math.isfinite(values[i]) or _is_out(values[i], band)]
    return sorted(list(dict.fromkeys((*first, *extremes)))[:MOST_BARS])


def _is_out(value: float, band: tuple[float, float] | None) -> bool:
    return band is not None and not band[0] <= value <= band[1]


def _span(values: list[float]) -> str:
    low, high = number(min(values)), number(max(values))
    return f"each {low}" if low == high else f"between {low} and {high}"


def _scale_bars(axes: Axes, values: list[float], exhibit: Bars) -> float:
    """Set the axis with room for the numbers at the ends of the bars; give where bars start."""
    finite = [value for value in values if math.isfinite(value)]
    edges = [edge for edge in exhibit.band or () if math.isfinite(edge)]
    positive = [value for value in (*finite, *edges) if value > 0]
    axes.grid(axis="x", alpha=0.35)
    axes.set_axisbelow(True)
    if exhibit.log and positive:
        low, high = min(positive) / 3, max(positive)
        axes.set_xscale("log")
        axes.set_xlim(low, high * (high / low) ** 0.22)
        start = low
    else:
        low, high = min([0.0, *finite, *edges]), max([0.0, *finite, *edges])
        room = (high - low) or 1.0
        axes.set_xlim(low - (0.2 * room if low < 0 else 0), high + 0.22 * room)
        axes.locator_params(axis="x", nbins=6)
        start = 0.0
    if exhibit.band:
        axes.axvspan(
            max(exhibit.band[0], axes.get_xlim()[0]),
            min(exhibit.band[1], axes.get_xlim()[1]),
            color=GREEN,
            alpha=0.16,
            lw=0,
        )
        axes.text(0.995, 1.0, "shaded: healthy", transform=axes.transAxes, ha="right", va="bottom", fontsize=9)
    return start


def _bar(axes: Axes, row: int, value: float, start: float, exhibit: Bars) -> None:
    out = _is_out(value, exhibit.band) or not math.isfinite(value)
    colour = VERMILION if out else BLUE
    end = value if math.isfinite(value) else start
    if axes.get_xscale() == "log" and end <= 0:
        end = start
    axes.barh(row, end - start, left=start, height=0.68, color=colour)
    before = end < 0 and axes.get_xscale() != "log"
    axes.annotate(
        number(value),
        (end, row),
        xytext=(-4 if before else 4, 0),
        textcoords="offset points",
        ha="right" if before else "left",
        va="center",
        fontsize=9.5,
        fontweight="bold" if out else "normal",
    )


def lines(exhibit: Lines) -> Figure:
    """Draw curves; where a value is not finite, a cross at the foot says so."""
    series = exhibit.series[:MOST_LINES]
    rows = math.ceil(len(series) / 2) if len(exhibit.series) > 1 or series[0][0] else 0
    more = len(exhibit.series) - len(series)
    figure, axes = _canvas(190, exhibit.title, top=16 * rows + (16 if more else 0), bottom=44)
    gaps = False
    for index, (name, xs, ys) in enumerate(series):
        x, y = np.asarray(xs, dtype=float), np.asarray(ys, dtype=float)
        gaps |= _curve(axes, x[: len(y)], y[: len(x)], _label(name, 30), index, exhibit)
    _scale_lines(axes, exhibit)
    if gaps:
        axes.plot([], [], "x", color=VERMILION, label="NaN or infinite")
    if rows or gaps:
        title = f"the first {len(series)} of {len(exhibit.series)} curves" if more else None
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(-0.02, 1.0),
            ncols=2,
            fontsize=9,
            borderaxespad=0.2,
            title=title,
            handlelength=2.4,
        )
    return figure


def _scale_lines(axes: Axes, exhibit: Lines) -> None:
    for log, values, scale in ((exhibit.log_x, 1, axes.set_xscale), (exhibit.log_y, 2, axes.set_yscale)):
        numbers = np.concatenate([np.asarray(curve[values], dtype=float) for curve in exhibit.series])
        if log and (numbers[np.isfinite(numbers)] > 0).any():
            scale("log")
    axes.set_xlabel(_label(exhibit.x_label, 60), fontsize=9.5)
    axes.set_ylabel(_label(exhibit.y_label, 30), fontsize=9.5)
    axes.grid(alpha=0.35)


def _curve(axes: Axes, x: np.ndarray, y: np.ndarray, name: str, index: int, exhibit: Lines) -> bool:
    """Draw one curve and the crosses where it has no value; say whether there were any."""
    missing = x[~np.isfinite(y)]
    x, y = thinned(x, np.where(np.isfinite(y), y, np.nan))
    style = STYLES[(index // len(COLOURS)) % len(STYLES)] if len(COLOURS) <= index else STYLES[index % 2]
    marker = "o" if np.isfinite(y).sum() <= 12 else None
    axes.plot(x, y, style, color=COLOURS[index % len(COLOURS)], lw=1.5, marker=marker, ms=3.5, label=name or "value")
    if len(missing):
        shown, _ = thinned(missing, np.zeros(len(missing)), 100)
        axes.plot(
            shown,
            np.full(len(shown), 0.03),
            "x",
            color=VERMILION,
            ms=5,
            transform=axes.get_xaxis_transform(),
            clip_on=False,
        )
    return bool(len(missing))


def thinned(x: np.ndarray, y: np.ndarray, most: int = MOST_POINTS) -> tuple[np.ndarray, np.ndarray]:
    """Keep at most so many points: of each stretch the lowest and the highest, so that no spike is lost."""
    if len(x) <= most:
        return x, y
    keep: set[int] = {0, len(x) - 1}
    for stretch in np.array_split(np.arange(len(x)), most // 2 - 2):
        values = y[stretch]
        keep.update((int(stretch[0]),) * 2 if np.isnan(values).all() else _ends(stretch, values))
    chosen = sorted(keep)
    return x[chosen], y[chosen]


def _ends(stretch: np.ndarray, values: np.ndarray) -> tuple[int, int]:
    return int(stretch[np.nanargmin(values)]), int(stretch[np.nanargmax(values)])


def histograms(exhibit: HistogramGrid) -> Figure:
    """Draw few histograms as ridges and many as one heat map, each row by its own greatest count."""
    rows = _even(len(exhibit.counts), MOST_ROWS)
    names = [_label(exhibit.rows[i] if i < len(exhibit.rows) else i) for i in rows]
    counts = np.asarray([exhibit.counts[i] for i in rows], dtype=float)
    counts = np.nan_to_num(counts / np.maximum(counts.max(axis=1, keepdims=True), 1e-12))
    few = len(rows) <= 8
    left = min(200, 6.2 * max(map(len, names)) + 14)
    dropped = len(exhibit.counts) - len(rows)
    figure, axes = _canvas((34 if few else 12) * len(rows) + 8, exhibit.title, left=left, bottom=54 if dropped else 42)
    (_ridges if few else _heat)(axes, counts)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0, labelsize=9.5 if few else 8.5)
    _edge_ticks(axes, exhibit.edges)
    axes.set_xlabel(_label(exhibit.x_label, 60), fontsize=9.5)
    if dropped:
        text = f"{len(rows)} of {len(exhibit.counts)} rows, evenly spread; … and {dropped} more"
        figure.text(4 / WIDTH, 4 / (72 * figure.get_figheight()), text, fontsize=9.5)
    return figure


def _even(count: int, most: int) -> list[int]:
    return list(range(count)) if count <= most else [round(i * (count - 1) / (most - 1)) for i in range(most)]


def _ridges(axes: Axes, counts: np.ndarray) -> None:
    for row, heights in enumerate(counts):
        axes.bar(np.arange(len(heights)), -0.8 * heights, width=1.0, bottom=row + 0.4, color=BLUE, lw=0)
    axes.set_ylim(len(counts) - 0.45, -0.55)


def _heat(axes: Axes, counts: np.ndarray) -> None:
    axes.imshow(counts, aspect="auto", cmap="viridis", vmin=0, vmax=1, interpolation="nearest")


def _edge_ticks(axes: Axes, edges: Sequence[float]) -> None:
    """Label bins by their edges, which need not be evenly spaced."""
    bins = len(edges) - 1
    marks = sorted({round(i * bins / 4) for i in range(5)})
    axes.set_xlim(-0.5, bins - 0.5)
    axes.set_xticks([mark - 0.5 for mark in marks], [f"{edges[mark]:.3g}" for mark in marks])


def images(exhibit: Images) -> Figure:
    """Draw pictures in a grid with their captions."""
    from matplotlib.figure import Figure

    pictures = exhibit.pictures[:24]
    columns = min(4, len(pictures))
    rows = math.ceil(len(pictures) / columns)
    figure = Figure(figsize=(WIDTH / 72, (rows * 130 + 24) / 72), facecolor="white")
    figure.suptitle(_label(exhibit.title, 62), fontsize=11, fontweight="bold")
    for index, picture in enumerate(pictures):
        axes = figure.add_subplot(rows, columns, index + 1)
        axes.imshow(picture, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        caption = exhibit.captions[index] if index < len(exhibit.captions) else ""
        axes.set_title(_label(caption, 18), fontsize=9)
        axes.set_axis_off()
    return figure
