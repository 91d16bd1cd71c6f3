"""Whether two objects that were made apart are the same: by values and by code, never by identity.

Random generators are left out: seeds are an ingredient of their own. Parts of the two set-ups that stand for each other
(both models, both optimizers) count as the same wherever they are met, because they are compared by themselves.
"""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy

from nbdebug.setup.object_graph import GENERATORS
from nbdebug.setup.object_walk import children_of
from nbdebug.setup.user_code import is_library_file, is_users_class, methods_of

__all__ = ["Alike", "same_code"]

DEPTH = 12
MOST_VALUES = 2_000_000  # of a larger array, so many values are compared, evenly spaced
MOST_ITEMS = 100_000
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size, range)


class Alike:
    """Compares objects of the good set-up with objects of the bad one."""

    def __init__(self, pairs: Iterable[tuple[Any, Any]] = ()) -> None:
        """Take the parts that stand for each other; modules and parameters inside of them do as well."""
        self._sides: tuple[set[int], set[int]] = (set(), set())
        self._kept = list(pairs)
        for pair in self._kept:
            for side, part in zip(self._sides, pair, strict=True):
                side.update(map(id, _with_inner(part)))
        self._seen: set[tuple[int, int]] = set()

    def __call__(self, one: Any, other: Any) -> bool:
        """Whether these are the same."""
        self._seen.clear()
        return self._same(one, other, DEPTH)

    def _same(self, one: Any, other: Any, depth: int) -> bool:
        if one is other or (id(one) in self._sides[0] and id(other) in self._sides[1]):
            return True
        if depth == 0 or (id(one), id(other)) in self._seen:
            return True
        self._seen.add((id(one), id(other)))
        if isinstance(one, type) and isinstance(other, type):
            return self._same_class(one, other, depth)
        if not self._same_class(type(one), type(other), depth, made=True):
            return False
        if isinstance(one, GENERATORS):
            return True
        if isinstance(one, (torch.Tensor, np.ndarray)):
            return same_values(one, other)
        if isinstance(one, types.ModuleType):
            return self._same_source(one, other, depth)
        if isinstance(one, _PLAIN):
            return bool(one == other) or (one != one and other != other)
        if isinstance(one, types.FunctionType) and not same_code(one.__code__, other.__code__):
            return False
        if isinstance(one, types.BuiltinFunctionType):
            return bool(one.__name__ == other.__name__)
        return self._same_parts(one, other, depth)

    def same_kind(self, one: Any, other: Any) -> bool:
        """Whether two objects are of classes that do the same; how they were constructed is seen in what they hold."""
        self._seen.clear()
        return self._same_class(type(one), type(other), DEPTH, made=True)

    def _same_class(self, one: type, other: type, depth: int, *, made: bool = False) -> bool:
        """Whether two classes are one, or were written alike: in two modules, or in a cell that was run twice."""
        if one is other:
            return True
        if one.__qualname__ != other.__qualname__ or not (is_users_class(one) and is_users_class(other)):
            return False
        mine, theirs = (_methods(kind, made=made) for kind in (one, other))
        return mine.keys() == theirs.keys() and all(self._same(mine[n], theirs[n], depth - 1) for n in mine)

    def _same_source(self, one: types.ModuleType, other: types.ModuleType, depth: int) -> bool:
        """Whether two modules of the user's define the same; those of a library are one and the same object."""
        files = [getattr(module, "__file__", None) or "" for module in (one, other)]
        if not all(files) or any(map(is_library_file, files)):
            return False
        mine, theirs = (_defined(module) for module in (one, other))
        return mine.keys() == theirs.keys() and all(self._same(mine[n], theirs[n], depth - 1) for n in mine)

    def _same_parts(self, one: Any, other: Any, depth: int) -> bool:
        if isinstance(one, nn.Module):
            return self._same_modules(one, other, depth)
        mine, theirs = (_parts(part) for part in (one, other))
        if len(mine) != len(theirs):
            return False
        if isinstance(one, (set, frozenset)):
            return bool(one == other)
        pairs = zip(mine, theirs, strict=True)
        return all(a[0] == b[0] and self._same(a[1], b[1], depth - 1) for a, b in pairs)

    def _same_modules(self, one: nn.Module, other: nn.Module, depth: int) -> bool:
        """Compare a module that is no part of a model, such as a loss, with its weights."""
        mine, theirs = one.state_dict(), other.state_dict()
        if mine.keys() != theirs.keys() or not all(same_values(mine[name], theirs[name]) for name in mine):
            return False
        plain = [{n: v for n, v in vars(part).items() if not n.startswith("_")} for part in (one, other)]
        children = [list(part.children()) for part in (one, other)]
        return self._same(plain[0], plain[1], depth - 1) and self._same(children[0], children[1], depth - 1)


def same_code(one: types.CodeType, other: types.CodeType) -> bool:
    """Whether two functions do the same, wherever they stand: their code without names of files and lines."""
    if (one.co_code, one.co_names, one.co_varnames) != (other.co_code, other.co_names, other.co_varnames):
        return False
    if len(one.co_consts) != len(other.co_consts):
        return False
    return all(_same_const(a, b) for a, b in zip(one.co_consts, other.co_consts, strict=True))


def same_values(one: Any, other: Any) -> bool:
    """Whether two arrays hold the same values; of large ones, many evenly spaced are looked at."""
    if is_lazy(one) or is_lazy(other):
        return type(one) is type(other)
    if tuple(one.shape) != tuple(other.shape) or one.dtype != other.dtype:
        return False
    step = max(1, int(np.prod(one.shape)) // MOST_VALUES)
    if isinstance(one, torch.Tensor):
        if one.layout is not torch.strided:
            one, other = one.to_dense(), other.to_dense()
        a, b = (part.detach().cpu().reshape(-1)[::step] for part in (one, other))
        return bool(torch.equal(a, b) or torch.equal(a.nan_to_num(), b.nan_to_num()))
    a, b = (part.reshape(-1)[::step] for part in (one, other))
    return bool(np.array_equal(a, b))


def _same_const(one: Any, other: Any) -> bool:
    if isinstance(one, types.CodeType) and isinstance(other, types.CodeType):
        return same_code(one, other)
    return type(one) is type(other) and (one == other or (one != one and other != other))


def _methods(kind: type, *, made: bool) -> dict[str, types.FunctionType]:
    """Return the methods that the user's own classes define, also those with two underscores, the nearest first.

    Without `__init__` for objects that are `made`.
    """
    found: dict[str, types.FunctionType] = dict(methods_of(kind))
    for base in filter(is_users_class, kind.__mro__):
        special = {n: v for n, v in vars(base).items() if n.startswith("__") and isinstance(v, types.FunctionType)}
        found = {**special, **found}
    return {name: function for name, function in found.items() if not (made and name == "__init__")}


def _defined(module: types.ModuleType) -> dict[str, Any]:
    """Return what a module defines or keeps: no other modules, and nothing that Python has put there."""
    held = {name: value for name, value in vars(module).items() if not name.startswith("__")}
    return {name: value for name, value in held.items() if not isinstance(value, types.ModuleType)}


def _parts(value: Any) -> list[tuple[str, Any]]:
    found = children_of(value, "owner", "arguments", "cells", "defaults", "globals", "references", most=MOST_ITEMS)
    return sorted(((str(key), part) for key, part in found), key=lambda item: item[0])


def _with_inner(part: Any) -> list[Any]:
    inner = [*part.modules(), *part.parameters(), *part.buffers()] if isinstance(part, nn.Module) else []
    return [] if part is None else [part, *inner]
