"""Open what a user calls a loader and is no DataLoader, or say what to hand over instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.errors import BadInput
from nbdebug.setup.loader_copy import copied_loader, copied_source
from nbdebug.setup.nested import leaves
from nbdebug.setup.rebinding import Rebinder

__all__ = ["checked_batch", "opener"]

Open = Callable[[], Iterable[Any]]

_ORDER = "the order is model, loader, loss_fn, optimizer"
_TABLE = "DataLoader(TensorDataset(inputs, targets), batch_size=32, shuffle=True)"

# what is no loader -> what was seen, what to do; {kind}, {shape}, {text} and {name} are filled in
_NO_LOADERS: tuple[tuple[Any, str, str], ...] = (
    (type(None), "it is None", "pass a DataLoader as {name}"),
    (type, "it is the class {text}", "create one: DataLoader(data, batch_size=32, shuffle=True)"),
    (nn.Module, "it is the model {kind}", _ORDER),
    (torch.optim.Optimizer, "it is the optimizer {kind}", _ORDER),
    (torch.Tensor, "it is a tensor of shape {shape}", "pass one batch as [({name}, targets)], or " + _TABLE),
    (np.ndarray, "it is an array of shape {shape}", _TABLE),
    ((str, bytes), "it is the text {text}", "pass the loader itself, not its name"),
    (PurePath, "it is the path {text}", "load it into a Dataset and wrap that in a DataLoader"),
    (
        Dataset,
        "it is a {kind}, a dataset and not a loader",
        "wrap it: DataLoader({name}, 32, shuffle=True)",
    ),
    (dict, "it is a dict", "if it is one batch, pass [batch]; if it holds loaders, pass one of them"),
    ((set, frozenset), "it is a set, which has no order", "pass a list of batches"),
)


def opener(loader: Any, name: str, notes: list[str]) -> Open:
    """Find a way to read something that is not a DataLoader from its beginning, again and again."""
    _refuse_no_loader(loader, name)
    if isinstance(loader, tuple) and loader and all(isinstance(x, torch.Tensor) for _, x in leaves(loader)):
        notes.append(f"{name} is a single batch; all results about the data hold only for this batch.")
        return lambda: [loader]
    if isinstance(loader, (list, tuple)):
        return lambda: loader
    if hasattr(loader, "__next__"):
        raise _bad(
            name,
            f"it is a {type(loader).__name__}, which can be iterated only once",
            f"pass a function that creates a new one ({name}=lambda: make_batches()) or a list of a few batches",
        )
    if hasattr(loader, "__iter__"):
        return copied_source(loader, notes, name)
    if callable(loader):
        return lambda: _made_by(Rebinder({}, notes).rebound(loader)[0], name, notes)
    raise _bad(name, f"it is a {type(loader).__name__}, which cannot be iterated", "pass a DataLoader")


def checked_batch(raw: Any) -> None:
    """Refuse a batch without any tensor: what a model eats has to be converted first."""
    parts = [leaf for _, leaf in leaves(raw)]
    if any(isinstance(part, (torch.Tensor, torch.nn.utils.rnn.PackedSequence)) for part in parts):
        return
    kinds = sorted({type(part).__name__ for part in parts})
    inside = "nothing" if not parts else f"{len(parts)} × {', '.join(kinds)}"
    arrays = any(type(part).__module__.startswith("numpy") for part in parts)
    raise BadInput(
        f"its first batch is a {type(raw).__name__} of {inside} without a tensor",
        where="loader",
        expected="batches of tensors, such as (inputs, targets)",
        do="convert with torch.as_tensor in your dataset" if arrays else "pass a DataLoader or [(inputs, targets), …]",
    )


def _refuse_no_loader(loader: Any, name: str) -> None:
    kind = type(loader).__name__
    if hasattr(loader, "iloc"):
        raise _bad(name, f"it is a {kind} of pandas", _TABLE)
    for kinds, seen, do in _NO_LOADERS:
        if isinstance(loader, kinds):
            text = getattr(loader, "__name__", None) or (str(loader) if isinstance(loader, PurePath) else repr(loader))
            words = {"kind": kind, "text": text[:40], "shape": tuple(getattr(loader, "shape", ())), "name": name}
            raise _bad(name, seen.format(**words), do.format(**words))


def _made_by(factory: Callable[[], Any], name: str, notes: list[str]) -> Iterable[Any]:
    made: Iterable[Any] = factory()
    if isinstance(made, DataLoader):
        made = copied_loader(made, notes, name)
    if not hasattr(made, "__iter__"):
        raise _bad(name, f"the function returned a {type(made).__name__}", "let it return an iterable of batches")
    return made


def _bad(name: str, seen: str, do: str) -> BadInput:
    return BadInput(
        seen, where=name, expected="a DataLoader, a list of batches, or something that can be iterated again", do=do
    )
