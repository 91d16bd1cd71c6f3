"""Where in the user's project an exception, or a process that hangs, was."""

from __future__ import annotations

import linecache
import re
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nbdebug.core.shell import running_shell

__all__ = ["described_error", "innermost", "of_the_project", "place_of"]

_FRAME = re.compile(r'^  File "(?P<file>.+?)", line (?P<line>\d+) in ', re.MULTILINE)
MOST = 6000  # characters of a traceback


def described_error(error: BaseException, root: Path) -> dict[str, Any]:
    """Return the type, the message, the innermost line of the project and the traceback without frames of others."""
    stack = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in stack if place_of(frame.filename, frame.lineno or 0, root)]
    shown = traceback.format_list(own or stack) + traceback.format_exception_only(error)
    last = own[-1] if own else None
    return {
        "type": type(error).__name__,
        "message": str(error)[:2000],
        "place": place_of(last.filename, last.lineno or 0, root) if last is not None else None,
        "traceback": "".join(shown).replace(f"{root}/", "")[-MOST:],
    }


def innermost(stack: str, root: Path) -> dict[str, Any] | None:
    """Return the innermost line of the project in what `faulthandler` wrote, which begins with the newest call."""
    found: Iterable[re.Match[str]] = _FRAME.finditer(stack)
    places = (place_of(frame["file"], int(frame["line"]), root) for frame in found)
    return next((place for place in places if place is not None), None)


def of_the_project(stack: str, root: Path) -> str:
    """Return the first line of what `faulthandler` wrote, and the frames of the project."""
    kept = [stack.partition("\n")[0]] if stack.startswith("Fatal") else []
    for frame in _FRAME.finditer(stack):
        place = place_of(frame["file"], int(frame["line"]), root)
        kept += [f"  {place['file']}, line {place['line']}: {place['text']}"] if place is not None else []
    return "\n".join(kept)


def place_of(file: str, line: int, root: Path) -> dict[str, Any] | None:
    """Return a line of a file under the root, or of a cell of the notebook; None for code of anybody else."""
    text = linecache.getline(file, line).strip()
    shell = running_shell()
    cell = getattr(getattr(shell, "compile", None), "_filename_map", {}).get(file)
    if cell is not None:
        return {"file": getattr(shell, "nbdebug_notebook", "notebook"), "line": line, "text": text, "cell": int(cell)}
    path = Path(file)
    if not path.is_absolute() or not path.is_relative_to(root) or _is_installed(path):
        return None
    return {"file": path.relative_to(root).as_posix(), "line": line, "text": text, "cell": None}


def _is_installed(path: Path) -> bool:
    """Whether a file belongs to Python or to an installed package, whose environment may lie in the project."""
    return "site-packages" in path.parts or path.is_relative_to(sysconfig.get_path("stdlib"))
