"""What is alive in the notebook: its variables and what its cells have shown."""

from __future__ import annotations

from typing import Any

from IPython.core.getipython import get_ipython

__all__ = ["outputs", "variables"]

_NOTHING = object()


def variables() -> dict[str, Any]:
    """Return the notebook's variables that the user made, the newest last."""
    shell = get_ipython()
    if shell is None:
        return {}
    hidden = shell.user_ns_hidden
    return {
        name: value
        for name, value in list(shell.user_ns.items())
        if not name.startswith("_") and hidden.get(name, _NOTHING) is not value
    }


def outputs() -> dict[int, Any]:
    """Return what the cells have shown, by their numbers."""
    shown = getattr(get_ipython(), "user_ns", {}).get("_oh", {})
    return dict(shown) if isinstance(shown, dict) else {}
