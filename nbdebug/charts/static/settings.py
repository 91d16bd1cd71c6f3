"""matplotlib's own defaults while a chart is drawn, whatever style the user has chosen, and the user's right after."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import matplotlib
import numpy as np

__all__ = ["own_settings"]

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
