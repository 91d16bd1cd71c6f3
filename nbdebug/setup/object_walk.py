"""The one walk through objects: what an object reaches in one step, found without running it, and step by step."""

from __future__ import annotations

import copyreg
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import torch
from torch import nn

from nbdebug.core.torch_compat import REGISTRIES
from nbdebug.setup.user_code import globals_used, is_users_function, user_code

__all__ = [
    "EVERYTHING",
    "Follow",
    "attributes_in",
    "children_of",
    "length_of",
    "registered_in",
    "step_to",
    "walk",
    "written",
]

# Beside the items of containers and the attributes in `__dict__`: the object and the function of a bound method, those
# of a partial, the closure of a function, the defaults of its parameters, the globals that it names (the user's
# functions only), and what copying overlooks (weak references, bound builtins, slots, what was set on a function).
Follow = Literal["owner", "arguments", "cells", "defaults", "globals", "references"]
EVERYTHING: tuple[Follow, ...] = get_args(Follow)
Label = TypeVar("Label")
_CONTAINERS = (dict, list, tuple, set, frozenset, deque)
_LEAVES = (torch.Tensor, np.ndarray, str, bytes, bytearray, int, float, complex, type, types.ModuleType)


def length_of(container: Any) -> int:
    """Return how many items a container holds; 0 where its class refuses to say."""
    with user_code():
        return len(container)
    return 0


def children_of(value: Any, *follow: Follow, most: int | None = None) -> list[tuple[Any, Any]]:
    """Return what an object reaches in one step, by key or name; of the items of a container, so many at most."""
    if isinstance(value, _LEAVES):
        return []
    if isinstance(value, dict):
        return list(islice(list(value.items()), most))
    if isinstance(value, _CONTAINERS):
        return list(islice(enumerate(list(iter(value))), most))
    if isinstance(value, types.FunctionType):
        return list(_children_of_function(value, follow))
    if isinstance(value, types.MethodType):
        return [("", value.__self__), ("", value.__func__)] if "owner" in follow else []
    if isinstance(value, types.BuiltinFunctionType):
        return [("", value.__self__)] if "references" in follow else []
    if isinstance(value, partial) and "arguments" in follow:
        return [("func", value.func), ("args", value.args), ("keywords", value.keywords)]
    if isinstance(value, weakref.ref) and "references" in follow:
        return [("()", value())]
    return attributes_in(value, slots="references" in follow)


def _children_of_function(function: types.FunctionType, follow: tuple[Follow, ...]) -> Iterator[tuple[str, Any]]:
    if "cells" in follow:
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
            with suppress(ValueError):  # a cell that is not filled yet
                yield f"<{name}>", cell.cell_contents
    if "defaults" in follow:
        yield from ((f"({index})", value) for index, value in enumerate(function.__defaults__ or ()))
        yield from ((f"({name}=)", value) for name, value in (function.__kwdefaults__ or {}).items())
    if "references" in follow:
        yield from ((f".{name}", value) for name, value in vars(function).items())
    if "globals" in follow and is_users_function(function):
        space = function.__globals__
        yield from ((name, space[name]) for name in globals_used(function.__code__) if name in space)


def attributes_in(value: Any, *, slots: bool = False) -> list[tuple[str, Any]]:
    """Return the attributes that an object keeps by itself; of those in slots, Python makes a note in the class."""
    held = getattr(value, "__dict__", None)
    found = list(held.items()) if isinstance(held, dict) else []
    if slots:
        names = copyreg._slotnames(type(value))  # type: ignore[attr-defined]
        found += [(name, getattr(value, name)) for name in names if name not in (held or ()) and hasattr(value, name)]
    return found


def registered_in(module: nn.Module) -> list[tuple[str, Any]]:
    """Return the parameters, buffers and submodules of a module by the names that PyTorch gives them."""
    held = [vars(module).get(registry) for registry in REGISTRIES]
    return [item for parts in held if isinstance(parts, dict) for item in parts.items()]


def step_to(value: Any, key: Any) -> str:
    """Write the step from an object to one of its children as Python does, without running code of the user's."""
    if isinstance(value, _CONTAINERS):
        return f"[{written(key)}]"
    return key if isinstance(value, (types.FunctionType, types.MethodType)) else f".{key}"


def written(key: Any) -> str:
    """Write the key of a dict; of an object its type, because it may be the user's code that writes it."""
    is_plain = isinstance(key, (str, int, float, type(None)))
    is_pair = type(key) is tuple and all(isinstance(part, (str, int)) for part in key)
    return repr(key) if is_plain or is_pair else type(key).__name__


def walk(
    roots: Iterable[tuple[Label, Any]],
    inside: Callable[[Label, Any], Iterable[tuple[Label, Any]]],
    *,
    skip: tuple[type, ...],
    depth: float = float("inf"),
    most: float = float("inf"),
    seen: set[int] | None = None,
) -> Iterator[tuple[Label, Any]]:
    """Visit every part that can be reached once, the last child first; `inside` returns labels and parts of a part."""
    seen = set() if seen is None else seen
    stack = [(label, part, 0) for label, part in roots]
    while stack and len(seen) < most:
        label, part, level = stack.pop()
        if part is None or isinstance(part, skip) or id(part) in seen:
            continue
        seen.add(id(part))
        yield label, part
        if level < depth:
            stack += [(name, inner, level + 1) for name, inner in inside(label, part)]
