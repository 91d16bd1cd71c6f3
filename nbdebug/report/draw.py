"""One static renderer for each kind of exhibit: SVG for pages, PNG for notebooks.

Figures are made without pyplot, and matplotlib's settings are put back, so that nothing of the user's is touched.
"""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nbdebug.exhibit import Bars, Exhibit, HistogramGrid, Images, Lines
from nbdebug.report import plots
from nbdebug.report.svg import INK, inlined

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["as_png", "as_svg", "picture_of"]

_LOCK = threading.Lock()  # matplotlib's settings are global
_PLOTS: dict[type[Exhibit], Callable[[Any], Figure]] = {
    Bars: plots.bars,
    Lines: plots.lines,
    HistogramGrid: plots.histograms,
    Images: plots.images,
}


def as_svg(exhibit: Exhibit, label: str) -> str:
    """Draw an exhibit as markup that takes the colours of its page; empty where there is nothing to draw."""
    data = _drawn(exhibit, "svg", INK)
    return inlined(data.decode("utf-8"), label) if data else ""


def as_png(exhibit: Exhibit) -> bytes:
    """Draw an exhibit on white, for places that show pictures only; empty where there is nothing to draw."""
    return _drawn(exhibit, "png", "#262626")


def picture_of(pixels: Any) -> bytes:
    """Give one uint8 array as a PNG of its own."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="png", optimize=True)
    return buffer.getvalue()


def _drawn(exhibit: Exhibit, form: str, ink: str) -> bytes:
    plot = _PLOTS.get(type(exhibit))
    if plot is None or plots.is_empty(exhibit):
        return b""
    buffer = io.BytesIO()
    with _settings(ink):
        metadata = (
            {"Date": None, "Creator": None, "Type": None, "Format": None} if form == "svg" else {"Software": None}
        )
        figure = plot(exhibit)
        figure.savefig(
            buffer, format=form, metadata=metadata, transparent=form == "svg", dpi=72 if form == "svg" else 130
        )
    return buffer.getvalue()


@contextmanager
def _settings(ink: str) -> Iterator[None]:
    """Draw with matplotlib's defaults and ours, whatever style the user has set."""
    import matplotlib

    ours = {
        "svg.fonttype": "none",
        "svg.hashsalt": "nbdebug",
        "text.parse_math": False,  # a class called $x$ is not a formula
        "font.size": 10,
        "text.color": ink,
        "axes.edgecolor": ink,
        "axes.labelcolor": ink,
        "xtick.color": ink,
        "ytick.color": ink,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.6,
        "grid.linewidth": 0.4,
        "legend.frameon": False,
        "axes.unicode_minus": False,
        "path.simplify_threshold": 0.3,
    }
    with _LOCK, matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a glyph that the font lacks is drawn as a box
        defaults = {key: value for key, value in matplotlib.rcParamsDefault.items() if not key.startswith("backend")}
        dict.update(matplotlib.rcParams, defaults)
        dict.update(matplotlib.rcParams, ours)
        yield
