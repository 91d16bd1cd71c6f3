"""What the modules of a copy keep from one call to the next, in buffers and plain attributes, and how to restore it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin

from nbdebug.core.torch_compat import REGISTRIES, is_bookkeeping, own_buffers, own_modules, own_parameters, write_count
from nbdebug.experiments.capture import paths_of
from nbdebug.setup.nested import tensors_in

__all__ = ["KeptState", "from_one_state", "resized"]

_DEPTH = 3
_LONG = 1000


class KeptState:
    """The buffers and attributes of all modules at one moment."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._shape = _shape_of(model)
        self._modules = [
            (path, module, _attributes(module), dict(own_buffers(module)))
            for path, module in paths_of(model).items()
            if not isinstance(module, (torch.jit.ScriptModule, LazyModuleMixin))
        ]
        held = [part for _, _, own, buffers in self._modules for part in (*own.values(), *buffers.values())]
        self._contents = {id(part): (part, _items(part)) for value in held for part in _containers(value)}
        tensors = [t for value in held for t in _held_tensors(value)]
        self._values = {id(t): (t, t.detach().clone(), write_count(t)) for t in tensors}
        self._seen = {
            name if path == "model" else f"{path}.{name}": [self._values[id(t)][1] for t in _held_tensors(value)]
            for path, _, own, buffers in self._modules
            for name, value in {**own, **buffers}.items()
        }

    def changed(self) -> list[str]:
        """Name the tensors that are not as they were: `rnn.hidden`, or `hidden` for one of the model itself."""
        now = KeptState(self._model)._seen
        return [name for name, tensors in now.items() if tensors and not _equal(self._seen.get(name, []), tensors)]

    def restore(self) -> None:
        """Put everything back; a model that has built layers in the meantime is left as it is."""
        if _shape_of(self._model) != self._shape:
            return
        for _, module, own, buffers in self._modules:
            for name in set(_attributes(module)) - set(own):
                del module.__dict__[name]
            module.__dict__.update(own)
            own_buffers(module).clear()
            own_buffers(module).update(buffers)
        for part, items in self._contents.values():
            part.clear()
            part.update(items) if isinstance(part, dict) else part.extend(items)
        with torch.no_grad():
            for tensor, value, version in self._values.values():
                if write_count(tensor) != version:
                    tensor.copy_(value)


@contextmanager
def from_one_state(model: nn.Module) -> Iterator[KeptState]:
    """Let a pass begin with what the model keeps now, and the next one too: comparisons see no difference of state."""
    state = KeptState(model)
    try:
        yield state
    finally:
        state.restore()


def resized(model: nn.Module, names: list[str], rows: int, size: int) -> None:
    """Cut the dimensions of so many rows to another number of samples, or repeat them, in what is kept."""
    for name in names:
        path, _, own = name.rpartition(".")
        module = model.get_submodule(path)
        kept = own_buffers(module) if own in own_buffers(module) else module.__dict__
        kept[own] = _cut(kept[own], rows, size)


def _cut(value: Any, rows: int, size: int) -> Any:
    if isinstance(value, torch.Tensor):
        for dim in (d for d, length in enumerate(value.shape) if length == rows):
            value = value.index_select(dim, torch.arange(size, device=value.device) % rows)
        return value
    if type(value) in (list, tuple):
        return type(value)(_cut(item, rows, size) for item in value)
    return {key: _cut(item, rows, size) for key, item in value.items()} if type(value) is dict else value


def _shape_of(model: nn.Module) -> list[tuple[str, ...]]:
    return [
        (path, *own_parameters(module), *own_modules(module))
        for path, module in model.named_modules()
        if not isinstance(module, torch.jit.ScriptModule) and REGISTRIES[0] in vars(module)
    ]


def _attributes(module: nn.Module) -> dict[str, Any]:
    """Return what a module holds beside its layers and weights; long containers are data, and no state."""
    return {
        name: value
        for name, value in vars(module).items()
        if name not in ("training", "forward")
        and not is_bookkeeping(name)
        and not (isinstance(value, (list, tuple, dict)) and len(value) > _LONG)
    }


def _containers(value: Any, depth: int = 0) -> Iterator[Any]:
    if depth < _DEPTH and type(value) in (list, dict, tuple):
        if type(value) is not tuple:
            yield value
        for item in value.values() if type(value) is dict else value:
            yield from _containers(item, depth + 1)


def _items(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else list(value)


def _equal(olds: list[torch.Tensor], news: list[torch.Tensor]) -> bool:
    pairs = zip(olds, news, strict=False)
    return len(olds) == len(news) and all(a.shape == b.shape and torch.equal(a, b) for a, b in pairs)


def _held_tensors(value: Any) -> list[torch.Tensor]:
    """List the tensors whose values a call may overwrite; what is trained is no state."""
    return [t for t in tensors_in(value) if not t.requires_grad and not t.is_inference() and not t.is_sparse]
