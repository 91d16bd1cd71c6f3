"""In the child: make the setup that a call names, by a function or by the first cells of a notebook."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nbdebug.core.entry_point import checked_setup, imported
from nbdebug.errors import BadInput

__all__ = ["Loaded", "function_of", "load"]

Loaded = tuple[dict[str, Any], list[str]]  # the arguments of `diagnose`, and what is to be said of how they were made
NAMES = {"model": "model", "loader": "loader"}


def load(target: Mapping[str, Any]) -> Loaded:
    """Return the arguments of `diagnose` that a target makes; what the program raises passes through."""
    setup, notes = _from_notebook(target) if target["kind"] == "notebook" else (_from_function(target), [])
    _check_names(setup, str(target["file"]))
    return setup, notes


def function_of(target: Mapping[str, Any]) -> Any:
    """Import the function that a target names, out of the file that was allowed."""
    sys.path.insert(0, target["folder"])
    name = f"{target['module']}:{target['function']}"
    function = imported(name)
    file = getattr(sys.modules.get(target["module"]), "__file__", None)
    if file is None or Path(file).resolve() != Path(target["file"]):
        raise BadInput(
            f"the module {target['module']!r} is {file or 'a part of Python'}",
            where=name,
            expected=f"the file {target['file']}",
            do="give the file a name that no other module has",
        )
    return function


def _from_function(target: Mapping[str, Any]) -> dict[str, Any]:
    return checked_setup(function_of(target)(), f"{target['module']}:{target['function']}")


def _from_notebook(target: Mapping[str, Any]) -> Loaded:
    """Run the code cells in order until every name exists, and none that comes after: it may train for hours.

    They run in IPython's shell in this process, and not in a kernel: magics, `!` and `display` work as in a notebook,
    the objects are here without being copied, and neither a second process nor Jupyter is needed.
    """
    path, names = Path(target["file"]), dict(target.get("names") or NAMES)
    cells = _code_cells(path)
    os.chdir(path.parent)
    sys.path.insert(0, str(path.parent))
    shell = _shell(path.name)
    ran = 0
    for number, source in enumerate(cells, 1):
        if (target.get("cells") is None and _has(shell, names)) or number > (target.get("cells") or len(cells)):
            break
        shell.execution_count = number
        outcome = shell.run_cell(source, store_history=True, cell_id=f"cell-{number}")
        ran = number
        error = outcome.error_before_exec or outcome.error_in_exec
        if error is not None:
            raise error
    missing = [name for name in names.values() if name.split(".")[0] not in shell.user_ns]
    if missing:
        raise _missing(path, missing, ran, shell.user_ns)
    said = f"The first {ran} of {len(cells)} code cells of {path.name} were run: {', '.join(names.values())} exist."
    return {role: _value(shell.user_ns, name) for role, name in names.items()}, [said]


def _code_cells(path: Path) -> list[str]:
    import nbformat

    try:
        book = nbformat.read(path, as_version=4)
    except Exception as error:  # whatever is not a notebook may raise anything
        seen = f"it cannot be read: {type(error).__name__}: {str(error)[:200]}"
        do = "open it in Jupyter and save it"
        raise BadInput(seen, where=path.name, expected="a Jupyter notebook", do=do) from error
    language = book.metadata.get("kernelspec", {}).get("language", "python")
    if language != "python":
        raise BadInput(f"it is in {language}", where=path.name, expected="a notebook in Python", do="name another one")
    return [cell.source for cell in book.cells if cell.cell_type == "code"]


def _shell(notebook: str) -> Any:
    """Return a fresh shell; the worker gives it a folder of its own in place of the user's."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    class Shell(InteractiveShell):
        """A shell without a window: `%matplotlib inline` and the like have nothing to start."""

        def enable_gui(self, gui: str | None = None) -> None:
            pass

    config = Config({"HistoryManager": {"enabled": False}, "InteractiveShell": {"colors": "NoColor"}})
    shell: Any = Shell.instance(config=config)
    shell.nbdebug_notebook = notebook
    return shell


def _has(shell: Any, names: Mapping[str, str]) -> bool:
    return all(name.split(".")[0] in shell.user_ns for name in names.values())


def _value(known: Mapping[str, Any], name: str) -> Any:
    first, *rest = name.split(".")
    value = known[first]
    for part in rest:
        value = getattr(value, part)
    return value


def _missing(path: Path, missing: list[str], ran: int, known: Mapping[str, Any]) -> BadInput:
    from nbdebug.integrations.lab.candidates import candidates

    found = candidates({name: value for name, value in known.items() if not name.startswith("_")})
    able = "; ".join(
        f"{role}: {', '.join(item['name'] for item in items[:4])}" for role, items in found.items() if items
    )
    return BadInput(
        f"no variable {' and '.join(missing)} exists after {ran} code cells",
        where=path.name,
        expected="the names of variables that a cell of the notebook makes",
        do='pass names={"model": "…", "loader": "…"}' + (f"; what could be meant: {able}" if able else ""),
    )


def _check_names(setup: Mapping[str, Any], where: str) -> None:
    from nbdebug.engine.diagnosis import DIAGNOSE_NAMES as known

    unknown = [str(name) for name in setup if name not in known]
    if unknown:
        raise BadInput(
            f"nbdebug.diagnose has no argument {', '.join(unknown)}",
            where=Path(where).name,
            expected=f"names among {', '.join(sorted(known))}",
            do="rename or leave out the others",
        )
    importlib.invalidate_caches()
