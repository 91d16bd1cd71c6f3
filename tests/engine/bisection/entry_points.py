"""Set-ups by name, one of which does not learn."""

from __future__ import annotations

from typing import Any

from tests.engine.bisection.pairs import digits


def good() -> dict[str, Any]:
    """Return a set-up that learns, and print."""
    print("from the program")
    return digits()


def bad() -> dict[str, Any]:
    """Return one with a rate that is far too low."""
    return digits(lr=1e-8, batch=40)
