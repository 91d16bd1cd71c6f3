"""References that copying leaves as they are: find what functions, methods and objects hold, and replace it."""

from __future__ import annotations

import copyreg
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import _lru_cache_wrapper, partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.subject.holdings import GENERATORS, holds_nothing
from nbdebug.subject.provenance import is_users_class, is_users_function, names_used

__all__ = ["CacheWrapper", "fields_of", "has_identity", "has_state", "is_reference", "leads_to", "repoint"]

CacheWrapper = _lru_cache_wrapper
_REFERENCES = (types.FunctionType, types.MethodType, partial, weakref.ref, CacheWrapper)
_CONTAINERS = (list, dict, set, bytearray, deque)
_ATOMS = (
    str, bytes, int, float, complex, type, types.ModuleType, torch.dtype, torch.device, torch.Size, range,
)  # fmt: skip
_ITEMS = 512  # of a longer container the beginning is looked at
_MOST_OBJECTS = 5_000  # that are looked at before an object counts as one that leads nowhere


def has_identity(value: Any) -> bool:
    """Whether an object could be one and not another; numbers, texts, classes and modules of code are all alike."""
    return value is not None and not isinstance(value, _ATOMS)


def has_state(value: Any) -> bool:
    """Whether this is an object of the user's or of torch that an experiment could change."""
    if isinstance(value, Dataset) or hasattr(value, "__next__"):
        return False
    if isinstance(value, (*_CONTAINERS, torch.Tensor, np.ndarray, nn.Module, *GENERATORS)):
        return True
    if isinstance(value, tuple):
        return any(has_identity(part) and has_state(part) for part in value)
    kind = type(value)
    if not getattr(value, "__dict__", None):
        return False  # a sentinel, which must stay the one that it is
    return _is_public_torch(kind) or is_users_class(kind)


def _is_public_torch(kind: type) -> bool:
    top, *inner = kind.__module__.split(".")
    return top == "torch" and not any(name.startswith("_") for name in inner[:1])  # torch._dynamo keeps its own state


def is_reference(value: Any) -> bool:
    """Whether deepcopy hands this on as it is, or copies no more than the object it is bound to."""
    if isinstance(value, tuple):
        return any(is_reference(part) for part in value)
    return isinstance(value, _REFERENCES) or _is_bound_builtin(value)


def _held_by(value: Any) -> Iterable[Any]:
    """Return what an object reaches in one step, without running it."""
    if isinstance(value, types.FunctionType):
        return _held_by_function(value)
    if isinstance(value, (types.MethodType, types.BuiltinFunctionType)):
        return (value.__self__, getattr(value, "__func__", None))
    if isinstance(value, partial):
        return (value.func, *value.args, *value.keywords.values())
    if isinstance(value, weakref.ref):
        return (value(),)
    if isinstance(value, CacheWrapper):
        return (value.__wrapped__,)
    if isinstance(value, dict):
        return list(value.values())[:_ITEMS]
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return list(value)[:_ITEMS]
    return [part for _, part in fields_of(value)]


def fields_of(value: Any) -> list[tuple[str, Any]]:
    """Return the attributes that an object keeps by itself; none for tensors, data, classes, and what nbdebug made."""
    if isinstance(value, (torch.Tensor, np.ndarray, Dataset, DataLoader, *_ATOMS)) or _is_ours(type(value)):
        return []
    held = getattr(value, "__dict__", None)
    fields = list(held.items()) if isinstance(held, dict) else []
    slots = [name for name in copyreg._slotnames(type(value)) if name not in (held or ())]  # type: ignore[attr-defined]
    return fields + [(name, getattr(value, name)) for name in slots if hasattr(value, name)]


def _is_ours(kind: type) -> bool:
    return kind.__module__.split(".")[0] == "nbdebug"


def leads_to(root: Any, is_wanted: Callable[[Any], bool], is_known: Callable[[Any], bool]) -> bool:
    """Whether a wanted object can be reached from this one; what is known is not looked into."""
    seen: set[int] = set()
    stack = [root]
    while stack and len(seen) < _MOST_OBJECTS:
        value = stack.pop()
        if value is None or isinstance(value, _ATOMS) or id(value) in seen:
            continue
        if is_wanted(value):
            return True
        seen.add(id(value))
        if not is_known(value):
            stack.extend(_held_by(value))
    return False


def repoint(roots: Iterable[Any], exchange: Callable[[str, Any], Any], is_own: Callable[[Any], bool]) -> None:
    """Walk through what copying has made, and exchange every reference in it for what a copy may hold."""
    seen: set[int] = set()
    stack = list(roots)
    while stack:
        part = stack.pop()
        if id(part) in seen or isinstance(part, torch.jit.ScriptModule):
            continue
        seen.add(id(part))
        for name, value, put in _places(part):
            if holds_nothing(value) or isinstance(value, (torch.Tensor, *_ATOMS)):
                continue
            inside = value if isinstance(value, tuple) else (value,)
            stack.extend(item for item in inside if is_own(item) or isinstance(item, nn.Module))
            if is_reference(value) or not is_own(value):
                new = exchange(name, value)
                if new is not value:
                    put(new)


def _places(part: Any) -> Iterator[tuple[str, Any, Callable[[Any], Any]]]:
    """Give what an object holds by itself, each with the way to put something else there."""
    if isinstance(part, dict):
        for key, value in list(part.items()):
            yield str(key), value, partial(part.__setitem__, key)
    elif isinstance(part, (list, deque)):
        for index, value in enumerate(list(part)):
            yield str(index), value, partial(part.__setitem__, index)
    elif isinstance(getattr(part, "__dict__", None), dict) and not isinstance(part, (type, types.FunctionType)):
        for name, value in list(vars(part).items()):
            yield name, value, partial(vars(part).__setitem__, name)


def _held_by_function(function: types.FunctionType) -> list[Any]:
    """Give cells, defaults and attributes; of the user's own functions also the globals that they name."""
    held = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values(), *function.__dict__.values()]
    for cell in function.__closure__ or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # not filled yet
            continue
    if is_users_function(function):
        space = function.__globals__
        held += [space[name] for name in names_used(function.__code__) if name in space]
    return held


def _is_bound_builtin(value: Any) -> bool:
    owner = getattr(value, "__self__", None) if isinstance(value, types.BuiltinFunctionType) else None
    return owner is not None and not isinstance(owner, (type, types.ModuleType))
