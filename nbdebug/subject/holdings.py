"""What an object holds: how many bytes, how many parts, and which random generators, found without running it."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

__all__ = ["Holdings", "copy_generator", "generators_in", "holdings_of", "human_bytes"]

_LOOK_INSIDE = 64  # items of a long container that are opened; the rest is counted by its length
_DEPTH = 7


class Holdings:
    """The bytes of arrays and the number of Python objects that a copy would have to make."""

    def __init__(self, size: int = 0, objects: int = 0) -> None:
        self.size, self.objects = size, objects

    def __str__(self) -> str:
        """Give the size as a person reads it."""
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
            total.size += weight * part.numel() * part.element_size() if not part.is_meta else 0
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


def generators_in(*roots: Any) -> list[Any]:
    """List the random generators of torch, NumPy and Python that these objects hold."""
    kinds = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)
    return [part for part, _ in _walk(list(roots)) if isinstance(part, kinds)]


def copy_generator(generator: Any) -> Any:
    """Give a generator that will draw the same numbers, without moving the original on."""
    if isinstance(generator, torch.Generator):
        twin = torch.Generator(device=generator.device)
        twin.set_state(generator.get_state())
        return twin
    return copy.deepcopy(generator)


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
            stack.extend((inner, w, depth + 1) for inner, w in _inside(part, weight))


def _inside(part: Any, weight: int) -> list[tuple[Any, int]]:
    if isinstance(part, (torch.Tensor, np.ndarray, str, bytes, bytearray)):
        return []
    if isinstance(part, dict):
        return _sampled(
            list(part.values()) if len(part) <= _LOOK_INSIDE else list(part.values())[::101], len(part), weight
        )
    if isinstance(part, (list, tuple, set, frozenset)):
        return _sampled(part if isinstance(part, (list, tuple)) else list(part), len(part), weight)
    held = getattr(part, "__dict__", None)
    owner = getattr(part, "__self__", None)  # a bound method
    inside = [(value, weight) for value in held.values()] if isinstance(held, dict) and not _is_code(part) else []
    return [*inside, *([(owner, weight)] if owner is not None and not _is_code(owner) else [])]


def _is_code(part: Any) -> bool:
    return type(part).__name__ in {"module", "function", "builtin_function_or_method"}


def _sampled(items: Any, length: int, weight: int) -> list[tuple[Any, int]]:
    if length <= _LOOK_INSIDE:
        return [(item, weight) for item in items]
    step = max(1, len(items) // _LOOK_INSIDE)
    chosen = items[::step]
    return [(item, weight * max(1, length // max(1, len(chosen)))) for item in chosen]
