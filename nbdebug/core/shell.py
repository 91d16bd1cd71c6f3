"""The IPython shell that runs this process's cells, where there is one; nothing is imported for it."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["running_shell"]


def running_shell() -> Any:
    """Return the shell; None in a script."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None
