"""What an object holds: how many bytes, how many parts, which random generators; found without running it."""

from __future__ import annotations

import copy
import random
import types
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.utils.data
from torch.nn.parameter import is_lazy

from nbdebug.setup.object_walk import children_of, length_of, walk
from nbdebug.setup.user_code import globals_used, is_users_class, is_users_function, methods_of

__all__ = [
    "GENERATORS",
    "CopyCost",
    "arrays_in",
    "copy_cost",
    "copy_generator",
    "data_in",
    "generators_in",
    "heavy_parts",
    "holds_nothing",
    "human_bytes",
    "parts_in",
]

_LOOK_INSIDE = 64  # items of a long container that are opened; the rest is counted by its length
_DEPTH = 7
GENERATORS = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)
_PLAIN = frozenset((type(None), bool, int, float))
_CONTAINERS = frozenset((dict, OrderedDict, list, tuple, set))


class CopyCost:
    """The bytes of arrays and the number of Python objects that a copy would have to make."""

    def __init__(self, size: int = 0, objects: int = 0) -> None:
        self.size, self.objects = size, objects

    def __str__(self) -> str:
        """Return the size as a person reads it."""
        return human_bytes(self.size)


def human_bytes(size: float) -> str:
    """Write a number of bytes with its unit."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError("unreachable")


def copy_cost(*roots: Any) -> CopyCost:
    """Estimate what a deep copy of these objects would hold."""
    total = CopyCost()
    for weight, part in _walk(*roots):
        total.objects += weight
        if isinstance(part, torch.Tensor):
            total.size += weight * _bytes(part)
        elif isinstance(part, np.ndarray):
            total.size += weight * part.nbytes
            total.objects += part.size if part.dtype == object else 0
        elif isinstance(part, (str, bytes, bytearray)):
            total.size += weight * len(part)
        elif callable(getattr(part, "memory_usage", None)):  # a pandas frame or series
            used = part.memory_usage(index=True)
            total.size += int(np.sum(used))
        else:
            total.size += weight * 64
    return total


def heavy_parts(*roots: Any, size: int = 1_000_000, length: int = 10_000) -> list[Any]:
    """List the arrays and long containers that a copy had better share, because it would hold them all again."""

    def is_heavy(part: Any) -> bool:
        if isinstance(part, torch.Tensor):
            return _bytes(part) > size
        if isinstance(part, np.ndarray):
            return part.nbytes > size or part.size > length
        if callable(getattr(part, "memory_usage", None)):
            return True
        return isinstance(part, (list, tuple, dict, set, bytes)) and len(part) > length

    return [part for _, part in _walk(*roots) if is_heavy(part)]


def generators_in(*roots: Any) -> list[Any]:
    """List the random generators of torch, NumPy and Python that these objects hold, or that their code names."""
    return [part for _, part in _walk(*roots) if isinstance(part, GENERATORS)]


def arrays_in(*roots: Any) -> list[Any]:
    """List the tensors and arrays that these objects hold; of long containers, some."""
    return [part for _, part in _walk(*roots) if isinstance(part, (torch.Tensor, np.ndarray))]


def data_in(*roots: Any) -> list[Any]:
    """List the loaders and data sets that these objects hold."""
    kinds = (torch.utils.data.DataLoader, torch.utils.data.Dataset)
    return [part for _, part in _walk(*roots) if isinstance(part, kinds)]


def parts_in(*roots: Any) -> list[Any]:
    """List everything that can be reached from these objects; of long containers, some."""
    return [part for _, part in _walk(*roots)]


def copy_generator(generator: Any) -> Any:
    """Return a generator that will draw the same numbers, without moving the original on."""
    if isinstance(generator, torch.Generator):
        sandbox = torch.Generator(device=generator.device)
        sandbox.set_state(generator.get_state())
        return sandbox
    return copy.deepcopy(generator)


def holds_nothing(part: Any) -> bool:
    """Whether a part is a plain value or empty, as most of what a module holds is: not worth a visit."""
    kind = type(part)
    return kind in _PLAIN or (kind in _CONTAINERS and not part)


def _walk(*roots: Any) -> Iterator[tuple[int, Any]]:
    """Visit what a copy would hold, with the number of parts that each stands for."""
    return walk([(1, root) for root in roots], _inside, skip=(bool, int, float, type), depth=_DEPTH)


def _inside(weight: int, part: Any) -> list[tuple[int, Any]]:
    """Return what a copy would hold; of globals only random generators, which are no part of it but are restored.

    A deque counts as one object, because it is a buffer that steps write to: it must be copied, however long it is.
    """
    if isinstance(part, (dict, list, tuple, set, frozenset)) and length_of(part) > _LOOK_INSIDE:
        return _sampled(part, weight)
    if isinstance(part, deque) or (isinstance(part, types.FunctionType) and not is_users_function(part)):
        return []
    held = [(weight, inner) for _, inner in children_of(part, "owner", "cells", "defaults") if not holds_nothing(inner)]
    return [*held, *((1, generator) for generator in _named_by(part))]


def _bytes(tensor: torch.Tensor) -> int:
    if tensor.is_meta or is_lazy(tensor):
        return 0
    return tensor.numel() * tensor.element_size()


def _named_by(part: Any) -> list[Any]:
    """Return the global generators that a function names, or the methods of a user's class, as `rng` in __getitem__."""
    kind = type(part)
    if isinstance(part, types.FunctionType):
        return _named_generators(part)
    if not is_users_class(kind):
        return []
    special = [vars(kind).get(name) for name in ("__getitem__", "__iter__", "__next__", "__call__")]
    methods = [*(method for _, method in methods_of(kind)), *special]
    return [g for method in methods if isinstance(method, types.FunctionType) for g in _named_generators(method)]


def _named_generators(function: types.FunctionType) -> list[Any]:
    space = function.__globals__
    found = [space.get(name) for name in globals_used(function.__code__)]
    return [value for value in found if isinstance(value, GENERATORS)]


def _sampled(part: Any, weight: int) -> list[tuple[int, Any]]:
    """Return some items of a long container, each with the number of those that it stands for."""
    items = list(part.values())[::101] if isinstance(part, dict) else list(part)
    chosen = items[:: max(1, len(items) // _LOOK_INSIDE)]
    stands_for = weight * max(1, len(part) // max(1, len(chosen)))
    return [(stands_for, item) for item in chosen if not holds_nothing(item)]
