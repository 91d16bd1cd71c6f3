"""The ingredients of the data: dataset, transforms, sampler, batch size, collate; and a loader mixed of both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader

from nbdebug.core.text import figure
from nbdebug.engine.bisection.alike import Alike
from nbdebug.engine.bisection.given import Given, Name
from nbdebug.engine.bisection.ingredient import Ingredient, between
from nbdebug.setup.careful_copy import with_parts
from nbdebug.setup.dataset_origin import attributes_of_view, chain_of, is_view
from nbdebug.setup.loader_copy import copied_loader
from nbdebug.setup.nested import leaves
from nbdebug.setup.user_code import user_code

__all__ = ["DATA", "differing", "mixed_loader", "parts_of_dataset"]

DATASET, TRANSFORM, SAMPLER, BATCH_SIZE, COLLATE, LOADER = (
    "dataset", "transform", "sampler", "batch size", "collate", "loader"
)  # fmt: skip
DATA = frozenset((DATASET, TRANSFORM, SAMPLER, BATCH_SIZE, COLLATE, LOADER))
WITHOUT_EFFECT = ("num_workers", "pin_memory", "persistent_workers", "prefetch_factor")

Side = Callable[[str], Name]


def differing(good: Given, bad: Given, alike: Alike) -> Iterator[Ingredient]:
    """Yield what differs between the training loaders."""
    ours, theirs = good.setup.feed.loader, bad.setup.feed.loader
    if not (isinstance(ours, DataLoader) and isinstance(theirs, DataLoader)):
        if not alike(ours, theirs):
            yield between(LOADER, ours, theirs, texts=(_loader_text(good), _loader_text(bad)))
        return
    content = Alike([(ours, theirs)])
    if not _same_content(ours.dataset, theirs.dataset, content):
        yield between(DATASET, ours.dataset, theirs.dataset, texts=_dataset_texts(good, bad, content))
    views = [attributes_of_view(side.dataset) for side in (ours, theirs)]
    if not alike(*views) and any(views):
        mine, other = (list(view.values()) for view in views)
        texts = (_views_text(views[0]), _views_text(views[1]))
        fits = "" if views[0].keys() == views[1].keys() else "the data sets keep their transforms under other names"
        yield between(TRANSFORM, mine[0] if mine else None, other[0] if other else None, texts=texts, kept=fits)
    yield from _of_order(ours, theirs, Alike([(ours.dataset, theirs.dataset)]))
    for name in WITHOUT_EFFECT:
        if getattr(ours, name, None) != getattr(theirs, name, None):
            kept = "it decides how fast batches come, and experiments read without workers"
            yield between(name, getattr(ours, name), getattr(theirs, name), kept=kept)


def _of_order(ours: Any, theirs: Any, alike: Alike) -> Iterator[Ingredient]:
    """Yield how samples are chosen and put together."""
    own_batches = [_has_own_batches(loader) for loader in (ours, theirs)]
    samplers = [_sampler(loader) for loader in (ours, theirs)]
    if not alike(*samplers) or ours.drop_last != theirs.drop_last:
        texts = [_sampler_text(loader) for loader in (ours, theirs)]
        yield between(SAMPLER, *samplers, texts=(texts[0], texts[1]))
    if not any(own_batches) and ours.batch_size != theirs.batch_size:
        yield between(BATCH_SIZE, ours.batch_size, theirs.batch_size)
    if not alike(ours.collate_fn, theirs.collate_fn):
        yield between(COLLATE, ours.collate_fn, theirs.collate_fn)


def mixed_loader(good: Any, bad: Any, side: Side, taken: frozenset[str]) -> Any:
    """Return a loader with each part from the side that is asked for; it shares nothing with the user's two."""
    loaders: dict[Name, Any] = {"good": good, "bad": bad}
    if not (isinstance(good, DataLoader) and isinstance(bad, DataLoader)):
        return loaders[side(LOADER)]
    copies = {name: copied_loader(loader, [], "loader") for name, loader in loaders.items()}
    base = copies[side(DATASET)]
    dataset = base.dataset
    for part in taken:
        if part.startswith(f"{DATASET}: "):
            _put_part(dataset, copies["good"].dataset, part.removeprefix(f"{DATASET}: "))
    if side(TRANSFORM) != side(DATASET):
        _put_views(dataset, copies[side(TRANSFORM)].dataset)
    chooser = copies[side(SAMPLER)]
    sampler = _over(dataset, _sampler(chooser))
    parts = {"dataset": dataset, "collate_fn": copies[side(COLLATE)].collate_fn, "generator": chooser.generator}
    if _has_own_batches(chooser) or chooser.batch_size is None:
        own = {"batch_sampler": sampler} if chooser.batch_sampler is not None else {"sampler": sampler}
        return with_parts(base, parts | own | {"batch_size": chooser.batch_size, "drop_last": chooser.drop_last})
    size = copies[side(BATCH_SIZE)].batch_size or chooser.batch_size
    batches = BatchSampler(sampler, size, chooser.drop_last)
    order = {"sampler": sampler, "batch_sampler": batches, "batch_size": size, "drop_last": chooser.drop_last}
    return with_parts(base, parts | order)


def parts_of_dataset(good: Any, bad: Any, alike: Alike) -> Iterator[Ingredient]:
    """Yield the attributes and stored arrays in which two data sets of one class differ, as parts of the dataset."""
    if not (isinstance(good, DataLoader) and isinstance(bad, DataLoader)):
        return
    if not alike.same_kind(good.dataset, bad.dataset):
        return
    mine, theirs = _places(good.dataset), _places(bad.dataset)
    for name in [name for name in mine if name in theirs]:
        if not alike(mine[name], theirs[name]):
            texts = (_value_text(mine[name]), _value_text(theirs[name]))
            yield between(f"{DATASET}: {name}", mine[name], theirs[name], texts=texts, part_of=DATASET)


def _places(dataset: Any) -> dict[str, Any]:
    """Return what a data set stores, by the way to write it: `tensors[0]`, `labels`."""
    found: dict[str, Any] = {}
    for name, value in vars(dataset).items():
        if is_view(name):
            continue
        if isinstance(value, (tuple, list)) and len(value) <= 8 and all(isinstance(v, torch.Tensor) for v in value):
            found |= {f"{name}[{index}]": item for index, item in enumerate(value)}
        else:
            found[name] = value
    return found


def _put_part(dataset: Any, source: Any, place: str) -> None:
    name, bracket, index = place.partition("[")
    if not bracket:
        setattr(dataset, name, getattr(source, name))
        return
    items = list(getattr(dataset, name))
    items[int(index[:-1])] = getattr(source, name)[int(index[:-1])]
    setattr(dataset, name, type(getattr(dataset, name))(items))


def _put_views(dataset: Any, source: Any) -> None:
    for mine, theirs in zip(chain_of(dataset), chain_of(source), strict=False):
        for name in [name for name in getattr(mine, "__dict__", {}) if is_view(name)]:
            if name in vars(theirs):
                setattr(mine, name, vars(theirs)[name])


def _same_content(one: Any, other: Any, alike: Alike) -> bool:
    """Whether two data sets hold and do the same, whatever their transforms are."""
    ours, theirs = chain_of(one), chain_of(other)
    if len(ours) != len(theirs):
        return False
    for mine, their in zip(ours, theirs, strict=True):
        held = [{n: v for n, v in _vars(part).items() if not is_view(n) and n != "dataset"} for part in (mine, their)]
        if not alike.same_kind(mine, their) or not (alike(*held) if held[0] or held[1] else alike(mine, their)):
            return False
    return True


def _vars(part: Any) -> dict[str, Any]:
    held = getattr(part, "__dict__", None)
    return held if isinstance(held, dict) else {}


def _has_own_batches(loader: Any) -> bool:
    return loader.batch_sampler is not None and type(loader.batch_sampler) is not BatchSampler


def _sampler(loader: Any) -> Any:
    return loader.batch_sampler if _has_own_batches(loader) else loader.sampler


def _over(dataset: Any, sampler: Any) -> Any:
    """Let a copied sampler choose from another data set, where it remembers the one it was made for."""
    for name in ("data_source", "dataset"):
        if name in _vars(sampler):
            setattr(sampler, name, dataset)
    return sampler


def _sampler_text(loader: Any) -> str:
    dropped = ", drops the last batch" if loader.drop_last else ""
    return f"{type(_sampler(loader)).__name__}{dropped}"


def _views_text(views: dict[str, Any]) -> str:
    from nbdebug.engine.bisection.ingredient import described

    return "; ".join(f"{name.rpartition('.')[2]}={described(value)}" for name, value in views.items()) or "none"


def _dataset_texts(good: Given, bad: Given, alike: Alike) -> tuple[str, str]:
    """Return the parts that differ, or the kind and the scale where two data sets are of other classes."""
    parts = list(parts_of_dataset(good.setup.feed.loader, bad.setup.feed.loader, alike))[:2]
    if not parts:
        return _loader_text(good), _loader_text(bad)
    names = [part.name.removeprefix(f"{DATASET}: ") for part in parts]
    pairs = list(zip(names, parts, strict=True))
    return "; ".join(f"{n}: {p.good}" for n, p in pairs), "; ".join(f"{n}: {p.bad}" for n, p in pairs)


def _loader_text(side: Given) -> str:
    """Return the kind and size of the data, with the scale of its first batch."""
    loader = side.setup.feed.loader
    kind = type(loader.dataset if isinstance(loader, DataLoader) else loader).__name__
    total = side.setup.feed.total
    size = f", {total:,} samples" if total else ""
    text = f"{kind}{size}"
    with user_code(passing=()):
        for name, value in list(leaves(side.setup.feed.take(1)[0]))[:2]:
            text += f"; [{']['.join(map(str, name))}] {_value_text(value)}"
    return text


def _value_text(value: Any) -> str:
    """Return a tensor by its shape and scale, anything else in a few words."""
    from nbdebug.engine.bisection.ingredient import described

    if isinstance(value, torch.Tensor) and value.numel() and not value.is_complex():
        shape, values = "×".join(map(str, value.shape)), value.double()
        spread = f", std {figure(float(values.std()))}" if value.numel() > 1 else ""
        return f"{str(value.dtype).removeprefix('torch.')} {shape}, mean {figure(float(values.mean()))}{spread}"
    return described(value)
