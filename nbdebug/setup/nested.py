"""Walk, read and rebuild nested batches of any legal kind, without changing the container that was given."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch

from nbdebug.setup.user_code import user_code

__all__ = [
    "Path",
    "at",
    "children",
    "detached",
    "first_tensor",
    "leaves",
    "map_leaves",
    "map_tensors",
    "name_of",
    "rebuild",
    "replace_at",
    "tensors_in",
]

Path = tuple[Any, ...]
_PLAIN = (int, float, str, torch.dtype, torch.device)


class Attr(str):
    """A step of a path that is taken by attribute, as in a dataclass."""


def is_mapping_like(value: Any) -> bool:
    """Whether this has keys and items, as a dict, a UserDict or a tokenizer's BatchEncoding does."""
    return isinstance(value, Mapping) or (
        not isinstance(value, type) and callable(getattr(value, "keys", None)) and hasattr(value, "__getitem__")
    )


def is_namedtuple(value: Any) -> bool:
    """Whether this is a tuple with field names; a PackedSequence is one thing and not to be opened."""
    return (
        isinstance(value, tuple)
        and hasattr(value, "_fields")
        and not isinstance(value, torch.nn.utils.rnn.PackedSequence)
    )


def children(value: Any) -> list[tuple[Any, Any]] | None:
    """Return the steps and parts of a container, or None for a leaf."""
    if isinstance(value, (torch.Tensor, str, bytes, torch.nn.utils.rnn.PackedSequence)):
        return None
    if is_namedtuple(value):
        return [(Attr(name), getattr(value, name)) for name in value._fields]
    if isinstance(value, (list, tuple)):
        return list(enumerate(value))
    if is_mapping_like(value):
        return [(key, value[key]) for key in value.keys()]  # noqa: SIM118 - a mapping-like may iterate over values
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(Attr(part.name), getattr(value, part.name)) for part in dataclasses.fields(value)]
    return None


def rebuild(value: Any, parts: list[Any]) -> Any:
    """Make a container of the same kind as `value` around new parts."""
    if is_namedtuple(value):
        return type(value)(*parts)
    if isinstance(value, (list, tuple)):
        return _same_sequence(value, parts)
    if is_mapping_like(value):
        return _same_mapping(value, dict(zip(list(value.keys()), parts, strict=True)))
    sandbox = copy.copy(value)
    for part, new in zip(dataclasses.fields(value), parts, strict=True):
        object.__setattr__(sandbox, part.name, new)  # also where the dataclass is frozen
    return sandbox


def _same_sequence(value: Any, parts: list[Any]) -> Any:
    if type(value) in (list, tuple):
        return type(value)(parts)
    with user_code(passing=()):
        return type(value)(parts)
    return parts if isinstance(value, list) else tuple(parts)


def _same_mapping(value: Any, items: dict[Any, Any]) -> Any:
    if type(value) is dict:
        return items
    with user_code(passing=()):
        sandbox = copy.copy(value)
        if isinstance(getattr(sandbox, "data", None), dict):  # UserDict and its kin share `data` after a copy
            sandbox.data = items
        else:
            for key, item in items.items():
                sandbox[key] = item
        return sandbox
    return items


def leaves(value: Any, path: Path = ()) -> list[tuple[Path, Any]]:
    """List every leaf with its path, in order."""
    parts = children(value)
    if parts is None:
        return [(path, value)]
    return [leaf for step, part in parts for leaf in leaves(part, (*path, step))]


def map_leaves(change: Callable[[Path, Any], Any], value: Any, path: Path = ()) -> Any:
    """Rebuild the whole nest with every leaf changed by the function."""
    parts = children(value)
    if parts is None:
        return change(path, value)
    return rebuild(value, [map_leaves(change, part, (*path, step)) for step, part in parts])


def map_tensors(change: Callable[[Any], Any], value: Any, kind: type = torch.Tensor) -> Any:
    """Rebuild a nest with its tensors (or the parts of another type) changed; what stays the same is not copied.

    Slices are opened too, as the arguments of `tensor[a:b]` need it.
    """
    if isinstance(value, kind):
        return change(value)
    if value is None or isinstance(value, _PLAIN):
        return value
    if isinstance(value, slice):
        return slice(*(map_tensors(change, part, kind) for part in (value.start, value.stop, value.step)))
    before = [part for _, part in children(value) or ()]
    after = [map_tensors(change, part, kind) for part in before]
    is_same = all(new is old for new, old in zip(after, before, strict=True))
    return value if is_same else rebuild(value, after)


def detached(value: Any) -> Any:
    """Rebuild a nest with its tensors cut off from the autograd graph."""
    return map_leaves(lambda _, leaf: leaf.detach() if isinstance(leaf, torch.Tensor) else leaf, value)


def tensors_in(*values: Any) -> list[torch.Tensor]:
    """List the tensors of nests in order, each as often as it is met."""
    found: list[torch.Tensor] = []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        found.append(tensor)
        return tensor

    for value in values:
        map_tensors(note, value)
    return found


def first_tensor(value: Any) -> torch.Tensor | None:
    """Return the first tensor of a nest, which is the main one by custom."""
    return next(iter(tensors_in(value)), None)


def at(value: Any, path: Path) -> Any:
    """Return the part at this path."""
    for step in path:
        value = getattr(value, step) if isinstance(step, Attr) else value[step]
    return value


def replace_at(value: Any, path: Path, new: Any) -> Any:
    """Rebuild the nest with one part exchanged."""
    if not path:
        return new
    parts = children(value) or []
    return rebuild(value, [replace_at(p, path[1:], new) if step == path[0] else p for step, p in parts])


def name_of(path: Path) -> str:
    """Write a path as a person would: `batch[0]`, `labels`, `inputs.ids`, `boxes[2]`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f"{'.' if text else ''}{step}"
    return f"batch{text}" if not text or text.startswith("[") else text
