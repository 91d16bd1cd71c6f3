"""Does the model run with other batch sizes than the loader's?"""

from __future__ import annotations

import traceback
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from nbdebug.control import Control
from nbdebug.errors import NbdebugError, NotApplicable
from nbdebug.evidence import BatchSizes, SizeFailure, TrialRun
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.subject import Batch, Feed
from nbdebug.twin import Twin
from nbdebug.twin.kept_state import from_one_state, resized
from nbdebug.twin.samples import Samples, samples_of
from nbdebug.twin.sources import line_of
from nbdebug.twin.taps import CallStack, tapped, tensors_in

__all__ = ["batch_sizes"]

RESETS = ("reset", "hidden", "state", "memory", "clear")
LARGEST = 512  # samples; a batch is not doubled beyond


@probe(quick=False)
def batch_sizes(twin: Twin, trial: TrialRun, control: Control) -> BatchSizes:
    """Run different batch sizes in train and eval mode, each from the same kept state."""
    require_run(trial)
    samples = samples_of(twin)
    own = samples.count
    _refuse_other_layouts(samples)
    sizes = sorted({1, 2, own // 2, own - 1, 2 * own} - {0, own})
    sizes = [size for size in sizes if size < own or size <= LARGEST]
    failures = []
    modes = [mode for mode in ("eval", "training") if _try(twin, samples.batch, own, mode) is None]
    for index, size in enumerate(sizes):
        control.progress(index / len(sizes), f"running a batch of {size}")
        for mode in modes:
            if size == 1 and mode == "training":
                continue  # batch normalisation cannot, and need not
            failure = _failure(twin, samples, size, mode)
            if failure is not None and (failure.kept or not _runs_as_loaded(twin, size, mode)):
                failures.append(failure)
                break
    others = _other_sizes(twin.subject.feed, own)
    if twin.subject.val_feed is not None:
        others = others or _other_sizes(twin.subject.val_feed, own)
    feed = twin.subject.feed
    single = feed.batch_count == 1 and not isinstance(feed.loader, DataLoader)
    return BatchSizes(own, tuple(sizes), tuple(failures), others, single, samples.sure, _resets(twin))


def _refuse_other_layouts(samples: Samples) -> None:
    """Leave batches alone that cannot be cut along the first dimension of all their tensors."""
    if samples.axis != 0:
        raise NotApplicable("dimension 0 is not the batch dimension, so the batch cannot be sliced to another size")
    if samples.count < 2:
        raise NotApplicable("a batch of one sample cannot be sliced to another size")
    for name, tensor in samples.batch.inputs.items():
        if not samples.holds(tensor) and samples.count in tensor.shape and tensor.dim() > 1:
            raise NotApplicable(f"{name} has another batch dimension, so it cannot be sliced with the others")


def _failure(twin: Twin, samples: Samples, size: int, mode: str) -> SizeFailure | None:
    """Run one size, also behind a batch of the loader's size, and see whether what is kept from there is the cause."""
    batch = samples.batch.select(torch.arange(size) % samples.count)
    alone, behind = _try(twin, batch, size, mode), _try(twin, batch, size, mode, first=samples.batch)
    if behind is None:
        return alone
    with from_one_state(twin.model) as state:
        with twin.mode(training=mode == "training"), torch.no_grad():
            twin.run(samples.batch)
        kept = state.changed()

        def runs_with(names: list[str]) -> bool:
            with from_one_state(twin.model):
                resized(twin.model, names, samples.count, size)
                return _try(twin, batch, size, mode) is None

        guilty = [name for name in kept if runs_with([name])] or (kept if kept and runs_with(kept) else [])
    return replace(behind, kept=tuple(guilty)) if guilty else alone


def _try(twin: Twin, batch: Batch, size: int, mode: str, first: Batch | None = None) -> SizeFailure | None:
    """Run one size through the model and its loss, perhaps behind another batch; the model keeps nothing of it."""
    stack = CallStack()
    try:
        with from_one_state(twin.model), twin.mode(training=mode == "training"), torch.no_grad():
            if first is not None:
                twin.run(first)
            with tapped(twin.model, after=stack.leave, before=stack.enter):
                twin.run(batch)
        return None
    except NbdebugError:
        raise
    except Exception as error:
        where, module, inputs = stack.innermost or _outside(twin)
        failure = SizeFailure(
            size,
            mode,
            where,
            type(module).__name__ if module is not None else "",
            f"{type(error).__name__}: {error}".splitlines()[0],
            tuple(tuple(t.shape) for t in tensors_in(inputs)),
            line_of(error),
        )
        traceback.clear_frames(error.__traceback__)
        return failure


def _runs_as_loaded(twin: Twin, size: int, mode: str) -> bool:
    """Whether a batch of this size runs that the loader's own collate made: then only our cut of one was wrong.

    Parts of a batch may hold all samples in one row, as the labels of a CTC loss do, and cannot be cut with the others.
    """
    feed = twin.subject.feed
    if feed.dataset is None or not feed.total or feed.gives_whole_batches:
        return False
    try:
        made = twin.subject.wrap(feed.collate([feed.dataset[index % feed.total] for index in range(size)]))
    except Exception:
        return False
    return _try(twin, made.to(twin.device), size, mode) is None


def _resets(twin: Twin) -> tuple[str, ...]:
    """Name methods of the user's that may reset what the model keeps; whether the loop calls them cannot be seen."""
    named = [name for name in dir(type(twin.model)) if not name.startswith("__") and not hasattr(nn.Module, name)]
    return tuple(n for n in named if any(word in n.lower() for word in RESETS) and callable(getattr(twin.model, n)))


def _outside(twin: Twin) -> tuple[str, Any, Any]:
    return ("compute_loss" if twin.compute_loss is not None else "loss_fn"), None, ()


def _other_sizes(feed: Feed, own: int) -> bool:
    """Whether a feed ends with a smaller batch, or has another size altogether."""
    size = getattr(feed.loader, "batch_size", None)
    if not isinstance(size, int) or feed.total is None:
        return False
    return (min(size, feed.total) != own) or (feed.total % size != 0 and not getattr(feed.loader, "drop_last", False))
