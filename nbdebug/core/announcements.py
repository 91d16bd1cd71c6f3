"""Who wants to hear of every training that begins to be watched, and the newest one of each model."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from typing import Any

__all__ = ["begun", "newest_run", "on_begin"]

Listener = Callable[[Any], Any]
_listeners: list[Listener] = []
_newest: weakref.WeakKeyDictionary[Any, weakref.ref[Any]] = weakref.WeakKeyDictionary()  # runs by their models


def on_begin(listener: Listener) -> Callable[[], None]:
    """Call the listener with every run that begins to be recorded; the returned function ends that."""
    _listeners.append(listener)

    def end() -> None:
        if listener in _listeners:
            _listeners.remove(listener)

    return end


def begun(run: Any) -> None:
    """Tell everybody that a run is being recorded; a listener that fails is dropped with a warning."""
    for model in getattr(run, "roots", ()):
        _newest[model] = weakref.ref(run)
    for listener in list(_listeners):
        try:
            listener(run)
        except Exception as error:
            _listeners.remove(listener)
            warnings.warn(f"a listener of nbdebug.watch failed and was removed: {error!r}", stacklevel=2)


def newest_run(model: Any) -> Any:
    """Return the run in which this model was watched last, if it is still held by anybody; else None."""
    known = _newest.get(model)
    return known() if known is not None else None
