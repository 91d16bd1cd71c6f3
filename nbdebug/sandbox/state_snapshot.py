"""Detect changes to the user's objects, and restore what can be restored without writing a tensor.

Experiments run on copies, so nothing should be touched. But code of the user's may reach a live object by a way that
was not foreseen; then this notices. Structure (attributes, hooks, flags, gradients) is restored by identity. The values
of a tensor are never written, because that would break a graph that waits for its backward pass: they are named.
"""

from __future__ import annotations

import ctypes
import types
from collections.abc import Iterator
from operator import is_
from typing import Any
from zlib import crc32

import numpy as np
import torch
from torch.nn.parameter import is_lazy

from nbdebug.core.torch_compat import write_count
from nbdebug.setup.object_graph import generators_in
from nbdebug.setup.object_walk import children_of, length_of, registered_in, step_to, walk, written
from nbdebug.setup.tensor_memory import array_of
from nbdebug.setup.user_code import is_users_class

__all__ = ["StateSnapshot"]

_ATOMS = (str, bytes, int, float, types.ModuleType, type)
_CONTAINERS = (dict, list, tuple, set)
_LONG = 1000  # a container with more items is data, and not structure
_DEPTH = 8
_MOST = 50_000  # containers that are looked into
_WHOLE = 131_072  # elements that are summed up; a larger tensor is sampled
_SAMPLE = 32_768
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

Identity = list[tuple[Any, Any]]


class StateSnapshot:
    """What the user's objects looked like at one moment: containers by identity, tensors by version and digest."""

    def __init__(self, *live: Any) -> None:
        self._containers: list[tuple[str, Any, Identity]] = []
        self._classes: list[tuple[type, dict[str, Any]]] = []
        self._tensors: list[tuple[str, torch.Tensor, tuple[Any, ...], torch.Tensor | None]] = []
        self._restored: list[str] = []
        self.generators = generators_in(*live)  # looked for once, because the walk to them is long
        for name, part in _walk(live):
            if isinstance(part, torch.Tensor):
                self._tensors.append((name, part, _state(part), part.grad if part.is_leaf else None))
            elif isinstance(part, type):
                self._classes.append((part, dict(vars(part))))
            else:
                self._containers.append((name, part, _items(part)))

    def restore(self) -> None:
        """Put structure and gradients back as they were; harmless when it is called twice."""
        for name, part, items in self._containers:
            if not _same(part, items):
                self._restored.append(f"{name} ({_what_changed(_items(part), items)})")
                _restore_items(part, items)
        for kind, before in self._classes:
            self._restore_class(kind, before)
        for name, tensor, _, gradient in self._tensors:
            if tensor.is_leaf and tensor.grad is not gradient:
                self._restored.append(f"{name}.grad")
                tensor.grad = gradient

    def touched(self) -> list[str]:
        """Return what changed, whether restored or not."""
        lines = [f"{name} was modified and has been restored" for name in dict.fromkeys(self._restored)]
        for name, tensor, before, _ in self._tensors:
            now = _state(tensor)
            if now != before:
                parts = ("version", "memory", "shape", "requires_grad", "values", "gradient")
                changed = [part for part, a, b in zip(parts, before, now, strict=True) if a != b]
                lines.append(f"{name} was modified ({', '.join(changed)}) and could not be restored")
        lines += [
            f"{kind.__name__}.{name} was modified" for kind, before in self._classes for name in _news(kind, before)
        ]
        return lines

    def _restore_class(self, kind: type, before: dict[str, Any]) -> None:
        """Put the user's class back: a counter in it has no copy of its own, so this is how it is kept."""
        for name in _news(kind, before):
            if name in before:
                setattr(kind, name, before[name])
            else:
                delattr(kind, name)


def _news(kind: type, before: dict[str, Any]) -> list[str]:
    now = vars(kind)
    return [n for n in {**before, **now} if not n.startswith("__") and now.get(n) is not before.get(n)]


def _walk(live: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    """Visit every tensor, container and class of the user's once, with a name that a person can follow."""
    seen: set[int] = set()
    roots = [(_label(part), part) for part in reversed(live)]
    for name, part in walk(roots, _steps, skip=_ATOMS, depth=_DEPTH, most=_MOST, seen=seen):
        if isinstance(part, (torch.Tensor, dict, list, set)):
            if isinstance(part, torch.Tensor) or len(part) <= _LONG:
                yield name, part
        elif _is_opened(part):
            own = [vars(part), *(kind for kind in type(part).__mro__ if id(kind) not in seen and is_users_class(kind))]
            seen.update(map(id, own))
            yield from ((name, one) for one in own)


def _label(part: Any) -> str:
    return "model" if isinstance(part, torch.nn.Module) else type(part).__name__


def _steps(name: str, part: Any) -> list[tuple[str, Any]]:
    """Return the parts whose structure is restored; what a function reaches is exchanged for copies before it runs."""
    if isinstance(part, _CONTAINERS):
        is_structure = 0 < length_of(part) <= _LONG
    else:
        is_structure = isinstance(part, types.MethodType) or _is_opened(part)
    if not is_structure:
        return []
    own = registered_in(part) if isinstance(part, torch.nn.Module) else []  # popped first, so that these names win
    return [(f"{name}{step_to(part, key)}", inner) for key, inner in (*children_of(part, "owner"), *own)]


def _is_opened(part: Any) -> bool:
    """Whether an object is the user's or torch's; what other libraries keep inside (caches, locks) is theirs."""
    kind = type(part)
    if isinstance(part, (torch.Tensor, types.FunctionType)) or not isinstance(getattr(part, "__dict__", None), dict):
        return False
    return isinstance(part, torch.nn.Module) or kind.__module__.split(".")[0] == "torch" or is_users_class(kind)


def _items(part: Any) -> Identity:
    if isinstance(part, dict):
        return list(part.items())
    return [(None, value) for value in part]


def _same(part: Any, before: Identity) -> bool:
    """Whether a container holds the same objects in the same order."""
    if not before:
        return not part  # as are most: a module has a dozen dicts of hooks
    values = part.values() if isinstance(part, dict) else part
    if len(values) != len(before) or not all(map(is_, values, (value for _, value in before))):
        return False
    return not isinstance(part, dict) or list(part) == [key for key, _ in before]


def _what_changed(now: Identity, before: Identity) -> str:
    kept = {written(key): id(value) for key, value in before}
    new = {written(key): id(value) for key, value in now}
    names = [name for name in {**kept, **new} if kept.get(name) != new.get(name)]
    return ", ".join(names[:3]) or "its items"


def _restore_items(part: Any, items: Identity) -> None:
    if isinstance(part, dict):
        part.clear()
        part.update(items)
    elif isinstance(part, set):
        part.clear()
        part.update(value for _, value in items)
    else:
        part[:] = [value for _, value in items]


def _state(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Return what tells whether a tensor was touched; what cannot be asked of this kind is left out."""
    if is_lazy(tensor):
        return (0, 0, "lazy", tensor.requires_grad, 0, 0)
    version = None if tensor.is_inference() else write_count(tensor)
    gradient = tensor.grad if tensor.is_leaf else None
    return (
        version,
        _pointer(tensor),
        None if tensor.is_nested else tuple(tensor.shape),
        tensor.requires_grad,
        _digest(tensor),
        None if gradient is None else (id(gradient), write_count(gradient), _digest(gradient)),
    )


def _pointer(tensor: torch.Tensor) -> int:
    try:
        return tensor.data_ptr()
    except RuntimeError:  # sparse, meta and wrapped tensors have none
        return 0


def _digest(tensor: torch.Tensor) -> int:
    """Return a checksum of the values, so that a write that bumps no version is seen; sampled where there are many."""
    try:
        if _is_small(tensor):
            # The bytes are read where they are: an array over them takes three times as long.
            buffer = ctypes.c_char * (tensor.numel() * tensor.element_size())
            return crc32(buffer.from_address(tensor.data_ptr()))
        flat = tensor.detach()
        if flat.device.type != "cpu" or flat.layout is not torch.strided or flat.numel() == 0:
            return 0  # a look at another device would make it wait
        flat = flat.reshape(-1) if flat.is_contiguous() else flat.contiguous().reshape(-1)
        bits = array_of(flat.view(_BITS.get(flat.element_size(), torch.uint8)))  # its sums cost less than torch's
        every = bits.size // _SAMPLE if bits.size > _WHOLE else 1
        return int(bits[::every].sum(dtype=np.int64))
    except (RuntimeError, NotImplementedError, TypeError, BufferError):
        return 0


def _is_small(tensor: torch.Tensor) -> bool:
    """Whether a tensor is of the plain kind, with few values in one piece of memory of this process."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
        return False
    if tensor.device.type != "cpu" or not 0 < tensor.numel() <= _WHOLE or not tensor.is_contiguous():
        return False
    end = (tensor.storage_offset() + tensor.numel()) * tensor.element_size()
    return tensor.data_ptr() != 0 and end <= tensor.untyped_storage().nbytes()
