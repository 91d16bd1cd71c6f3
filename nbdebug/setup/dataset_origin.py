"""Where the samples of a loader come from: the data set at the bottom, the indices in it, and its augmentation."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from nbdebug.setup.batch_source import Feed, length_of

__all__ = [
    "attributes_of_view",
    "chain_of",
    "is_view",
    "origin_of",
    "read_like",
    "same_store",
    "without_augmentation",
]

_DEPTH = 6
_ENTRIES = 200  # entries of two containers that are compared


def origin_of(feed: Feed) -> tuple[Any, np.ndarray] | None:
    """Return the data set at the bottom of the user's loader, and the indices of it that the loader draws."""
    if feed.dataset is None or not feed.total:
        return None
    within = feed.within
    drawn = np.arange(feed.total) if within is None else np.asarray(within, dtype=np.int64)
    part = feed.loader.dataset
    for _ in range(_DEPTH):
        inner, indices = getattr(part, "dataset", None), getattr(part, "indices", None)
        if inner is None or indices is None:
            break
        table = np.asarray(indices, dtype=np.int64)
        if drawn.size and (table.ndim != 1 or drawn.max() >= len(table)):
            break
        part, drawn = inner, table[drawn]
    return part, drawn


def same_store(one: Any, other: Any) -> bool:
    """Whether two data sets hold the same samples in the same order, whatever they make of them."""
    if one is other:
        return True
    if type(one) is not type(other) or length_of(one) != length_of(other) or not hasattr(one, "__dict__"):
        return False
    mine, theirs = dict(vars(one)), dict(vars(other))
    names = [name for name in mine if name in theirs and _is_content(name, mine[name]) and not is_view(name)]
    held = [name for name in names if not isinstance(mine[name], (bool, int, float))]
    return bool(held) and all(_equal(mine[name], theirs[name]) for name in names)


def without_augmentation(feed: Feed, like: Feed) -> Feed | None:
    """Copy a feed and give its data set the transforms of another, where both have them; None where they have not."""
    again = Feed(feed.loader, feed.name)
    if again.dataset is None or like.dataset is None or again.dataset is feed.loader.dataset:
        return None
    changed = False
    for mine in chain_of(again.dataset):
        for theirs in chain_of(like.dataset):
            if type(mine) is type(theirs) and mine is not theirs:
                changed = _adopt(mine, theirs) or changed
    return again if changed else None


def _adopt(mine: Any, theirs: Any) -> bool:
    changed = False
    for name, value in list(getattr(mine, "__dict__", {}).items()):
        if is_view(name) and name in vars(theirs) and vars(theirs)[name] is not value:
            setattr(mine, name, vars(theirs)[name])
            changed = True
    return changed


def read_like(feed: Feed, like: Feed) -> Feed | None:
    """Copy a feed and let its data set read samples as another one of the same class does.

    Besides transforms, that takes over switches such as `train` or `augment`; None where nothing differs.
    """
    plain = without_augmentation(feed, like)
    again, changed = plain or Feed(feed.loader, feed.name), plain is not None
    if again.dataset is None or like.dataset is None or again.dataset is feed.loader.dataset:
        return None
    for mine in chain_of(again.dataset):
        for theirs in chain_of(like.dataset):
            if type(mine) is type(theirs) and mine is not theirs:
                for name, value in list(getattr(mine, "__dict__", {}).items()):
                    other = vars(theirs).get(name, value)
                    if isinstance(value, bool) and isinstance(other, bool) and other is not value:
                        setattr(mine, name, other)
                        changed = True
    return again if changed else None


def attributes_of_view(dataset: Any) -> dict[str, Any]:
    """Return what a data set and those that it wraps keep to show samples with: transforms, by the way to them."""
    return {
        f"{'dataset.' * depth}{name}": value
        for depth, part in enumerate(chain_of(dataset))
        for name, value in (getattr(part, "__dict__", None) or {}).items()
        if is_view(name)
    }


def chain_of(dataset: Any) -> list[Any]:
    """List a data set and those that it wraps."""
    found = [dataset]
    while len(found) < _DEPTH and getattr(found[-1], "dataset", None) is not None:
        found.append(found[-1].dataset)
    return found


def is_view(name: str) -> bool:
    """Whether an attribute says how samples are shown, and not which ones there are."""
    return any(word in name.lower() for word in ("transform", "augment", "jitter")) or name.lower() in ("aug", "noise")


def _is_content(name: str, value: Any) -> bool:
    return isinstance(value, (bool, int, float, str, list, tuple, np.ndarray, torch.Tensor))


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, (np.ndarray, torch.Tensor)):
        same_shape = type(one) is type(other) and one.shape == other.shape
        step = max(1, len(one) // _ENTRIES) if getattr(one, "ndim", 0) else 1
        return same_shape and bool(np.array_equal(np.asarray(one[::step]), np.asarray(other[::step])))
    if isinstance(one, (list, tuple)):
        step = max(1, len(one) // _ENTRIES)
        pairs = zip(one[::step], other[::step], strict=False)
        return type(one) is type(other) and len(one) == len(other) and all(_equal(a, b) for a, b in pairs)
    return one is other or bool(type(one) is type(other) and _is_content("", one) and one == other)
