"""Standard output that holds the answer and nothing else."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress

__all__ = ["clean_stdout"]


@contextmanager
def clean_stdout(wanted: bool) -> Iterator[None]:
    """Send what the user's code writes to standard output to standard error, also from C code and child processes."""
    if not wanted:
        yield
        return
    sys.stdout.flush()
    kept = None
    with suppress(OSError, ValueError):  # there may be no such streams
        kept = os.dup(1)
        os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if kept is not None:
            os.dup2(kept, 1)
            os.close(kept)
