"""Functions that reach for the user's own objects are given the twin's instead.

A loss or a training step written in a notebook often names the global `model` rather than its argument. Run as it
is, it would train the user's model; so its globals and its closure are looked through, and every live object that
has a copy is exchanged for the copy.
"""

from __future__ import annotations

import types
from typing import Any

__all__ = ["rebound"]


def rebound(function: Any, memo: dict[int, Any], depth: int = 3) -> tuple[Any, list[str]]:
    """Give the function with live objects exchanged, and the names that were."""
    if isinstance(function, types.MethodType) and id(function.__self__) in memo:
        return types.MethodType(function.__func__, memo[id(function.__self__)]), [function.__name__]
    if not isinstance(function, types.FunctionType) or depth == 0:
        return function, []
    names: list[str] = []
    closure = _closure(function, memo, names, depth)
    changed = _globals(function, memo, names, depth)
    if not names:
        return function, []
    twin = types.FunctionType(
        function.__code__, {**function.__globals__, **changed}, function.__name__, function.__defaults__, closure
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    twin.__dict__.update(function.__dict__)
    return twin, names


def _exchanged(name: str, value: Any, memo: dict[int, Any], names: list[str], depth: int) -> Any:
    if id(value) in memo and memo[id(value)] is not value and not isinstance(value, (int, str, float, tuple)):
        names.append(name)
        return memo[id(value)]
    if isinstance(value, types.FunctionType):
        twin, inner = rebound(value, memo, depth - 1)
        names.extend(inner)
        return twin
    return value


def _closure(function: Any, memo: dict[int, Any], names: list[str], depth: int) -> tuple[Any, ...] | None:
    if function.__closure__ is None:
        return None
    cells = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__, strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # not filled yet
            cells.append(cell)
            continue
        new = _exchanged(name, value, memo, names, depth) if value is not function else value
        cells.append(types.CellType(new) if new is not value else cell)
    return tuple(cells)


def _globals(function: Any, memo: dict[int, Any], names: list[str], depth: int) -> dict[str, Any]:
    changed = {}
    for name in _names_used(function.__code__):
        if name in function.__globals__:
            value = function.__globals__[name]
            if value is function:
                continue
            new = _exchanged(name, value, memo, names, depth)
            if new is not value:
                changed[name] = new
    return changed


def _names_used(code: types.CodeType) -> set[str]:
    inner = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return set(code.co_names).union(*(_names_used(part) for part in inner)) if inner else set(code.co_names)
