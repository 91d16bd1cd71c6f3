"""Whether an error is one of torch's own, and which kind."""

from __future__ import annotations

import re
import sys

from nbdebug.engine.explain_error.scene import scene_of
from nbdebug.errors import NbdebugError
from nbdebug.experiments.source_lines import line_of
from nbdebug.experiments.torch_error_patterns import ErrorPattern, error_pattern

__all__ = ["last_error", "pattern_in", "recognized"]

_ABOUT_NAN = re.compile(r"isnan|isfinite|isinf|allclose.*nan")


def last_error() -> BaseException | None:
    """Return the newest uncaught exception, as IPython and Python store it."""
    return getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)


def pattern_in(error: BaseException) -> ErrorPattern | None:
    """Recognize the kind of an error by its message; an assertion without one by what it asserts."""
    if isinstance(error, NbdebugError):
        return None
    if isinstance(error, AssertionError) and _ABOUT_NAN.search(line_of(error)):
        return error_pattern("non-finite")
    return error_pattern(f"{type(error).__name__}: {error}")


def recognized(error: BaseException) -> ErrorPattern | None:
    """Recognize an error that has to do with torch: a module, a loss, a backward or a tensor is where it was raised.

    Other libraries say that shapes must match, too; there is nothing to explain about those.
    """
    pattern = pattern_in(error)
    if pattern is None:
        return None
    scene = scene_of(error)
    is_torchs = scene.calls or scene.loss is not None or scene.backward_of is not None or scene.on_the_line()
    return pattern if is_torchs else None
