"""Small multiples: a panel a curve, in rows of three, on common scales."""

from __future__ import annotations

import math

import numpy as np

from nbdebug.charts import Panels
from nbdebug.charts.static.scales import Scale, scale_over, tick_label
from nbdebug.charts.static.sheet import BLUE, COLORS, GREEN, RIGHT, WIDTH, Sheet, below_title, width_of
from nbdebug.core.text import clipped

__all__ = ["panels"]

Curve = tuple[str, np.ndarray, np.ndarray]

ACROSS, MOST = 3, 12
ALONE = 168.0  # the width of a panel by itself
TALL, NAME, FOOT, GAP, TICK = 84.0, 17.0, 26.0, 14.0, 10.5
DASHED = (0, (3, 2))


def panels(exhibit: Panels) -> Sheet:
    """Draw every curve in a panel of its own; the first curve stands dashed behind each, to compare with."""
    curves = [(n, np.asarray(x, dtype=float), np.asarray(y, dtype=float)) for n, x, y in exhibit.series[:MOST]]
    values = [float(v) for _, _, y in curves for v in y[np.isfinite(y)]]
    up = scale_over([*values, *(exhibit.span or ())] or [0.0, 1.0])
    across = scale_over([float(v) for _, x, _ in curves for v in x] or [0.0, 1.0], pad=0.0)
    left = max(34.0, *(8 + width_of(tick_label(tick), TICK) for tick in up.ticks()))
    if exhibit.only is not None and exhibit.only < len(curves):
        return _alone(exhibit, curves, exhibit.only, (across, up), left)
    rows, top = math.ceil(len(curves) / ACROSS), below_title(exhibit.title) + 16
    name = NAME + 13 * bool(exhibit.remarks)
    high = name + TALL + FOOT
    sheet = Sheet(top + high * rows + 16, exhibit.title)
    wide = (WIDTH - left - RIGHT - GAP * (ACROSS - 1)) / ACROSS
    sheet.text(0, top - 4, clipped(exhibit.y_label, 60), TICK)
    for index, curve in enumerate(curves):
        place = left + (wide + GAP) * (index % ACROSS), top + high * (index // ACROSS)
        _words(sheet, exhibit, index, (*place, wide))
        behind = curves[0] if index else None
        color = GREEN if index == exhibit.marked else BLUE
        frame = place[0], place[1] + name, wide
        _panel(sheet, curve, behind, frame, (across, up), color, is_first=not index % ACROSS)
    left_out = f" … and {len(exhibit.series) - MOST} more curves" if len(exhibit.series) > MOST else ""
    sheet.text(WIDTH / 2, sheet.height - 4, f"{clipped(exhibit.x_label, 60)}{left_out}", TICK, "middle")
    return sheet


def _alone(exhibit: Panels, curves: list[Curve], index: int, scales: tuple[Scale, Scale], left: float) -> Sheet:
    """Draw one panel on a sheet of its own size."""
    sheet = Sheet(TALL + FOOT, "")
    sheet.width = left + ALONE + RIGHT
    color = GREEN if index == exhibit.marked else BLUE
    _panel(sheet, curves[index], curves[0] if index else None, (left, 6, ALONE), scales, color, is_first=True)
    return sheet


def _words(sheet: Sheet, exhibit: Panels, index: int, place: tuple[float, float, float]) -> None:
    """Write the name of a panel and what is to be said of it; the one that stands out is framed."""
    left, top, wide = place
    is_marked, most = index == exhibit.marked, max(8, int(wide / 6))
    sheet.text(left, top + 12, clipped(exhibit.series[index][0], most), TICK, bold=is_marked)
    if index < len(exhibit.remarks):
        sheet.text(left, top + 25, clipped(exhibit.remarks[index], most), TICK, bold=is_marked)
    if is_marked:
        high = NAME + 13 * bool(exhibit.remarks) + TALL
        corners = ((-4, -2), (wide + 4, -2), (wide + 4, high + 3), (-4, high + 3), (-4, -2))
        sheet.line([left + x for x, _ in corners], [top + y for _, y in corners], color=GREEN, lw=1.4)


def _panel(
    sheet: Sheet,
    curve: Curve,
    behind: Curve | None,
    place: tuple[float, float, float],
    scales: tuple[Scale, Scale],
    color: str,
    *,
    is_first: bool,
) -> None:
    left, top, wide = place
    (_, x, y), (across, up) = curve, scales
    axes = sheet.plot(left, top, TALL, across, up, right=WIDTH - left - wide)
    sheet.ticks_below(axes, across, top + TALL, apart=56)
    if is_first:
        sheet.ticks_beside(axes, up, left, 6)
    else:
        axes.hlines(up.ticks(), 0, 1, transform=axes.get_yaxis_transform(), colors="#262626", lw=0.6, alpha=0.22)
    if behind is not None:
        axes.plot(behind[1], behind[2], color=COLORS[-1], lw=1.2, ls=DASHED, clip_on=False)
    axes.plot(x, np.clip(y, up.low, up.high), color=color, lw=1.8, clip_on=False, solid_joinstyle="round")
    if int(np.isfinite(y).sum()) == 1:
        axes.plot(x, y, color=color, marker="o", ms=3.5, mew=0, ls="none", clip_on=False)
