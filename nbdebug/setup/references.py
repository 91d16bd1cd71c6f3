"""References that copying leaves as they are: find what functions, methods and objects hold, and replace it."""

from __future__ import annotations

import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import _lru_cache_wrapper, lru_cache, partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.setup.object_graph import GENERATORS, holds_nothing
from nbdebug.setup.object_walk import EVERYTHING, attributes_in, children_of, walk
from nbdebug.setup.user_code import is_users_class

__all__ = [
    "attributes_of",
    "fields_of",
    "has_identity",
    "has_state",
    "is_reference",
    "leads_to",
    "rebuilt_reference",
    "repoint",
]

Exchange = Callable[[str, Any], Any]
_REFERENCES = (types.FunctionType, types.MethodType, partial, weakref.ref, _lru_cache_wrapper)
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


def fields_of(value: Any) -> list[tuple[str, Any]]:
    """Return the attributes that an object keeps by itself; none for tensors, data, classes, and what nbdebug made."""
    return attributes_in(value, slots=True) if _is_opened(value) else []


def _is_opened(value: Any) -> bool:
    return not isinstance(value, (torch.Tensor, np.ndarray, Dataset, DataLoader, *_ATOMS)) and not _is_ours(type(value))


def _is_ours(kind: type) -> bool:
    return kind.__module__.split(".")[0] == "nbdebug"


def leads_to(root: Any, is_wanted: Callable[[Any], bool], is_known: Callable[[Any], bool]) -> bool:
    """Whether a wanted object can be reached from this one; what is known is not looked into."""

    def inside(_: None, value: Any) -> Iterable[tuple[None, Any]]:
        opened = _is_opened(value) and not is_known(value)
        return ((None, part) for _, part in children_of(value, *EVERYTHING, most=_ITEMS)) if opened else ()

    return any(is_wanted(part) for _, part in walk([(None, root)], inside, skip=_ATOMS, most=_MOST_OBJECTS))


def rebuilt_reference(name: str, value: Any, exchange: Exchange, memo: dict[int, Any]) -> Any:
    """Return the same reference to what the parts are exchanged for; the very same one where no part is another."""
    if isinstance(value, partial):
        return _rebuilt_partial(value, exchange)
    if isinstance(value, tuple):
        parts = [exchange(name, part) for part in value]
        is_same = all(a is b for a, b in zip(value, parts, strict=True))
        return value if is_same else type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, weakref.ref):
        sandbox = memo.get(id(value()))
        return weakref.ref(sandbox) if sandbox is not None and type(value) is weakref.ref else value
    if isinstance(value, _lru_cache_wrapper):
        wrapped = exchange(name, value.__wrapped__)
        return value if wrapped is value.__wrapped__ else lru_cache(**value.cache_parameters())(wrapped)
    owner = exchange(name or value.__name__, value.__self__)
    if isinstance(value, types.BuiltinFunctionType):
        return value if owner is value.__self__ else getattr(owner, value.__name__)
    function = exchange("", value.__func__)
    is_same = owner is value.__self__ and function is value.__func__
    return value if is_same else types.MethodType(function, owner)


def _rebuilt_partial(value: partial[Any], exchange: Exchange) -> Any:
    function, *args = (exchange("", part) for part in (value.func, *value.args))
    keywords = {name: exchange(name, part) for name, part in value.keywords.items()}
    old, new = (value.func, *value.args, *value.keywords.values()), (function, *args, *keywords.values())
    if all(a is b for a, b in zip(old, new, strict=True)):
        return value
    sandbox = partial(function, *args, **keywords)
    sandbox.__dict__.update(attributes_of(value, exchange))
    return sandbox


def attributes_of(live: Any, exchange: Exchange) -> dict[str, Any]:
    """Return what was set on a function or partial, such as `__wrapped__`, for its copy."""
    return {name: exchange("", value) if is_reference(value) else value for name, value in vars(live).items()}


def repoint(roots: Iterable[Any], exchange: Exchange, is_own: Callable[[Any], bool]) -> None:
    """Walk through what copying has made, and exchange every reference in it for what a copy may hold."""
    seen: set[int] = set()
    stack = list(roots)
    while stack:
        part = stack.pop()
        if id(part) in seen or isinstance(part, torch.jit.ScriptModule):
            continue
        seen.add(id(part))
        for name, value, put in _places(part):
            if holds_nothing(value) or isinstance(value, (torch.Tensor, torch.jit.ScriptModule, *_ATOMS)):
                continue
            inside = value if isinstance(value, tuple) else (value,)
            stack.extend(item for item in inside if is_own(item) or isinstance(item, nn.Module))
            if is_reference(value) or not is_own(value):
                new = exchange(name, value)
                if new is not value:
                    put(new)


def _places(part: Any) -> Iterator[tuple[str, Any, Callable[[Any], Any]]]:
    """Return what an object holds by itself, each with the way to put something else there, which no walk has."""
    if isinstance(part, dict):
        for key, value in list(part.items()):
            yield str(key), value, partial(part.__setitem__, key)
    elif isinstance(part, (list, deque)):
        for index, value in enumerate(list(part)):
            yield str(index), value, partial(part.__setitem__, index)
    elif isinstance(getattr(part, "__dict__", None), dict) and not isinstance(part, (type, types.FunctionType)):
        for name, value in list(vars(part).items()):
            yield name, value, partial(vars(part).__setitem__, name)


def _is_bound_builtin(value: Any) -> bool:
    owner = getattr(value, "__self__", None) if isinstance(value, types.BuiltinFunctionType) else None
    return owner is not None and not isinstance(owner, (type, types.ModuleType))
