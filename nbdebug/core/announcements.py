"""Who wants to hear of every training that begins to be watched; nothing is imported for it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

__all__ = ["begun", "on_begin"]

Listener = Callable[[Any], Any]
_listeners: list[Listener] = []


def on_begin(listener: Listener) -> Callable[[], None]:
    """Call the listener with every run that begins to be recorded; the returned function ends that."""
    _listeners.append(listener)

    def end() -> None:
        if listener in _listeners:
            _listeners.remove(listener)

    return end


def begun(run: Any) -> None:
    """Tell everybody that a run is being recorded; a listener that fails is dropped with a warning."""
    for listener in list(_listeners):
        try:
            listener(run)
        except Exception as error:
            _listeners.remove(listener)
            warnings.warn(f"a listener of nbdebug.watch failed and was removed: {error!r}", stacklevel=2)
