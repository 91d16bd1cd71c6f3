"""The recorder of a real training: `nbdebug.watch(model, optimizer)`.

The package is called like a function, because that is how it is used; `nbdebug.watch.load` opens a saved run. What
judges and shows a run is imported when it is first asked for: `nbdebug.watch.recorder` belongs to a low layer.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from nbdebug.core.rng_safe_import import drawing_nothing

if TYPE_CHECKING:
    from nbdebug.watch.live import Live as Live
    from nbdebug.watch.live import watch as watch
    from nbdebug.watch.run import Run as Run

    load = Run.load

__all__ = ["Live", "Run", "load", "watch"]

_HOMES = {"Live": "live", "watch": "live", "__wrapped__": "live", "Run": "run", "load": "run"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'nbdebug.watch' has no attribute {name!r}")
    with drawing_nothing():
        home = importlib.import_module(f"nbdebug.watch.{_HOMES[name]}")
    return home.Run.load if name == "load" else getattr(home, "watch" if name == "__wrapped__" else name)


class _Callable(ModuleType):
    """A module that can be called, so that `nbdebug.watch(…)` works however it was imported."""

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        """What `nbdebug.watch?` shows."""
        doc: str | None = __getattr__("watch").__doc__
        return doc

    def __call__(self, *args: Any, **kwargs: Any) -> Live:
        live: Live = __getattr__("watch")(*args, **kwargs)
        return live


sys.modules[__name__].__class__ = _Callable
