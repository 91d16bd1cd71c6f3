"""The figures of bqplot: bars, curves and histograms of counts, each updated in place."""

from __future__ import annotations

from nbdebug.charts import Exhibit
from nbdebug.widgets.figures.bars import LiveBars
from nbdebug.widgets.figures.base import LiveFigure
from nbdebug.widgets.figures.histograms import LiveHistograms
from nbdebug.widgets.figures.lines import LiveLines

__all__ = ["FIGURES", "LiveFigure"]

FIGURES: dict[type[Exhibit], type[LiveFigure]] = {kind.kind: kind for kind in (LiveBars, LiveLines, LiveHistograms)}
