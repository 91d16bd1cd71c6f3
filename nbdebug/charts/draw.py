"""The static renderer of every kind of exhibit: SVG for pages, PNG for notebooks; tables are written, not drawn.

matplotlib draws, without pyplot: it is loaded by the first picture, and knows of no figure afterwards.
"""

from __future__ import annotations

import base64
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING, Any

from nbdebug.charts import Bars, Exhibit, HistogramGrid, Images, Lines, Panels
from nbdebug.charts.pixels import picture_of
from nbdebug.core.rng_safe_import import drawing_nothing
from nbdebug.core.text import clean_text

if TYPE_CHECKING:
    from nbdebug.charts.static.sheet import Sheet

__all__ = ["as_png", "as_svg", "as_svg_address", "forget", "is_drawn", "picture_of"]

GREY = "#767676"
KEPT = 128  # pictures: whoever looks at a result again and again has the same ones drawn
_DATA: dict[type[Exhibit], str] = {
    Bars: "values",
    Lines: "series",
    Panels: "series",
    HistogramGrid: "counts",
    Images: "pictures",
}


def as_svg(exhibit: Exhibit, label: str) -> str:
    """Draw an exhibit as markup that takes the colors of its page; empty where there is nothing to draw."""
    return _labelled(exhibit, label)


def as_svg_address(exhibit: Exhibit, label: str) -> str:
    """Draw an exhibit as the address of an image, in a gray that can be read on light and on dark.

    A notebook that is not trusted, and sites that show notebooks, take markup apart but leave images alone.
    """
    svg = _labelled(exhibit, label, f' color="{GREY}"')
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode("utf-8")).decode("ascii") if svg else ""


def as_png(exhibit: Exhibit) -> bytes:
    """Draw an exhibit on white, for places that show pictures only; empty where there is nothing to draw."""
    return bytes(_once(_png, exhibit)) if is_drawn(exhibit) else b""


def is_drawn(exhibit: Exhibit) -> bool:
    """Return whether there is anything to draw."""
    return type(exhibit) in _DATA and len(getattr(exhibit, _DATA[type(exhibit)])) > 0


def _labelled(exhibit: Exhibit, label: str, color: str = "") -> str:
    """Return the drawing with a text for those who cannot see it."""
    if not is_drawn(exhibit):
        return ""
    size, marks = _once(_svg, exhibit)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" role="img" '
        f'font-family="system-ui, sans-serif"{color} aria-label="{escape(clean_text(label))}">{marks}</svg>'
    )


def _once(draw: Any, exhibit: Exhibit) -> Any:
    """Draw, or return what was drawn of the same data before; arrays have no hash, and lists none either."""
    try:
        return _drawn(draw, exhibit)
    except TypeError:
        return draw(exhibit)


def forget() -> None:
    """Draw every picture anew from now on."""
    _drawn.cache_clear()


@lru_cache(KEPT)
def _drawn(draw: Any, exhibit: Exhibit) -> Any:
    return draw(exhibit)


def _svg(exhibit: Exhibit) -> tuple[str, str]:
    with drawing_nothing():
        from nbdebug.charts.static.render import own_settings, svg_body
    with own_settings():
        sheet = _laid_out(exhibit)
        return f"{sheet.width:g} {sheet.height:g}", svg_body(sheet)


def _png(exhibit: Exhibit) -> bytes:
    with drawing_nothing():
        from nbdebug.charts.static.render import own_settings, png_of
    with own_settings():
        return png_of(_laid_out(exhibit))


def _laid_out(exhibit: Any) -> Sheet:
    from nbdebug.charts.static.bars import bars
    from nbdebug.charts.static.histograms import histograms
    from nbdebug.charts.static.images import images
    from nbdebug.charts.static.lines import lines
    from nbdebug.charts.static.panels import panels

    layouts: dict[type[Exhibit], Any] = {
        Bars: bars,
        Lines: lines,
        Panels: panels,
        HistogramGrid: histograms,
        Images: images,
    }
    sheet: Sheet = layouts[type(exhibit)](exhibit)
    return sheet
