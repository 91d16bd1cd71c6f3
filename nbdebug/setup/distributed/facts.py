"""What one process says about itself: the values that it holds and the data that it draws; everything is only read."""

from __future__ import annotations

import gc
import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.utils.data import DataLoader, Sampler

from nbdebug.core.torch_compat import has_communication_hook
from nbdebug.setup import Feed, Setup, unwrap
from nbdebug.setup.distributed.pieces import data_share, is_piece, is_sum_pending, piece_of, place_of
from nbdebug.setup.distributed.rank_facts import RankFacts, TensorPrint
from nbdebug.setup.nested import leaves
from nbdebug.setup.tensor_memory import array_of
from nbdebug.setup.user_code import user_code

__all__ = ["as_facts", "averages_itself", "facts_of", "period_of", "prints_of", "sends_buffers", "untold_sampler"]

MOST_TENSORS, MOST_INDICES, SAMPLE, FIRST_BATCHES = 2000, 4096, 32, 2


def as_facts(said: Mapping[str, Any]) -> RankFacts:
    """Read facts that came as JSON."""
    prints = tuple(
        TensorPrint(**{**one, **{name: tuple(one[name]) for name in ("shape", "sample", "place")}})
        for one in said["prints"]
    )
    times = {name: tuple(values) for name, values in said["times"].items()}
    lists = {name: tuple(said[name]) for name in ("order", "batches", "moved", "waiting")}
    lists["not_finite"] = tuple((what, where, kind, step) for what, where, kind, step in said["not_finite"])
    return RankFacts(**{**said, **lists, "prints": prints, "times": times})


def facts_of(setup: Setup, rank: int) -> RankFacts:
    """Look at the model and the loader of a setup; its generators have to be guarded by the caller, unseeded."""
    held = RankFacts(
        rank, prints_of(setup.model), own_averaging=averages_itself(setup.model), share=data_share([setup.model])
    )
    with user_code(passing=()):  # the user's data set and sampler have checks of their own
        return replace(held, **_drawn(setup))
    return held


def _drawn(setup: Setup) -> dict[str, Any]:
    """Say which data this process draws."""
    feed, sampler = setup.feed, _sampler_with_epochs(setup.feed.loader)
    order = tuple(feed.order(MOST_INDICES) or ()) if not feed.gives_whole_batches else ()
    return {
        "order": order,
        "draws": _draws(feed),
        "samples": feed.total or 0,
        "batches": () if order else tuple(_first_batches(feed)),
        "epoch": getattr(sampler, "epoch", None),
        "epochs": _epochs_behind(setup) if sampler is not None else 0.0,
        "fixed_order": sampler is not None and _keeps_order(feed, sampler),
    }


def prints_of(model: nn.Module) -> tuple[TensorPrint, ...]:
    """Return the print of every parameter and buffer; what is split over processes on purpose has none."""
    kept = _kept_by_ddp(model)
    inner = unwrap(model)
    named = [(False, name, p) for name, p in inner.named_parameters()]
    named += [(True, name, b) for name, b in inner.named_buffers()]
    found = (_print(name, tensor, is_buffer, id(tensor) in kept) for is_buffer, name, tensor in named[:MOST_TENSORS])
    return tuple(one for one in found if one is not None)


@torch.no_grad()
def _print(name: str, tensor: torch.Tensor, is_buffer: bool, kept: bool) -> TensorPrint | None:
    special = is_lazy(tensor) or is_sum_pending(tensor)
    whole, tensor = tensor, tensor if special else piece_of(tensor)
    kept = kept or is_piece(whole)  # pieces at one place are alike
    if special or tensor.layout is not torch.strided or tensor.is_meta or tensor.is_complex() or not tensor.numel():
        return None
    values = tensor.detach().reshape(-1).double()
    places = torch.linspace(0, len(values) - 1, min(SAMPLE, len(values)), device=values.device).long()
    numbers = torch.cat([values.norm()[None], values.sum()[None], values[places]]).tolist()
    norm, total, *sample = (number if math.isfinite(number) else 0.0 for number in numbers)  # see non-finite-forward
    return TensorPrint(name, is_buffer, tuple(tensor.shape), kept, norm, total, tuple(sample), place_of(whole))


def _kept_by_ddp(model: nn.Module) -> set[int]:
    """Return the ids of the tensors that a DistributedDataParallel in the model keeps alike."""
    kept: set[int] = set()
    for wrapper in _wrappers(model):
        left = set(wrapper.parameters_to_ignore)
        kept |= {id(p) for name, p in wrapper.module.named_parameters() if name not in left}
        if wrapper.broadcast_buffers:
            kept |= {id(b) for name, b in wrapper.module.named_buffers() if name not in left}
    return kept


def averages_itself(model: nn.Module) -> bool:
    """Whether a communication hook of the user's decides what is averaged, and when: local SGD lets weights drift."""
    return any(has_communication_hook(wrapper) for wrapper in _wrappers(model))


def sends_buffers(model: nn.Module) -> bool:
    """Whether a forward pass begins with a broadcast of the buffers, for which a process may have to wait."""
    return any(
        wrapper.broadcast_buffers and next(wrapper.module.buffers(), None) is not None for wrapper in _wrappers(model)
    )


def _wrappers(model: nn.Module) -> list[nn.parallel.DistributedDataParallel]:
    return [part for part in model.modules() if isinstance(part, nn.parallel.DistributedDataParallel)]


def _draws(feed: Feed) -> int:
    loader = feed.loader
    if not isinstance(loader, DataLoader) or feed.dataset is None:
        return 0
    inner: Any = getattr(loader.batch_sampler, "sampler", loader.sampler)
    try:
        return len(inner)
    except TypeError:
        return 0


def _first_batches(feed: Feed) -> Iterator[int]:
    """Return digests of the first batches where they can be drawn again: of an iterable data set, or of a list."""
    if isinstance(feed.loader, (DataLoader, list, tuple)):
        for raw in feed.take(FIRST_BATCHES):
            tensors = [leaf for _, leaf in leaves(raw) if isinstance(leaf, torch.Tensor)]
            digest = 0
            for tensor in tensors:
                flat = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
                digest = zlib.crc32(array_of(flat).tobytes(), digest)
            yield digest


def _sampler_with_epochs(loader: Any) -> Any:
    """Return the sampler that has to be told the epoch, where the loader has one."""
    if not isinstance(loader, DataLoader):
        return None
    inner = (loader.sampler, loader.batch_sampler, getattr(loader.batch_sampler, "sampler", None))
    return next((sampler for sampler in inner if callable(getattr(sampler, "set_epoch", None))), None)


def _keeps_order(feed: Feed, sampler: Any) -> bool:
    """Whether two passes draw alike and should not: the sampler shuffles, by the epoch that it was told."""
    orders = feed.orders(2, MOST_INDICES)
    return bool(getattr(sampler, "shuffle", False)) and orders is not None and orders[0] == orders[1]


def untold_sampler() -> bool:
    """Whether a sampler of this process shuffles by the epoch and was never told one; it looks through all objects."""
    kinds = [kind for kind in _kinds_of(Sampler) if callable(getattr(kind, "set_epoch", None))]
    samplers = (thing for thing in gc.get_objects() if type(thing) in kinds)
    return any(getattr(one, "epoch", None) == 0 and getattr(one, "shuffle", True) for one in samplers)


def _kinds_of(kind: type) -> set[type]:
    below: list[type] = kind.__subclasses__()
    return {kind}.union(*(_kinds_of(one) for one in below))


def _epochs_behind(setup: Setup) -> float:
    """Say how many epochs the optimizer has behind it, by the steps that it counted; 0 where it counts none."""
    batches = setup.feed.batch_count
    state = getattr(setup.optimizer, "state", None) or {}
    steps = [float(entry["step"]) for entry in state.values() if isinstance(entry, dict) and "step" in entry]
    return max(steps) / batches if steps and batches else 0.0


def period_of(batches: Mapping[int, int], shortest: int = 4, compared: int = 8) -> int:
    """Return the number of passes after which all batches came again in the same order; 0 where they did not.

    Batches are given by the number of their pass; not every pass has to be known.
    """
    seen: dict[int, int] = {}
    gaps = dict.fromkeys(place - seen.setdefault(mark, place) for place, mark in batches.items())
    for gap in [gap for gap in gaps if gap >= shortest][:8]:
        pairs = [(mark, batches[place + gap]) for place, mark in batches.items() if place + gap in batches]
        if len({mark for mark, _ in pairs}) >= compared and all(mark == later for mark, later in pairs):
            return gap
    return 0
