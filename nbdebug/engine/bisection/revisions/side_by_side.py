"""Import two revisions of the same modules side by side, each under a prefix of its own.

`training.net` of a tree becomes `<prefix>.training.net`. Its modules see an import statement of their own, which looks
for what the tree has in the tree, and for everything else where Python does; libraries are shared by both. Objects of
both trees then live in one process and can be exchanged without being written down and read again.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["Tree", "installed"]


class Tree:
    """The folders of one revision, and the prefix of its modules."""

    def __init__(self, prefix: str, folders: Sequence[Path]) -> None:
        self.prefix, self.folders = prefix, [str(folder) for folder in folders if folder.is_dir()]
        self.builtins = {**vars(builtins), "__import__": self._import}
        self.owns = lru_cache(maxsize=None)(self._owns)

    def load(self, module: str) -> ModuleType:
        """Import a module of this tree."""
        return importlib.import_module(f"{self.prefix}.{module}")

    def _owns(self, top: str) -> bool:
        """Whether this tree has a top-level module; without __init__.py only where nothing installed has it."""
        found = PathFinder.find_spec(top, self.folders)
        if found is None or found.origin is not None:
            return found is not None
        elsewhere = PathFinder.find_spec(top, [path for path in sys.path if path and path not in self.folders])
        return elsewhere is None or elsewhere.origin is None

    def _import(
        self, name: str, space: Any = None, local: Any = None, wanted: Sequence[str] | None = (), level: int = 0
    ) -> Any:
        """Import as the statement does, in a module of this tree."""
        top = name.partition(".")[0]
        if level or not self.owns(top):
            return builtins.__import__(name, space, local, wanted or (), level)
        found = builtins.__import__(f"{self.prefix}.{name}", space, local, wanted or (), 0)
        return found if wanted else sys.modules[f"{self.prefix}.{top}"]


class _Loader(SourceFileLoader):
    """Runs a module with the import statement of its tree."""

    tree: Tree

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = self.tree.builtins
        super().exec_module(module)


class _Finder(MetaPathFinder):
    """Finds modules by their prefix, and keeps the user's own work tree from standing in for a revision."""

    def __init__(self, trees: Sequence[Tree], work_tree: Path) -> None:
        self.trees, self.work_tree = trees, work_tree

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        tree = next((tree for tree in self.trees if name.startswith(f"{tree.prefix}.")), None)
        if tree is None:
            return self._elsewhere(name, path, target)
        spec = PathFinder.find_spec(name, path)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(name, spec.loader.path)
            spec.loader.tree = tree
        return spec

    def _elsewhere(self, name: str, path: Sequence[str] | None, target: Any) -> ModuleSpec | None:
        if name.partition(".")[0] == "nbdebug" or not any(tree.owns(name.partition(".")[0]) for tree in self.trees):
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next((s for finder in others if (s := finder.find_spec(name, path, target)) is not None), None)
        file = Path(spec.origin).resolve() if spec is not None and spec.origin and spec.has_location else None
        if file is not None and file.is_relative_to(self.work_tree) and "site-packages" not in file.parts:
            raise ModuleNotFoundError(
                f"{name!r} is imported from outside of both revisions, where it is not known which one is meant",
                name=name,
            )
        return spec


def installed(trees: Sequence[Tree], work_tree: Path) -> None:
    """Make both trees importable; only in a process of its own, because it stays."""
    for tree in trees:
        root = ModuleType(tree.prefix)
        root.__path__ = tree.folders
        sys.modules[tree.prefix] = root
    sys.meta_path.insert(0, _Finder(trees, work_tree))
    plain = importlib.import_module

    def import_module(name: str, package: str | None = None) -> ModuleType:
        """Import by name for whichever tree called, directly or through a library."""
        tree = None if name.startswith(".") else _caller(trees)
        mine = tree is not None and not name.startswith(tree.prefix) and tree.owns(name.partition(".")[0])
        return plain(f"{tree.prefix}.{name}" if tree is not None and mine else name, package)

    importlib.import_module = import_module


def _caller(trees: Sequence[Tree]) -> Tree | None:
    """Return the tree of the nearest caller that belongs to one."""
    frame = sys._getframe(2)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        tree = next((tree for tree in trees if name.startswith(f"{tree.prefix}.")), None)
        if tree is not None or frame.f_back is None:
            return tree
        frame = frame.f_back
    return None
