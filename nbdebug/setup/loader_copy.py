"""Copy what batches are drawn from, so that drawing moves nothing of the user's on.

A DataLoader is copied part by part: the copy has no workers and no live iterator, and its dataset, samplers,
generators and collate function are copies. Data too large to copy is shared, and everything around it is copied all
the same.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from nbdebug.core.torch_compat import SET_BY_CONSTRUCTOR
from nbdebug.errors import BadInput
from nbdebug.setup.careful_copy import WITHOUT_WORKERS, careful_copy, with_parts
from nbdebug.setup.object_graph import copy_cost, copy_generator, data_in, generators_in, heavy_parts
from nbdebug.setup.rebinding import Rebinder

__all__ = ["copied_loader", "copied_source", "drawn_anew"]

COPY_AT_MOST_BYTES = 256_000_000  # of a larger data set the arrays are shared, and the report says so
COPY_AT_MOST_OBJECTS = 50_000  # deepcopy takes about 5 microseconds for each

_LIGHT = {"batch_size", "drop_last", "worker_init_fn", "in_order", "pin_memory_device", "dataset", "prefetch_factor"}


def copied_loader(loader: Any, notes: list[str], name: str) -> Any:
    """Copy a DataLoader with everything that it draws from."""
    memo = {id(g): copy_generator(g) for g in generators_in(loader)}
    dataset = _copied_dataset(loader.dataset, memo, notes, name)
    memo[id(loader.dataset)] = dataset
    return with_parts(loader, _drawing_parts(loader, memo, notes, name) | {"dataset": dataset})


def drawn_anew(kept: Any) -> Any:
    """Copy a copy for one pass: its samplers and generators start where the user's stand, its data set is the same.

    Only a data set that is a stream is copied again, because a pass uses it up.
    """
    memo: dict[int, Any] = {}
    dataset = kept.dataset
    if isinstance(dataset, IterableDataset):
        dataset = _copied_dataset(dataset, memo, [], "")
    memo[id(kept.dataset)] = dataset
    return with_parts(kept, _drawing_parts(kept, memo, [], "") | {"dataset": dataset})


def copied_source(source: Any, notes: list[str], name: str) -> Callable[[], Any]:
    """Return a function that makes a fresh copy of something that can be iterated again."""
    memo: dict[int, Any] = {}
    for inner in data_in(source):
        if isinstance(inner, DataLoader):  # its live workers cannot be copied, and must not be reset
            memo[id(inner)] = copied_loader(inner, notes, name)
    _share_heavy(source, memo, notes, name)
    first = dict(memo)
    try:
        replica = careful_copy(source, first, notes, name)
    except Exception as error:
        notes.append(f"{name} ({type(source).__name__}) cannot be copied ({error}); the original is iterated.")
        return lambda: source
    shared = {id(part): part for part in heavy_parts(replica)} if memo else {}
    return lambda: careful_copy(replica, dict(shared), [], name)


def _copied_dataset(dataset: Any, memo: dict[int, Any], notes: list[str], name: str) -> Any:
    _share_heavy(dataset, memo, notes, name)
    try:
        trial = {**memo, **{id(g): copy_generator(g) for g in generators_in(dataset) if id(g) not in memo}}
        sandbox = copy.deepcopy(dataset, trial)
        memo.update(trial)
        return sandbox
    except Exception as error:
        if isinstance(dataset, IterableDataset) and _is_one_shot(dataset):
            raise BadInput(
                f"its dataset {type(dataset).__name__} can be iterated only once and cannot be copied ({error})",
                where=name,
                expected="a loader that can be iterated more than once",
                do=f"pass a function that returns a loader ({name}=lambda: make_loader()) or a list of a few batches",
            ) from error
    try:
        return careful_copy(dataset, memo, notes, f"the dataset of {name}")
    except Exception as error:
        _say(notes, f"The dataset of {name} cannot be copied ({error}); the original is used.")
        return dataset


def _share_heavy(value: Any, memo: dict[int, Any], notes: list[str], name: str) -> None:
    held = copy_cost(value)
    if held.size > COPY_AT_MOST_BYTES or held.objects > COPY_AT_MOST_OBJECTS:
        _say(notes, f"The data of {name} is too large to copy ({held}); the original is used.")
        memo.update({id(part): part for part in heavy_parts(value)})


def _is_one_shot(dataset: Any) -> bool:
    held = [value for value in vars(dataset).values() if not isinstance(value, io.IOBase)]  # a file is opened again
    return any(hasattr(value, "__next__") for value in (dataset, *held))


def _drawing_parts(loader: Any, memo: dict[int, Any], notes: list[str], name: str) -> dict[str, Any]:
    """Copy samplers, generator, collate and what a subclass adds together, so that what they share stays shared."""
    own = set(WITHOUT_WORKERS) | _LIGHT
    names = [n for n in vars(loader) if n not in own and not n.startswith(SET_BY_CONSTRUCTOR)]
    live = [vars(loader)[n] for n in names]
    for inner in data_in(*live):
        if isinstance(inner, DataLoader) and id(inner) not in memo and inner is not loader:
            memo[id(inner)] = copied_loader(inner, notes, name)
    try:
        parts = dict(zip(names, careful_copy(live, memo, notes, name), strict=True))
    except Exception as error:
        _say(notes, f"The sampler of {name} cannot be copied ({error}); the original is used.")
        return {}
    if "collate_fn" in parts:
        parts["collate_fn"] = Rebinder(memo, notes).rebound(parts["collate_fn"])[0]
    return parts


def _say(notes: list[str], text: str) -> None:
    if text not in notes:
        notes.append(text)
