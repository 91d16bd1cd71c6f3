"""A setup by name: import the function that `package.module:function` names, and call it."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from nbdebug.errors import BadInput

__all__ = ["imported", "setup_from"]

ARGUMENTS = "a function that returns a dict of the arguments of nbdebug.diagnose"


def setup_from(name: str) -> dict[str, Any]:
    """Import the function and return what it returns; an error in it becomes one message for the user."""
    function = imported(name)
    try:
        setup = function()
    except Exception as error:
        seen = f"the function raised {type(error).__name__}: {error}"
        raise _bad(name, seen, "call it separately and fix it") from error
    return checked_setup(setup, name)


def checked_setup(setup: Any, name: str) -> dict[str, Any]:
    """Return a setup as it is if it is a dict with a model and a loader; refuse it otherwise."""
    if isinstance(setup, dict) and {"model", "loader"} <= set(setup):
        return setup
    keys = f" with {', '.join(map(str, setup))}" if isinstance(setup, dict) else ""
    seen = f"it returned a {type(setup).__name__}{keys}"
    raise _bad(name, seen, 'return {"model": …, "loader": …, "loss_fn": …, "optimizer": …}')


def imported(name: str) -> Callable[[], Any]:
    """Return the function; the working folder is searched first, as `python -m` does."""
    module, _, attribute = name.partition(":")
    if not attribute:
        raise _bad(name, "it has no colon", "write package.module:function")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except ModuleNotFoundError as error:
        raise _bad(name, f"there is no module {error.name!r}", "run this where the module can be imported") from error
    except AttributeError as error:
        raise _bad(name, str(error), "name a function of that module") from error
    except Exception as error:
        seen = f"importing it raised {type(error).__name__}: {error}"
        raise _bad(name, seen, "import it separately and fix it") from error
    if not callable(found):
        raise _bad(name, f"it is a {type(found).__name__}", "name a function that returns a dict")
    return found  # type: ignore[no-any-return]


def _bad(name: str, seen: str, do: str) -> BadInput:
    return BadInput(seen, where=name, expected=ARGUMENTS, do=do)
