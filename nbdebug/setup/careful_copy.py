"""Copy any object of the user's, with a way round each part that refuses to be copied."""

from __future__ import annotations

import copy
import io
import threading
import types
from typing import Any

import torch
from torch import nn

from nbdebug.core.torch_compat import ITERATOR
from nbdebug.setup.object_graph import copy_generator, generators_in
from nbdebug.setup.object_walk import children_of, registered_in, step_to

__all__ = ["WITHOUT_WORKERS", "borrowed_loader", "careful_copy", "with_parts"]

_LOCKS = (type(threading.Lock()), type(threading.RLock()))
_MOST_TRIES = 3
WITHOUT_WORKERS = {"num_workers": 0, "persistent_workers": False, ITERATOR: None, "pin_memory": False, "timeout": 0}


def careful_copy(
    value: Any, memo: dict[int, Any], notes: list[str], name: str = "", *, stand_ins: type | tuple[type, ...] = object
) -> Any:
    """Return a deep copy; what cannot be copied gets a stand-in, or is shared and named in the notes.

    `memo` is filled as by `copy.deepcopy`. The original error is raised when there is no way round it, or when the way
    would need a stand-in for something of another type than those allowed.
    """
    for generator in generators_in(value):
        memo.setdefault(id(generator), copy_generator(generator))
    for tries in range(_MOST_TRIES):
        trial = dict(memo)
        try:
            _fill(trial)
            sandbox = copy.deepcopy(value, trial)
        except Exception:
            if tries == _MOST_TRIES - 1 or not _way_round(value, memo, notes, name, stand_ins):
                raise
            continue
        kept = trial.pop(id(trial), [])  # deepcopy keeps the originals alive here, or their ids would be used again
        memo.update(trial)
        memo.setdefault(id(memo), []).extend(kept)
        return sandbox
    raise AssertionError("unreachable")


def _way_round(
    value: Any, memo: dict[int, Any], notes: list[str], name: str, stand_ins: type | tuple[type, ...]
) -> bool:
    """Put a stand-in into the memo for each part that cannot be copied; say whether that was possible."""
    pretend = dict(memo)
    for module in _modules_in(value):  # tensors need no trial, and a trial of each would hold them all again
        pretend.update({id(part): part for _, part in registered_in(module) if isinstance(part, torch.Tensor)})
    found = {id(part): (place, part) for place, part in _uncopyable(value, pretend, name, {})}
    if not all(isinstance(part, stand_ins) for _, part in found.values()):
        return False
    for place, part in found.values():
        stand_in = _stand_in(part)
        memo[id(part)] = stand_in
        if stand_in is part and not isinstance(part, types.ModuleType):
            notes.append(
                f"{place or type(part).__name__} ({type(part).__name__}) cannot be copied; the copy shares it."
            )
    return bool(found)


class _Unfilled:
    """Marks in a memo a module or wrapper whose own way of copying fails; it is rebuilt attribute by attribute."""

    def __init__(self, part: Any) -> None:
        self.part = part


def _fill(trial: dict[int, Any]) -> None:
    """Rebuild the marked parts without calling their own way of copying."""
    marked = [mark.part for mark in list(trial.values()) if isinstance(mark, _Unfilled)]
    for part in marked:
        kind: Any = type(part)
        trial[id(part)] = kind.__new__(kind)
    for part in marked:
        trial[id(part)].__dict__.update(copy.deepcopy(dict(vars(part)), trial))


_Places = list[tuple[str, Any]]


def _uncopyable(value: Any, memo: dict[int, Any], name: str, asked: dict[int, _Places]) -> _Places:
    """Find the smallest parts that fail by themselves; `asked` keeps the answers, because parts are shared."""
    if id(value) in memo or id(value) in asked:
        return asked.get(id(value), [])
    asked[id(value)] = []
    try:
        copy.deepcopy(value, dict(memo))
        return []
    except Exception:
        within = {**memo, id(value): value}  # a part may point back; then it must not fail for its owner
    parts = _parts(value)
    found = [bad for step, part in parts for bad in _uncopyable(part, within, f"{name}{step}", asked)]
    asked[id(value)] = found or [(name, value)]
    return asked[id(value)]


def _parts(value: Any) -> list[tuple[str, Any]]:
    """Return what deepcopy goes into, so no functions; the submodules first, that parts have PyTorch's names."""
    own = registered_in(value) if isinstance(value, nn.Module) else []
    return [(step_to(value, key), part) for key, part in (*own, *children_of(value, "owner", "arguments"))]


def _stand_in(part: Any) -> Any:
    """Return what serves in place of a part that cannot be copied: something new of its kind, or the part itself."""
    if isinstance(part, torch.Tensor):
        return part.detach().clone().requires_grad_(part.requires_grad)
    if isinstance(part, torch.Generator):
        return copy_generator(part)
    if isinstance(part, _LOCKS):
        return type(part)() if type(part) is not type(threading.Lock()) else threading.Lock()
    if isinstance(part, io.IOBase):
        return _other_file(part)
    if _is_wrapper(part) or (isinstance(part, nn.Module) and not isinstance(part, torch.jit.ScriptModule)):
        return _Unfilled(part)
    return part


def _is_wrapper(part: Any) -> bool:
    """Whether this is an object called like a function, as a library puts around a forward and forbids to pickle."""
    *kinds, _ = type(part).__mro__
    is_plain = hasattr(part, "__dict__") and not any("__new__" in vars(kind) for kind in kinds)
    return is_plain and isinstance(vars(type(part)).get("__call__"), types.FunctionType)


def _other_file(file: Any) -> Any:
    """Read a file by a second handle at the same place; what is written to one goes nowhere."""
    try:
        if file.closed or not isinstance(getattr(file, "name", None), str) or file.fileno() < 3:
            return file
        if file.writable():
            return io.StringIO() if isinstance(file, io.TextIOBase) else io.BytesIO()
        place = file.tell()
        again = open(file.name, file.mode, encoding=getattr(file, "encoding", None))  # noqa: SIM115 - the copy's to keep
        again.seek(place)
        return again
    except (OSError, ValueError):
        return file


def _modules_in(value: Any) -> list[nn.Module]:
    roots = value if isinstance(value, (list, tuple)) else [value]
    return [module for part in roots if isinstance(part, nn.Module) for module in part.modules()]


def borrowed_loader(loader: Any) -> Any:
    """Return a DataLoader over the same data set that moves nothing of the user's on: no workers, samplers of its
    own.
    """
    names = [name for name in ("sampler", "batch_sampler", "generator") if name in vars(loader)]
    memo = {id(loader.dataset): loader.dataset}
    copies = careful_copy([vars(loader)[name] for name in names], memo, [])
    return with_parts(loader, dict(zip(names, copies, strict=True)))


def with_parts(loader: Any, parts: dict[str, Any]) -> Any:
    """Return a shallow copy of a DataLoader with other parts and no workers; DataLoader itself forbids to set them."""
    replica = copy.copy(loader)
    for name, value in (WITHOUT_WORKERS | {"prefetch_factor": None} | parts).items():
        if name in replica.__dict__ or name in parts:
            object.__setattr__(replica, name, value)
    return replica
