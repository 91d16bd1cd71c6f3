"""Importing other people's packages without moving the user's random numbers."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["drawing_nothing"]


@contextmanager
def drawing_nothing() -> Iterator[None]:
    """Keep the global generators of Python, NumPy and torch where they are: some packages draw while they load."""
    python = random.getstate()
    numpy, torch = sys.modules.get("numpy.random"), sys.modules.get("torch.random")
    numpy_state = numpy.get_state() if numpy else None
    torch_state = torch.get_rng_state() if torch else None
    try:
        yield
    finally:
        random.setstate(python)
        if numpy:
            numpy.set_state(numpy_state)
        if torch:
            torch.set_rng_state(torch_state)
