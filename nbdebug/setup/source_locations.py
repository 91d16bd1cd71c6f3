"""From a place in a model to the line of the user's code that made it."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torch import nn

from nbdebug.core.finding import Place
from nbdebug.core.shell import running_shell
from nbdebug.core.torch_compat import own_modules
from nbdebug.setup.user_code import is_library_file

__all__ = ["definition_of", "name_folder", "places_of", "shown_file"]

_NAMED: dict[Path, str] = {}  # folders whose files are shown with a name of their own


def places_of(model: Any, wheres: Iterable[str]) -> dict[str, Place]:
    """Return the line for each place that was made by code of the user's; columns, samples and keys have none."""
    found = {where: _place(model, where) for where in dict.fromkeys(wheres) if where}
    return {where: place for where, place in found.items() if place is not None}


def definition_of(value: Any) -> tuple[str, Place | None]:
    """Return the source of a function, or of an object's class, and where it stands; empty if it is a library's."""
    code = inspect.unwrap(value) if inspect.isroutine(value) else value if isinstance(value, type) else type(value)
    try:
        lines, first = inspect.getsourcelines(code)
        file = inspect.getsourcefile(code) or ""
    except (OSError, TypeError):  # the source is gone, or was never Python
        return "", None
    if not file or is_library_file(file):
        return "", None
    text = next((line.strip() for line in lines if line.strip() and not line.lstrip().startswith("@")), "")
    return textwrap.dedent("".join(lines)), _shown(file, first, text)


def _place(model: Any, where: str) -> Place | None:
    """Walk down the path and keep the deepest assignment `self.name = …` that stands in the user's own code."""
    place, owner = None, model
    for name in where.split("."):
        place = _assignment(type(owner), name) or place
        owner = _child(owner, name)
        if owner is None:
            break
    return place


def _child(owner: Any, name: str) -> Any:
    """Return a submodule by its registered name, without calling a property of the user's."""
    children = own_modules(owner) if isinstance(owner, nn.Module) else None
    return children.get(name) if isinstance(children, dict) else None


def _assignment(kind: type, name: str) -> Place | None:
    for base in kind.__mro__:
        start = base.__dict__.get("__init__")
        code = getattr(inspect.unwrap(start) if callable(start) else start, "__code__", None)
        if code is None or is_library_file(code.co_filename):
            continue
        try:
            lines, first = inspect.getsourcelines(code)
            tree = ast.parse(textwrap.dedent("".join(lines)))
        except (OSError, TypeError, SyntaxError, ValueError):  # the source is gone, or is not what was run
            continue
        for node in ast.walk(tree):
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and _assigns(node, name):
                return _shown(code.co_filename, first + node.lineno - 1, lines[node.lineno - 1].strip())
    return None


def _assigns(node: ast.Assign | ast.AnnAssign, name: str) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    flat = [item for target in targets for item in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return any(isinstance(t, ast.Attribute) and t.attr == name and isinstance(t.value, ast.Name) for t in flat)


def _shown(filename: str, line: int, text: str) -> Place:
    """Name a file from the working folder where it lies below it; a notebook's cell by its number."""
    shell = running_shell()
    number = getattr(getattr(shell, "compile", None), "_filename_map", {}).get(filename)
    if number is not None:
        return Place(f"cell [{number}]", line, text, in_notebook=True, cell=int(number))
    if "ipykernel_" in filename or filename.startswith("<"):
        return Place("a cell of the notebook", line, text, in_notebook=True)
    return Place(shown_file(filename), line, text)


def name_folder(folder: Path, name: str) -> None:
    """Show files below a folder as `name:path`, such as those of one revision of a repository."""
    _NAMED[folder] = name


def shown_file(filename: str) -> str:
    """Name a file from the working folder where it lies below it, and else without its folders."""
    if "ipykernel_" in filename or filename.startswith("<"):
        return "notebook cell"
    path = Path(filename)
    named = next((folder for folder in _NAMED if path.is_relative_to(folder)), None)
    if named is not None:
        return f"{_NAMED[named]}:{path.relative_to(named).as_posix()}"
    return path.relative_to(Path.cwd()).as_posix() if path.is_relative_to(Path.cwd()) else path.name
