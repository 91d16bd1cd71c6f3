"""What an object holds: how many bytes, how many parts, which random generators; found without running it."""

from __future__ import annotations

import copy
import random
import types
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.utils.data

from nbdebug.setup.user_code import is_users_class, is_users_function, methods_of, names_used

__all__ = [
    "GENERATORS",
    "Holdings",
    "arrays_in",
    "copy_generator",
    "data_in",
    "generators_in",
    "heavy_parts",
    "holdings_of",
    "holds_nothing",
    "human_bytes",
    "parts_in",
]

_LOOK_INSIDE = 64  # items of a long container that are opened; the rest is counted by its length
_DEPTH = 7
GENERATORS = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)


class Holdings:
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


def holdings_of(*roots: Any) -> Holdings:
    """Estimate what a deep copy of these objects would hold."""
    total = Holdings()
    for part, weight in _walk(list(roots)):
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

    return [part for part, _ in _walk(list(roots)) if is_heavy(part)]


def generators_in(*roots: Any) -> list[Any]:
    """List the random generators of torch, NumPy and Python that these objects hold, or that their code names."""
    return [part for part, _ in _walk(list(roots)) if isinstance(part, GENERATORS)]


def arrays_in(*roots: Any) -> list[Any]:
    """List the tensors and arrays that these objects hold; of long containers, some."""
    return [part for part, _ in _walk(list(roots)) if isinstance(part, (torch.Tensor, np.ndarray))]


def data_in(*roots: Any) -> list[Any]:
    """List the loaders and data sets that these objects hold."""
    kinds = (torch.utils.data.DataLoader, torch.utils.data.Dataset)
    return [part for part, _ in _walk(list(roots)) if isinstance(part, kinds)]


def parts_in(*roots: Any) -> list[Any]:
    """List everything that can be reached from these objects; of long containers, some."""
    return [part for part, _ in _walk(list(roots))]


def copy_generator(generator: Any) -> Any:
    """Return a generator that will draw the same numbers, without moving the original on."""
    if isinstance(generator, torch.Generator):
        sandbox = torch.Generator(device=generator.device)
        sandbox.set_state(generator.get_state())
        return sandbox
    return copy.deepcopy(generator)


_PLAIN = frozenset((type(None), bool, int, float))
_CONTAINERS = frozenset((dict, OrderedDict, list, tuple, set))


def holds_nothing(part: Any) -> bool:
    """Whether a part is a plain value or empty, as most of what a module holds is: not worth a visit."""
    kind = type(part)
    return kind in _PLAIN or (kind in _CONTAINERS and not part)


def _walk(roots: list[Any]) -> Iterator[tuple[Any, int]]:
    """Visit every reachable part once, with the number of parts that it stands for."""
    seen: set[int] = set()
    stack = [(root, 1, 0) for root in roots]
    while stack:
        part, weight, depth = stack.pop()
        if part is None or isinstance(part, (bool, int, float, type)) or id(part) in seen:
            continue
        seen.add(id(part))
        yield part, weight
        if depth < _DEPTH:
            stack.extend((inner, w, depth + 1) for inner, w in _inside(part, weight) if not holds_nothing(inner))


def _inside(part: Any, weight: int) -> list[tuple[Any, int]]:
    if isinstance(part, (torch.Tensor, np.ndarray, str, bytes, bytearray)):
        return []
    if isinstance(part, dict):
        return _sampled(
            list(part.values()) if len(part) <= _LOOK_INSIDE else list(part.values())[::101], len(part), weight
        )
    if isinstance(part, (list, tuple, set, frozenset)):
        return _sampled(part if isinstance(part, (list, tuple)) else list(part), len(part), weight)
    if isinstance(part, types.FunctionType):
        return [(value, weight) for value in _reached_by(part)]
    if isinstance(part, types.MethodType):
        return [(part.__self__, weight), (part.__func__, weight)]
    if isinstance(part, (types.ModuleType, types.BuiltinFunctionType)):
        return []
    held = getattr(part, "__dict__", None)
    inside = [(value, weight) for value in held.values()] if isinstance(held, dict) else []
    return [*inside, *((generator, 1) for generator in _named_by(type(part)))]


def _bytes(tensor: torch.Tensor) -> int:
    if tensor.is_meta or isinstance(tensor, (torch.nn.UninitializedParameter, torch.nn.UninitializedBuffer)):
        return 0
    return tensor.numel() * tensor.element_size()


def _reached_by(function: types.FunctionType) -> list[Any]:
    """Return what a function of the user's holds in its closure, and the generators that it names."""
    if not is_users_function(function):
        return []
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append(cell.cell_contents)
        except ValueError:  # not filled yet
            continue
    return [*cells, *(function.__defaults__ or ()), *_named_generators(function)]


def _named_by(kind: type) -> list[Any]:
    """Return the global generators that the methods of a user's class name, as `rng` in a data set's __getitem__."""
    if not is_users_class(kind):
        return []
    special = [vars(kind).get(name) for name in ("__getitem__", "__iter__", "__next__", "__call__")]
    methods = [*(method for _, method in methods_of(kind)), *special]
    return [g for method in methods if isinstance(method, types.FunctionType) for g in _named_generators(method)]


def _named_generators(function: types.FunctionType) -> list[Any]:
    space = function.__globals__
    found = [space.get(name) for name in names_used(function.__code__)]
    return [value for value in found if isinstance(value, GENERATORS)]


def _sampled(items: Any, length: int, weight: int) -> list[tuple[Any, int]]:
    if length <= _LOOK_INSIDE:
        return [(item, weight) for item in items]
    step = max(1, len(items) // _LOOK_INSIDE)
    chosen = items[::step]
    return [(item, weight * max(1, length // max(1, len(chosen)))) for item in chosen]
