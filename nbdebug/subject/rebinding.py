"""Functions that reach for the user's own objects are given copies instead.

A loss or a training step written in a notebook often names the global `model` rather than its argument, appends to a
global list or steps a global GradScaler. Run as it is, it would change the user's objects; so its globals, its closure
and its defaults are looked through, and every object in them that has a state is exchanged for a copy.
"""

from __future__ import annotations

import collections
import dis
import types
import weakref
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.subject.copies import borrowed_loader, careful_copy
from nbdebug.subject.holdings import GENERATORS, holdings_of
from nbdebug.subject.provenance import is_users_class, is_users_function, methods_of, names_used

__all__ = ["Rebinder"]

_DEEP = 4  # functions that call functions: how far they are followed
_COPY_AT_MOST_BYTES = 64_000_000
_COPY_AT_MOST_OBJECTS = 50_000
_CONTAINERS = (list, dict, set, bytearray, collections.deque)
_ATOMS = (
    str, bytes, int, float, complex, type, types.ModuleType, types.BuiltinFunctionType, torch.dtype, torch.device,
    torch.Size, range,
)  # fmt: skip


class Rebinder:
    """Exchanges live objects for copies: those of the memo, and new ones of what else has a state."""

    def __init__(self, memo: dict[int, Any], notes: list[str]) -> None:
        self.memo, self.notes = memo, notes
        self._twins = {id(twin) for twin in memo.values()}
        self._live = {key for key, twin in memo.items() if _has_identity(twin)}
        self._spaces: dict[int, dict[str, Any]] = {}
        self._looked_up: set[tuple[int, str]] = set()
        self._cells: dict[int, Any] = {}
        self._overrides: dict[type, dict[str, Any]] = {}
        self._needed: set[int] = set()  # the functions that would reach something live if they were left alone
        self._reached: list[str] = []

    def rebound(self, function: Any) -> tuple[Any, list[str]]:
        """Give the function with live objects exchanged, and the names of the user's things that it reached for."""
        self._reached = []
        twin = self.exchanged("", function)
        return twin, sorted(set(self._reached))

    def exchanged(self, name: str, value: Any, depth: int = _DEEP) -> Any:
        """Give what a function on the copy may have under this name."""
        if id(value) in self._twins or not _has_identity(value):
            return value
        if id(value) in self.memo:
            if id(value) in self._live and self.memo[id(value)] is not value:
                self._reached.append(name)
            return self.memo[id(value)]
        if isinstance(value, types.FunctionType):
            return self._function(value, depth)
        if isinstance(value, types.MethodType):
            owner = self.exchanged(name or value.__name__, value.__self__, depth)
            function = self.exchanged("", value.__func__, depth)
            is_same = owner is value.__self__ and function is value.__func__
            return value if is_same else types.MethodType(function, owner)
        if isinstance(value, partial):
            return self._partial(value, depth)
        if isinstance(value, weakref.ref):
            return self._reference(value)
        if isinstance(value, DataLoader):  # iterated as it is, it would reset the user's workers or move a generator
            self.memo[id(value)] = borrowed_loader(value)
            return self.memo[id(value)]
        return self._copied(name, value)

    def overrides(self, kind: type) -> dict[str, Any]:
        """Give those methods of a user's class that reach for live objects, rebound."""
        if kind not in self._overrides:
            self._overrides[kind] = {}
            for name, method in methods_of(kind):
                twin, reached = self.rebound(method)
                if id(twin) in self._needed:
                    self._overrides[kind][name] = twin
                if reached:
                    self.notes.append(_says(f"{kind.__name__}.{name}", reached))
        return self._overrides[kind]

    def _function(self, live: types.FunctionType, depth: int) -> Any:
        if depth == 0 or not is_users_function(live):
            return live
        cells = [(old, self._cell(old)) for old in live.__closure__ or ()]
        twin = types.FunctionType(
            live.__code__, self._space(live), live.__name__, None, tuple(new for _, (new, _) in cells)
        )
        self.memo[id(live)] = twin
        self._twins.add(id(twin))
        for name, (old, (new, is_first)) in zip(live.__code__.co_freevars, cells, strict=True):
            if is_first:
                self._fill_cell(name, old, new, depth)
        self._look_up_globals(live, depth)
        twin.__defaults__ = self._defaults(live.__defaults__, depth)
        kept = live.__kwdefaults__ or {}
        twin.__kwdefaults__ = {name: self.exchanged(name, value, depth - 1) for name, value in kept.items()} or None
        twin.__dict__.update(live.__dict__)
        twin.__module__, twin.__qualname__, twin.__doc__ = live.__module__, live.__qualname__, live.__doc__
        if self._differs(live, twin):
            self._needed.add(id(twin))
        return twin

    def _differs(self, live: types.FunctionType, twin: types.FunctionType) -> bool:
        """Whether a function could reach or change something live, so that it cannot stay what it is."""
        if _writes_outside(live.__code__):
            return True
        before, after = live.__globals__, twin.__globals__
        pairs = [(before[name], after[name]) for name in names_used(live.__code__) if name in before]
        for old, new in zip(live.__closure__ or (), twin.__closure__ or (), strict=True):
            with suppress(ValueError):  # a cell that is not filled
                pairs.append((old.cell_contents, new.cell_contents))
        pairs.extend(zip(live.__defaults__ or (), twin.__defaults__ or (), strict=True))
        pairs.extend((value, (twin.__kwdefaults__ or {})[name]) for name, value in (live.__kwdefaults__ or {}).items())
        return any(old is not new and self._matters(new) for old, new in pairs)

    def _matters(self, new: Any) -> bool:
        return not isinstance(new, types.FunctionType) or id(new) in self._needed

    def _cell(self, old: Any) -> tuple[Any, bool]:
        """Give the new cell for an old one; functions that shared one go on sharing one."""
        if id(old) in self._cells:
            return self._cells[id(old)], False
        self._cells[id(old)] = types.CellType()
        return self._cells[id(old)], True

    def _fill_cell(self, name: str, old: Any, new: Any, depth: int) -> None:
        try:
            value = old.cell_contents
        except ValueError:  # the user's cell is not filled either
            return
        new.cell_contents = self.exchanged(name, value, depth - 1)

    def _space(self, live: types.FunctionType) -> dict[str, Any]:
        """Give the new globals: one for all functions of a module, so that what one writes the others read."""
        space = live.__globals__
        return self._spaces.setdefault(id(space), dict(space))

    def _look_up_globals(self, live: types.FunctionType, depth: int) -> None:
        space = live.__globals__
        for name in names_used(live.__code__):
            if name in space and (id(space), name) not in self._looked_up:
                self._looked_up.add((id(space), name))
                self._spaces[id(space)][name] = self.exchanged(name, space[name], depth - 1)

    def _defaults(self, values: tuple[Any, ...] | None, depth: int) -> tuple[Any, ...] | None:
        return None if values is None else tuple(self.exchanged("", value, depth - 1) for value in values)

    def _partial(self, value: partial[Any], depth: int) -> Any:
        function = self.exchanged("", value.func, depth - 1) if depth else value.func
        args = [self.exchanged("", part, depth - 1) for part in value.args]
        keywords = {name: self.exchanged(name, part, depth - 1) for name, part in value.keywords.items()}
        old, new = (value.func, *value.args, *value.keywords.values()), (function, *args, *keywords.values())
        is_same = all(a is b for a, b in zip(old, new, strict=True))
        return value if is_same else partial(function, *args, **keywords)

    def _reference(self, value: weakref.ref[Any]) -> Any:
        twin = self.memo.get(id(value()))
        return weakref.ref(twin) if twin is not None else value

    def _copied(self, name: str, value: Any) -> Any:
        """Copy what has a state that the function could change; leave what belongs to a library, and say so."""
        if not _has_state(value):
            return value
        held = holdings_of(value)
        if held.size > _COPY_AT_MOST_BYTES or held.objects > _COPY_AT_MOST_OBJECTS:
            self.notes.append(f"Your {name} ({held}) is too large to copy; the original is used.")
            return value
        try:
            memo = dict(self.memo)
            # Half a progress bar or log writer would hang where a whole one would not: only a network is patched up.
            allowed = object if isinstance(value, nn.Module) else (torch.Tensor, torch.Generator)
            twin = careful_copy(value, memo, self.notes, name, stand_ins=allowed)
        except Exception:
            self.notes.append(
                f"Your {name} ({type(value).__name__}) cannot be copied; changes that experiments make to it remain."
            )
            return value
        self.memo.update(memo)
        self.memo[id(value)] = twin
        self._twins.add(id(twin))
        return twin


def _says(label: str, names: list[str]) -> str:
    return f"{label} uses your own {', '.join(names)}; on the copy it gets the copy's."


def _has_identity(value: Any) -> bool:
    """Whether an object could be one and not another; numbers, texts, classes and modules of code are all alike."""
    return value is not None and not isinstance(value, _ATOMS)


def _has_state(value: Any) -> bool:
    """Whether this is an object of the user's or of torch that an experiment could change."""
    if isinstance(value, Dataset) or hasattr(value, "__next__"):
        return False
    if isinstance(value, (*_CONTAINERS, torch.Tensor, np.ndarray, nn.Module, *GENERATORS)):
        return True
    if isinstance(value, tuple):
        return any(_has_identity(part) and _has_state(part) for part in value)
    kind = type(value)
    if not getattr(value, "__dict__", None):
        return False  # a sentinel, which must stay the one that it is
    return kind.__module__.split(".")[0] == "torch" or is_users_class(kind)


def _writes_outside(code: types.CodeType) -> bool:
    """Whether a function rebinds a name that is not its own: `global` or `nonlocal`."""
    for step in dis.get_instructions(code):
        if step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            return True
        if step.opname == "STORE_DEREF" and step.argval in code.co_freevars:
            return True
    return any(isinstance(inner, types.CodeType) and _writes_outside(inner) for inner in code.co_consts)
