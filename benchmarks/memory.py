"""The most memory that this process held at once, as Linux counts it."""

from __future__ import annotations

import re
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"


def reset_peak() -> None:
    """Begin a new count: from here on the peak is what is held now, or more."""
    CLEAR.write_text(RESET_PEAK)


def peak_bytes() -> int:
    """Return the most that was resident since the last reset."""
    return _kilobytes("VmHWM") * 1024


def resident_bytes() -> int:
    """Return what is resident now."""
    return _kilobytes("VmRSS") * 1024


def _kilobytes(field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+) kB", STATUS.read_text(), re.MULTILINE)
    if found is None:
        raise OSError(f"{STATUS} has no line {field}")
    return int(found[1])
