"""A model that works with one batch size only."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from nbdebug.charts import Table
from nbdebug.core.control import Control
from nbdebug.core.finding import Finding, Remedy, Severity
from nbdebug.core.registry import check, probe
from nbdebug.errors import NbdebugError, NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.capture import CallStack, tapped
from nbdebug.experiments.kept_state import from_one_state, resized
from nbdebug.experiments.sample_exchange import Samples, samples_of
from nbdebug.experiments.source_lines import line_of
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch, Feed
from nbdebug.setup.nested import tensors_in
from nbdebug.setup.user_code import user_code

__all__ = ["BatchSizes", "SizeFailure", "batch_sizes", "hardcoded_batch_size"]


@dataclass(frozen=True)
class SizeFailure:
    """One batch size that does not work: where it failed, and what was seen there.

    `kept` names what the model keeps from the call before, where that, and no number in the model, has another size.
    """

    size: int
    mode: str
    where: str
    module: str
    error: str
    shapes: tuple[tuple[int, ...], ...] = ()
    source: str = ""
    kept: tuple[str, ...] = ()


@dataclass(frozen=True)
class BatchSizes:
    """Which batch sizes the model runs with, apart from its own."""

    own: int
    tried: tuple[int, ...]
    failures: tuple[SizeFailure, ...]
    meets_others: bool  # whether the loaders give batches of another size as well
    single: bool  # whether one batch is all that there is, as for one whole graph or an exact Gaussian process
    sure: bool = True  # whether the first dimension is surely that of the samples
    resets: tuple[str, ...] = ()  # methods of the model that may reset what it keeps between calls


RESETS = ("reset", "hidden", "state", "memory", "clear")
LARGEST = 512  # samples; a batch is not doubled beyond


@probe(quick=False)
def batch_sizes(sandbox: Sandbox, trial: TrialRun, control: Control) -> BatchSizes:
    """Run different batch sizes in train and eval mode, each from the same kept state."""
    require_run(trial)
    samples = samples_of(sandbox)
    own = samples.count
    _refuse_other_layouts(samples)
    sizes = sorted({1, 2, own // 2, own - 1, 2 * own} - {0, own})
    sizes = [size for size in sizes if size < own or size <= LARGEST]
    failures = []
    modes = [mode for mode in ("eval", "training") if _try(sandbox, samples.batch, own, mode) is None]
    for index, size in enumerate(sizes):
        control.progress(index / len(sizes), f"running a batch of {size}")
        for mode in modes:
            if size == 1 and mode == "training":
                continue  # batch normalization cannot, and need not
            failure = _failure(sandbox, samples, size, mode)
            if failure is not None and (failure.kept or not _runs_as_loaded(sandbox, size, mode)):
                failures.append(failure)
                break
    others = _other_sizes(sandbox.setup.feed, own)
    if sandbox.setup.val_feed is not None:
        others = others or _other_sizes(sandbox.setup.val_feed, own)
    feed = sandbox.setup.feed
    if feed.gives_whole_batches and not others:
        raise NotApplicable("the dataset returns whole batches, all of one size, which is part of the task")
    return BatchSizes(
        own, tuple(sizes), tuple(failures), others, feed.batch_count == 1, samples.layout.is_certain, _resets(sandbox)
    )


def _refuse_other_layouts(samples: Samples) -> None:
    """Leave batches alone that cannot be cut along the first dimension of all their tensors."""
    if samples.axis != 0:
        raise NotApplicable("dimension 0 is not the batch dimension, so the batch cannot be sliced to another size")
    if samples.count < 2:
        raise NotApplicable("a batch of one sample cannot be sliced to another size")
    for name, tensor in samples.batch.inputs.items():
        if not samples.holds(tensor) and samples.count in tensor.shape and tensor.dim() > 1:
            raise NotApplicable(f"{name} has another batch dimension, so it cannot be sliced with the others")


def _failure(sandbox: Sandbox, samples: Samples, size: int, mode: str) -> SizeFailure | None:
    """Run one size, also behind a batch of the loader's size, and see whether what is kept from there is the cause."""
    batch = samples.batch.select(torch.arange(size) % samples.count)
    alone, behind = _try(sandbox, batch, size, mode), _try(sandbox, batch, size, mode, first=samples.batch)
    if behind is None:
        return alone
    with from_one_state(sandbox.model) as state:
        with sandbox.mode(training=mode == "training"), torch.no_grad():
            sandbox.run(samples.batch)
        kept = state.changed()

        def runs_with(names: list[str]) -> bool:
            with from_one_state(sandbox.model):
                resized(sandbox.model, names, samples.count, size)
                return _try(sandbox, batch, size, mode) is None

        guilty = [name for name in kept if runs_with([name])] or (kept if kept and runs_with(kept) else [])
    return replace(behind, kept=tuple(guilty)) if guilty else alone


def _try(sandbox: Sandbox, batch: Batch, size: int, mode: str, first: Batch | None = None) -> SizeFailure | None:
    """Run one size through the model and its loss, perhaps behind another batch; the model keeps nothing of it."""
    stack = CallStack()
    try:
        with from_one_state(sandbox.model), sandbox.mode(training=mode == "training"), torch.no_grad():
            if first is not None:
                sandbox.run(first)
            with tapped(sandbox.model, after=stack.leave, before=stack.enter):
                sandbox.run(batch)
        return None
    except NbdebugError:
        raise
    except Exception as error:
        where, module, inputs = stack.innermost or _outside(sandbox)
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


def _runs_as_loaded(sandbox: Sandbox, size: int, mode: str) -> bool:
    """Whether a batch of this size runs that the loader's own collate made: then only our cut of one was wrong.

    Parts of a batch may hold all samples in one row, as the labels of a CTC loss do, and cannot be cut with the others.
    """
    feed = sandbox.setup.feed
    if feed.dataset is None or not feed.total or feed.gives_whole_batches:
        return False
    with user_code(passing=()) as tried:
        made = sandbox.setup.wrap(feed.collate([feed.dataset[index % feed.total] for index in range(size)]))
    return not tried.failure and _try(sandbox, made.to(sandbox.device), size, mode) is None


def _resets(sandbox: Sandbox) -> tuple[str, ...]:
    """Name methods of the user's that may reset what the model keeps; whether the loop calls them cannot be seen."""
    named = [name for name in dir(type(sandbox.model)) if not name.startswith("__") and not hasattr(nn.Module, name)]
    return tuple(n for n in named if any(word in n.lower() for word in RESETS) and callable(getattr(sandbox.model, n)))


def _outside(sandbox: Sandbox) -> tuple[str, Any, Any]:
    return ("compute_loss" if sandbox.compute_loss is not None else "loss_fn"), None, ()


def _other_sizes(feed: Feed, own: int) -> bool:
    """Whether a feed ends with a smaller batch, or has another size altogether."""
    size = getattr(feed.loader, "batch_size", None)
    if not isinstance(size, int) or feed.total is None:
        return False
    return (min(size, feed.total) != own) or (feed.total % size != 0 and not getattr(feed.loader, "drop_last", False))


@check
def hardcoded_batch_size(sizes: BatchSizes) -> Iterator[Finding]:
    """The model works with one batch size only.

    nbdebug runs one sample, two, one fewer, half and twice the loader's batch size, in eval and in training mode,
    alone and after a batch of the loader's size. State that the model keeps between calls, such as the hidden state of
    a recurrent network, is told apart from a hardcoded batch size.

    Why it matters: the last batch of an epoch is usually smaller, and inference often runs on a single sample. A number
    that should be `len(x)` is hardcoded somewhere, in a view, an initial state or a tensor of zeros.

    What to try: at the place named, take the size from the data: x.shape[0] instead of a number, x.flatten(1) instead
    of x.view(64, -1).
    """
    if len(sizes.tried) < 2:
        raise NotApplicable(f"a batch of {sizes.own} samples leaves no two other sizes to test")
    kept = [failure for failure in sizes.failures if failure.kept]
    if kept:
        yield _kept(sizes, kept)
    fixed = [failure for failure in sizes.failures if not failure.kept]
    failed = {failure.size for failure in fixed}
    smaller = {size for size in sizes.tried if 1 < size < sizes.own}
    even_only = bool(smaller) and all(size % 2 for size in failed & smaller) and not smaller <= failed
    if not failed or even_only:
        return
    first = next((f for f in fixed if f.size in smaller), fixed[0])
    hardwired = bool(smaller) and smaller <= failed
    yield _finding(
        sizes,
        fixed,
        f"The model runs with batch size {sizes.own} but not with {', '.join(map(str, sorted(failed)))}. With "
        f"{first.size}, {_said(first)}",
        where=first.where,
        severity=_severity(sizes, hardwired),
        remedy=Remedy("Take the batch size from the input.", "x.view(x.shape[0], -1)"),
    )


def _kept(sizes: BatchSizes, failures: list[SizeFailure]) -> Finding:
    """Return the finding for state kept between calls with the size of another batch; the loop may well reset it."""
    first, place = failures[0], failures[0].kept[0]
    reset = f" `{sizes.resets[0]}()` may reset it, if your loop calls it." if sizes.resets else ""
    return _finding(
        sizes,
        failures,
        f"The model keeps `{'` and `'.join(first.kept)}` between calls, sized for the previous batch. With "
        f"{first.size} samples after {sizes.own}, {_said(first)}{reset}",
        where=place.rpartition(".")[0] or "model",
        severity="suspect" if sizes.meets_others and not sizes.resets and sizes.sure else "note",
        remedy=Remedy(
            "Reset the state when the batch size changes, and detach it from the graph.",
            "if self.hidden is not None and self.hidden.shape[1] != len(x):\n    self.hidden = None",
        ),
    )


def _said(failure: SizeFailure) -> str:
    place = f"`{failure.where}` ({failure.module})" if failure.module else f"`{failure.where}`"
    shapes = f" on {' and '.join(str(shape) for shape in failure.shapes)}" if failure.shapes else ""
    line = f" Line: `{failure.source}`." if failure.source else ""
    return f"{place} fails{shapes} in {failure.mode} mode: {failure.error.rstrip('.')}.{line}"


def _finding(
    sizes: BatchSizes, failures: list[SizeFailure], says: str, *, where: str, severity: Severity, remedy: Remedy
) -> Finding:
    failed = {failure.size for failure in failures}
    return Finding(
        says,
        where=where,
        severity=severity,
        evidence={
            "sizes that fail": sorted(failed),
            "sizes that run": [size for size in sizes.tried if size not in failed],
            "kept between calls": sorted({name for failure in failures for name in failure.kept}),
            "the loaders give other sizes": sizes.meets_others,
            "threshold": "every batch size from 2 to the loader's own must run",
            "source": "the last batch of an epoch is usually smaller",
        },
        remedies=(remedy,),
        exhibit=Table(
            ("samples", "mode", "where", "error"), tuple((f.size, f.mode, f.where, f.error) for f in failures)
        ),
    )


def _severity(sizes: BatchSizes, hardwired: bool) -> Severity:
    """Return a note for a batch size that the loaders never yield, and a bug for one that they do."""
    if not hardwired or not sizes.sure:
        return "note"
    if sizes.meets_others:
        return "bug"
    return "note" if sizes.single else "suspect"
