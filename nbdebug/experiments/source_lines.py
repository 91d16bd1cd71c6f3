"""Which line of the user's own code is running, or was running when something was made or went wrong."""

from __future__ import annotations

import linecache
import re
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

from nbdebug.setup.user_code import is_own_file, is_program_file

__all__ = ["line_in_text", "line_now", "line_of", "users_frame"]

_IN_TEXT = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in [^\n]*(?:\n\s*(?P<code>[^\n]*))?')

Place = tuple[str, int, str]  # file, line, code


def line_now() -> str:
    """Return the user's line that is being executed, seen from a hook or a mode of ours."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_own_file(frame.f_code.co_filename):
        frame = frame.f_back  # the hook itself
    return _innermost(_outwards(frame))


def users_frame() -> FrameType | None:
    """Return the innermost frame of the user's own code that is running, seen from a hook of ours."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_program_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def line_of(error: BaseException) -> str:
    """Return the innermost line of the user's that an exception passed through."""
    frames = traceback.extract_tb(error.__traceback__)
    return _innermost((f.filename, f.lineno or 0, f.line or "") for f in reversed(frames))


def line_in_text(lines: Iterable[str]) -> str:
    """Return the innermost line of the user's in a traceback that was written down, as anomaly mode does."""
    found = list(_IN_TEXT.finditer("".join(lines)))
    return _innermost((m["file"], int(m["line"]), m["code"] or "") for m in reversed(found))


def _outwards(frame: FrameType | None) -> Iterable[Place]:
    while frame is not None:
        file, line = frame.f_code.co_filename, frame.f_lineno
        yield file, line, linecache.getline(file, line, frame.f_globals)
        frame = frame.f_back


def _innermost(places: Iterable[Place]) -> str:
    """Return the first place in the program; ours, reached before, means that there is none.

    User code is only ever called from here, so beyond a frame of ours lies the cell that started nbdebug.
    """
    for file, line, code in places:
        if is_own_file(file):
            return ""
        if is_program_file(file):
            return f"{_short(file)}:{line}: {code.strip()}".rstrip(": ")
    return ""


def _short(file: str) -> str:
    """Name a file without its folders; the files that stand for notebook cells have names that say nothing."""
    if "ipykernel_" in file or file.startswith("<ipython-input"):
        return "notebook cell"
    return Path(file).name
