"""Small multiples: a panel a curve, in rows of three, on common scales."""

from __future__ import annotations

import math

import numpy as np

from nbdebug.charts import Panels
from nbdebug.charts.static.scales import Scale, scale_over, tick_label
from nbdebug.charts.static.sheet import BLUE, COLORS, RIGHT, WIDTH, Sheet, below_title, clipped, width_of

__all__ = ["panels"]

ACROSS, MOST = 3, 12
TALL, NAME, FOOT, GAP, TICK = 84.0, 17.0, 26.0, 14.0, 10.5


def panels(exhibit: Panels) -> Sheet:
    """Draw every curve in a panel of its own; the first curve stands pale behind each, to compare with."""
    shown = exhibit.series[:MOST]
    rows, top = math.ceil(len(shown) / ACROSS), below_title(exhibit.title) + 16
    high = NAME + TALL + FOOT
    sheet = Sheet(top + high * rows + 16, exhibit.title)
    curves = [(name, np.asarray(x, dtype=float), np.asarray(y, dtype=float)) for name, x, y in shown]
    up = scale_over([float(v) for _, _, y in curves for v in y[np.isfinite(y)]] or [0.0, 1.0])
    across = scale_over([float(v) for _, x, _ in curves for v in x] or [0.0, 1.0], pad=0.0)
    left = max(34.0, *(8 + width_of(tick_label(tick), TICK) for tick in up.ticks()))
    wide = (WIDTH - left - RIGHT - GAP * (ACROSS - 1)) / ACROSS
    sheet.text(0, top - 4, clipped(exhibit.y_label, 60), TICK)
    for index, curve in enumerate(curves):
        place = left + (wide + GAP) * (index % ACROSS), top + high * (index // ACROSS)
        _panel(sheet, curve, curves[0] if index else None, (*place, wide), (across, up), is_first=not index % ACROSS)
    left_out = f" … and {len(exhibit.series) - MOST} more curves" if len(exhibit.series) > MOST else ""
    sheet.text(WIDTH / 2, sheet.height - 4, f"{clipped(exhibit.x_label, 60)}{left_out}", TICK, "middle")
    return sheet


def _panel(
    sheet: Sheet,
    curve: tuple[str, np.ndarray, np.ndarray],
    behind: tuple[str, np.ndarray, np.ndarray] | None,
    place: tuple[float, float, float],
    scales: tuple[Scale, Scale],
    *,
    is_first: bool,
) -> None:
    left, top, wide = place
    (name, x, y), (across, up) = curve, scales
    sheet.text(left, top + 12, clipped(name, max(8, int(wide / 6))), TICK)
    axes = sheet.plot(left, top + NAME, TALL, across, up, right=WIDTH - left - wide)
    sheet.ticks_below(axes, across, top + NAME + TALL, apart=56)
    if is_first:
        sheet.ticks_beside(axes, up, left, 6)
    else:
        axes.hlines(up.ticks(), 0, 1, transform=axes.get_yaxis_transform(), colors="#262626", lw=0.6, alpha=0.22)
    if behind is not None:
        axes.plot(behind[1], behind[2], color=COLORS[-1], lw=1.2, alpha=0.6, clip_on=False)
    axes.plot(x, np.clip(y, up.low, up.high), color=BLUE, lw=1.8, clip_on=False, solid_joinstyle="round")
    if int(np.isfinite(y).sum()) == 1:
        axes.plot(x, y, color=BLUE, marker="o", ms=3.5, mew=0, ls="none", clip_on=False)
