"""Functions that reach for the user's own objects are given copies instead.

A loss or a training step written in a notebook often names the global `model` rather than its argument, appends to a
global list or steps a global GradScaler. Run as it is, it would change the user's objects; so its globals, its closure
and its defaults are looked through, and every object in them that has a state is exchanged for a copy. What a library
put on a model (a closure or an object around its `forward`) is treated alike, but for the library's own globals.
"""

from __future__ import annotations

import copy
import types
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from nbdebug.setup.careful_copy import borrowed_loader, careful_copy
from nbdebug.setup.object_graph import copy_cost
from nbdebug.setup.object_walk import children_of
from nbdebug.setup.references import (
    attributes_of,
    fields_of,
    has_identity,
    has_state,
    is_reference,
    leads_to,
    rebuilt_reference,
    repoint,
)
from nbdebug.setup.user_code import globals_used, is_users_function, methods_of, writes_outside

__all__ = ["Rebinder", "says_reached"]

_DEEP = 4  # functions that call functions by their names: how far they are followed
_COPY_AT_MOST_BYTES = 64_000_000
_COPY_AT_MOST_OBJECTS = 50_000


class Rebinder:
    """Exchanges live objects for copies: those of the memo, and new ones of what else has a state."""

    def __init__(self, memo: dict[int, Any], notes: list[str]) -> None:
        self.memo, self.notes = memo, notes
        self._sandboxes = {id(sandbox) for key, sandbox in memo.items() if id(sandbox) != key}
        self._live = {key for key, sandbox in memo.items() if has_identity(sandbox)}
        self._spaces: dict[int, dict[str, Any]] = {}
        self._looked_up: set[tuple[int, str]] = set()
        self._cells: dict[int, Any] = {}
        self._overrides: dict[type, dict[str, Any]] = {}
        self._needed: set[int] = set()  # the functions that would reach something live if they were left alone
        self._reached: list[str] = []
        self._kept: list[Any] = []  # alive, because they are known by their ids

    def rebound(self, function: Any) -> tuple[Any, list[str]]:
        """Return the function with live objects exchanged, and the names of the user's things that it reached for."""
        self._reached = []
        sandbox = self.exchanged("", function)
        return sandbox, sorted(set(self._reached))

    def exchanged(self, name: str, value: Any, depth: int = _DEEP) -> Any:
        """Return what a function on the copy may have under this name."""
        # These are copied by deepcopy, but not the functions in them.
        is_bound = isinstance(value, (types.MethodType, partial)) or (isinstance(value, tuple) and is_reference(value))
        if not has_identity(value) or (id(value) in self._sandboxes and not is_bound):
            return value
        if id(value) in self.memo and not is_bound:
            if self.memo[id(value)] is value:  # shared with the copy, because it cannot be copied or is data
                return self._shell(name, value, depth)
            if id(value) in self._live:
                self._reached.append(name)
            return self.memo[id(value)]
        if isinstance(value, types.FunctionType):
            return self._function(value, depth)
        if is_reference(value):
            return rebuilt_reference(name, value, lambda n, part: self.exchanged(n, part, depth), self.memo)
        if isinstance(value, DataLoader):  # iterated as it is, it would reset the user's workers or move a generator
            self.memo[id(value)] = borrowed_loader(value)
            return self.memo[id(value)]
        return self._copied(name, value) if has_state(value) else self._shell(name, value, depth)

    def repoint(self, *roots: Any) -> None:
        """Exchange what these copies hold and copying has left as it was: functions, methods, partials, references."""
        repoint(
            roots, self._repointed, lambda part: id(part) in self._sandboxes and self.memo.get(id(part)) is not part
        )

    def _repointed(self, name: str, value: Any) -> Any:
        if isinstance(value, types.MethodType):
            new = self.exchanged(name, value)
            return new if new.__self__ is not value.__self__ or id(new.__func__) in self._needed else value
        return self.exchanged(name, value) if is_reference(value) else self._shell(name, value, _DEEP)

    def overrides(self, kind: type) -> dict[str, Any]:
        """Return those methods of a user's class that reach for live objects, rebound."""
        if kind not in self._overrides:
            self._overrides[kind] = {}
            for name, method in methods_of(kind):
                sandbox, reached = self.rebound(method)
                if id(sandbox) in self._needed:
                    self._overrides[kind][name] = sandbox
                if reached:
                    self.notes.append(says_reached(f"{kind.__name__}.{name}", reached))
        return self._overrides[kind]

    def _function(self, live: types.FunctionType, depth: int) -> Any:
        is_users = is_users_function(live)
        if depth == 0 if is_users else not (self._leads(live) or _keeps_count(live)):
            return live
        space = self._space(live) if is_users else live.__globals__
        cells = [(old, self._cell(old)) for old in live.__closure__ or ()]
        sandbox = types.FunctionType(live.__code__, space, live.__name__, None, tuple(new for _, (new, _) in cells))
        self.memo[id(live)] = sandbox
        self._sandboxes.add(id(sandbox))
        for name, (old, (new, is_first)) in zip(live.__code__.co_freevars, cells, strict=True):
            if is_first:
                self._fill_cell(name, old, new, depth)
        if is_users:
            self._look_up_globals(live, depth)
        sandbox.__defaults__ = self._defaults(live.__defaults__, depth)
        kept = live.__kwdefaults__ or {}
        sandbox.__kwdefaults__ = {name: self.exchanged(name, value, depth) for name, value in kept.items()} or None
        sandbox.__dict__.update(attributes_of(live, lambda name, part: self.exchanged(name, part, depth)))
        sandbox.__module__, sandbox.__qualname__, sandbox.__doc__ = live.__module__, live.__qualname__, live.__doc__
        if self._differs(live, sandbox):
            self._needed.add(id(sandbox))
        return sandbox

    def _differs(self, live: types.FunctionType, sandbox: types.FunctionType) -> bool:
        """Whether a function could reach or change something live, so that it cannot stay what it is."""
        before, after = (dict(children_of(one, "cells", "defaults", "globals")) for one in (live, sandbox))
        changed = (after[name] for name, old in before.items() if name in after and after[name] is not old)
        return writes_outside(live.__code__) or any(map(self._matters, changed))

    def _matters(self, new: Any) -> bool:
        return not isinstance(new, types.FunctionType) or id(new) in self._needed

    def _cell(self, old: Any) -> tuple[Any, bool]:
        """Return the new cell for an old one; functions that shared one go on sharing one."""
        if id(old) in self._cells:
            return self._cells[id(old)], False
        self._cells[id(old)] = types.CellType()
        return self._cells[id(old)], True

    def _fill_cell(self, name: str, old: Any, new: Any, depth: int) -> None:
        try:
            value = old.cell_contents
        except ValueError:  # the user's cell is not filled either
            return
        new.cell_contents = self.exchanged(name, value, depth)

    def _space(self, live: types.FunctionType) -> dict[str, Any]:
        """Return the new globals: one for all functions of a module, so that what one writes the others read."""
        space = live.__globals__
        return self._spaces.setdefault(id(space), dict(space))

    def _look_up_globals(self, live: types.FunctionType, depth: int) -> None:
        space = live.__globals__
        for name in globals_used(live.__code__):
            if name in space and (id(space), name) not in self._looked_up:
                self._looked_up.add((id(space), name))
                self._spaces[id(space)][name] = self.exchanged(name, space[name], depth - 1)

    def _defaults(self, values: tuple[Any, ...] | None, depth: int) -> tuple[Any, ...] | None:
        return None if values is None else tuple(self.exchanged("", value, depth) for value in values)

    def _shell(self, name: str, value: Any, depth: int) -> Any:
        """Make an object of a library again around copies of the live things that it leads to; else leave it."""
        if not (fields := fields_of(value)) or not self._leads(value):
            return value
        try:
            sandbox = object.__new__(type(value))  # copying by its own rules may be forbidden, as for pickling
        except TypeError:  # a kind of container, or written in C
            return value
        self.memo[id(value)] = sandbox
        self._kept.append(value)
        self._sandboxes.add(id(sandbox))
        for field, part in fields:
            new = self._field(name, part, depth)
            if field in getattr(value, "__dict__", {}):
                vars(sandbox)[field] = new  # past properties and checks of its own
            else:
                object.__setattr__(sandbox, field, new)
        return sandbox

    def _field(self, name: str, part: Any, depth: int) -> Any:
        """Return what a rebuilt object holds; lists and dicts are rebuilt as well, because copying them may fail."""
        if id(part) in self.memo or type(part) not in (list, dict) or not self._leads(part):
            return self.exchanged(name, part, depth)
        sandbox = self.memo[id(part)] = type(part)()
        self._kept.append(part)
        self._sandboxes.add(id(sandbox))
        if isinstance(part, dict):
            sandbox.update({key: self._field(name, item, depth) for key, item in part.items()})
        else:
            sandbox.extend(self._field(name, item, depth) for item in part)
        return sandbox

    def _leads(self, value: Any) -> bool:
        """Whether an object would let a copy reach something live, or something with a state that is not copied yet."""
        return leads_to(value, self._is_live, lambda part: id(part) in self._sandboxes)

    def _is_live(self, value: Any) -> bool:
        if id(value) in self.memo:
            return id(value) in self._live and self.memo[id(value)] is not value
        return isinstance(value, (nn.Module, torch.autocast)) and id(value) not in self._sandboxes

    def _copied(self, name: str, value: Any) -> Any:
        """Copy what has a state that the function could change; leave what cannot be copied, and say so."""
        held = copy_cost(value)
        if held.size > _COPY_AT_MOST_BYTES or held.objects > _COPY_AT_MOST_OBJECTS:
            self.notes.append(f"Your {name} ({held}) is too large to copy; the original is used.")
            return value
        try:
            memo = dict(self.memo)
            # Half a progress bar or log writer would hang where a whole one would not: only a network is patched up.
            allowed = object if isinstance(value, nn.Module) else (torch.Tensor, torch.Generator)
            sandbox = careful_copy(value, memo, self.notes, name, stand_ins=allowed)
        except Exception:
            self.notes.append(
                f"Your {name} ({type(value).__name__}) cannot be copied; changes that experiments make to it remain."
            )
            return value
        if isinstance(value, torch.optim.Optimizer):  # whose pickling leaves attributes out, as the parameters of LBFGS
            missing = {
                n: p
                for n, p in vars(value).items()
                if n not in vars(sandbox) and isinstance(p, (list, int, type(None)))
            }
            vars(sandbox).update(copy.deepcopy(missing, memo))
        self._kept.append(memo.pop(id(memo), None))
        self.memo.update(memo)
        self.memo[id(value)] = sandbox
        self._sandboxes.add(id(sandbox))
        self._sandboxes.update(id(part) for key, part in memo.items() if id(part) != key)
        self.repoint(sandbox)
        return sandbox


def says_reached(label: str, names: list[str]) -> str:
    """Return the note that a function refers to live objects, for which experiments give it copies."""
    return f"{label} refers to {' and '.join(names)} outside of its arguments; experiments give it copies of these."


def _keeps_count(function: types.FunctionType) -> bool:
    """Whether a function of a library's changes a variable that it shares with the original's."""
    return bool(function.__closure__) and writes_outside(function.__code__, is_global=False)
