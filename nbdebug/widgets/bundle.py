"""Where the built front end of a custom view lies, and whether it is there.

The TypeScript sources are bundled when the package is built. Where that was not possible (no Node at build
time), each custom view falls back to plain ipywidgets.
"""

import warnings
from functools import cache
from pathlib import Path

STATIC = Path(__file__).parent / "static"


def is_built(name: str) -> bool:
    """Return whether the script and the style sheet of the view ``name`` were built."""
    return all((STATIC / f"{name}{suffix}").is_file() for suffix in (".js", ".css"))


def is_usable(name: str) -> bool:
    """Return whether the view ``name`` can be shown; if not, warn once that plain ipywidgets stand in for it."""
    if not is_built(name):
        _warn()
        return False
    return True


@cache
def _warn() -> None:
    warnings.warn(
        "The custom views of nbdebug are not part of this installation, because Node.js was missing when it was "
        "built; plain ipywidgets stand in for them. To get them, install Node.js 20 or newer and reinstall.",
        stacklevel=4,
    )


def read(name: str) -> tuple[str, str]:
    """Return the script and the style sheet of the view ``name`` as text."""
    if not is_built(name):
        raise FileNotFoundError(
            f"The view {name!r} has no bundle in {STATIC}. The bundle is made when the package is built with "
            "Node.js 20 or newer on the PATH; install Node.js and reinstall, or use the plain fallback."
        )
    script, style = ((STATIC / f"{name}{suffix}").read_text("utf-8") for suffix in (".js", ".css"))
    return script, style
