"""Importing other people's packages without moving the user's random numbers."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["drawing_nothing"]


@contextmanager
def drawing_nothing() -> Iterator[None]:
    """Keep the global generators of Python and NumPy where they are: some packages draw numbers while they load."""
    python = random.getstate()
    numpy = sys.modules.get("numpy.random")
    state = numpy.get_state() if numpy else None
    try:
        yield
    finally:
        random.setstate(python)
        if numpy:
            numpy.set_state(state)
