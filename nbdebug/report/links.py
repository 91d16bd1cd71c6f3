"""Links from a report to the user's own files, where they lead somewhere and tell nothing."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from nbdebug.core.finding import Place

__all__ = ["link_to"]


def link_to(place: Place | None, folder: Path | None = None) -> str:
    """Return the address of the file that made a part of the model, as seen from the folder of the report.

    It is empty unless the file is a module below the working folder and the report lies there as well: any other way
    would name folders of this machine, or lead astray once the report is read elsewhere.
    """
    if place is None or not place.file.endswith(".py"):
        return ""
    parts = PurePosixPath(place.file)
    if parts.is_absolute() or ".." in parts.parts or any(mark in place.file for mark in "\\:"):
        return ""
    here = Path.cwd()
    start = here if folder is None else folder.resolve()
    if not start.is_relative_to(here.resolve()) or not os.path.isfile(here / parts):
        return ""
    up = len(start.relative_to(here.resolve()).parts) if folder is not None else 0
    return ("../" * up or "./") + quote(parts.as_posix())
