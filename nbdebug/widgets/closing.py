"""Take widgets down wholly: the kernel and every page that is reloaded carry each model that is left."""

from __future__ import annotations

from collections.abc import Iterable

from ipywidgets import Widget

__all__ = ["take_down"]


def take_down(parts: Iterable[Widget]) -> None:
    """Close widgets with their children, and with their layouts and styles, which are models of their own."""
    for part in parts:
        take_down(getattr(part, "children", ()))
        dress = [getattr(part, name, None) for name in ("layout", "style")]
        part.close()
        for worn in dress:
            if isinstance(worn, Widget):
                worn.close()
