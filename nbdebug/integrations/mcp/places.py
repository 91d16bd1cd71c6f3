"""Which files of the project a call may name: those under the root, wherever links lead."""

from __future__ import annotations

from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from nbdebug.errors import BadInput

__all__ = ["file_under", "target_under"]

FUNCTION = 'a function as "package.module:make_setup" or "folder/file.py:make_setup", or the path of a notebook'


def file_under(root: Path, given: str, *endings: str) -> Path:
    """Return the file that a path from the root names; refuse one that is elsewhere, absent or of another kind."""
    try:
        path = (root / given).resolve()
        known = path.is_file()
    except (OSError, ValueError, RuntimeError) as error:
        raise _refused(given, f"the path cannot be read: {error}", root) from error
    if not path.is_relative_to(root):
        raise _refused(given, "it is outside the root of this server", root)
    if not known:
        raise _refused(given, "there is no such file", root)
    if endings and path.suffix.lower() not in endings:
        raise BadInput(
            f"it ends in {path.suffix!r}",
            where=given,
            expected=f"a file that ends in {' or '.join(endings)}",
            do="check the path",
        )
    return path


def target_under(root: Path, given: str) -> dict[str, Any]:
    """Return where a setup is made: a notebook, or a function with its module, its file and the folder to import from.

    Nothing is imported for it.
    """
    name, _, function = given.rpartition(":")
    if not name:
        if Path(given).suffix.lower() != ".ipynb":
            raise _bad(given, "it names no function", "write package.module:make_setup, or the path of a notebook")
        return {"kind": "notebook", "file": str(file_under(root, given, ".ipynb"))}
    if not all(part.isidentifier() for part in function.split(".")):
        raise _bad(given, f"{function!r} is no name of a function", "write package.module:make_setup")
    if name.endswith(".py"):
        file = file_under(root, name, ".py")
        return _function(file, file.stem, function, file.parent)
    for folder in (root, root / "src"):
        found = _module_file(name, folder)
        if found is not None:
            return _function(file_under(root, str(found), ".py"), name, function, folder)
    raise _bad(
        given, f"there is no module {name!r} under the root", "name a module of the project, or a file by its path"
    )


def _function(file: Path, module: str, function: str, folder: Path) -> dict[str, Any]:
    return {"kind": "function", "file": str(file), "module": module, "function": function, "folder": str(folder)}


def _module_file(name: str, folder: Path) -> Path | None:
    """Return the file of a module as the import system would find it from this folder, without importing anything."""
    where: list[str] | None = [str(folder)]
    spec = None
    for part in name.split("."):
        if not part.isidentifier() or where is None:
            return None
        spec = PathFinder.find_spec(part, where)
        if spec is None:
            return None
        where = list(spec.submodule_search_locations) if spec.submodule_search_locations is not None else None
    return Path(spec.origin) if spec is not None and spec.origin else None


def _refused(given: str, seen: str, root: Path) -> BadInput:
    return BadInput(
        seen,
        where=given,
        expected=f"a file under {root}",
        do="start the server with --root on the folder of the project",
    )


def _bad(given: str, seen: str, do: str) -> BadInput:
    return BadInput(seen, where=given, expected=FUNCTION, do=do)
