"""The recorder of a real training: `nbdebug.watch(model, optimizer)`.

The package is called like a function, because that is how it is used; `nbdebug.watch.load` opens a saved run.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from nbdebug.watch.live import Live, watch
from nbdebug.watch.run import Run

__all__ = ["Live", "Run", "load", "watch"]

load = Run.load


class _Callable(ModuleType):
    """A module that can be called, so that `nbdebug.watch(…)` works however it was imported."""

    __doc__ = watch.__doc__
    __wrapped__ = staticmethod(watch)

    def __call__(self, *args: Any, **kwargs: Any) -> Live:
        return watch(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
