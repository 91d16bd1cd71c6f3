"""Predictions that depend on other samples in the batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.batch_dim import relative_change
from nbdebug.experiments.locate_module import SEED, Recording, first_place, record
from nbdebug.experiments.sample_exchange import Samples, samples_of
from nbdebug.experiments.sample_spill import (
    TELLS,
    adds_batch_features,
    changed_runs,
    first_mixing,
    reference_run,
    settle_and_shake,
    spill_of,
    uses_batch_statistics,
)
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.batch_layout import BatchLayout
from nbdebug.setup.user_code import required_user_code

__all__ = [
    "BatchMixing",
    "BatchOrder",
    "batch_mixing",
    "batch_order",
    "measure_batch_mixing",
]


@dataclass(frozen=True)
class BatchOrder:
    """How much a sample's own output changes when the same samples come in another order, in eval mode.

    `influence` is relative to the size of the outputs, and `noise` the change by the seed alone; `first` is the first
    module at which a sample has not kept its values.
    """

    influence: float
    noise: float
    first: str
    place: str
    samples: int


@dataclass(frozen=True)
class BatchMixing:
    """How much the outputs of some samples change when another sample of the batch is replaced, in eval mode.

    `influence` is the largest change of an untouched sample's output relative to the size of the outputs, whichever
    dimension holds the samples; `first` is the first module, in calling order, at which an untouched sample changes,
    and `before` says that it already receives them mixed. `sure` is whether the loader says what a sample is;
    `batch_statistics` whether the place is a normalization that is told to use the batch also in eval mode, and `added`
    whether numbers about the whole batch only stand beside the sample's own there.
    """

    influence: float
    noise: float
    first: str
    first_module: str
    replaced: int
    pairs: int
    before: bool = False
    place: str = ""
    sure: bool = True
    batch_statistics: bool = False
    added: bool = False


@probe
def measure_batch_mixing(sandbox: Sandbox, trial: TrialRun) -> BatchMixing:
    """Replace one sample of a batch and compare the outputs of the others, module by module."""
    require_run(trial)
    if sandbox.setup.feed.is_one_batch:
        raise NotApplicable("the loader is one batch, which may be one graph whose nodes interact")
    samples = samples_of(sandbox)
    settle_and_shake(sandbox, samples)
    found = _mixing(sandbox, samples)
    if samples.layout.is_certain or found.influence <= TELLS:
        return found
    width = next((t.shape[1] for t in samples.batch.inputs.values() if t.dim() > 1), 0)
    try:  # mixed also when the second dimension is taken for the samples: then it is wrong in either reading
        either = _mixing(sandbox, Samples(samples.batch, BatchLayout(int(width), 1))).influence > TELLS
    except NotApplicable:
        either = False
    return replace(found, sure=either)


def _mixing(sandbox: Sandbox, samples: Samples) -> BatchMixing:
    with sandbox.mode(training=False), torch.no_grad():
        samples, reference, whole = reference_run(sandbox, samples, inner=False)
        if reference.predicted is None:
            raise NotApplicable("the model returns no tensor")
        if samples.count < 3:
            raise NotApplicable(
                f"the batch has {samples.count} samples; 3 are needed to test whether one affects another"
            )
        again = record(sandbox, samples.batch, whole=whole, inner=False)
        changed, masks = changed_runs(sandbox, samples, reference, whole, inner=False)
        noise = spill_of([reference, again], [torch.zeros(samples.count, dtype=torch.bool)], samples.count)
        influence = spill_of([reference, *changed], masks, samples.count)
        if influence is None or noise is None:
            raise NotApplicable("the output has no batch dimension")
        if influence > TELLS:  # only then is it worth keeping what flows through every module
            reference, again = (record(sandbox, samples.batch, whole=whole) for _ in range(2))
            changed, masks = changed_runs(sandbox, samples, reference, whole)
    place = first_mixing(reference, changed, again, masks, samples.count) if influence > TELLS else None
    if place is not None and place.path == "model" and place.before:
        raise NotApplicable("your code mixes the samples before the model receives them")
    return BatchMixing(
        influence=influence,
        noise=noise,
        first=place.path if place else "",
        first_module=place.module if place else "",
        before=place.before if place else False,
        place=str(place) if place else "",
        replaced=int(masks[0].nonzero()[0]),
        pairs=samples.count - 1,
        sure=samples.layout.is_certain,
        batch_statistics=uses_batch_statistics(sandbox, place),
        added=place is not None and adds_batch_features(sandbox, samples, reference, changed, masks, whole),
    )


@probe
def batch_order(sandbox: Sandbox, trial: TrialRun) -> BatchOrder:
    """Permute a batch and compare the outputs sample by sample, in eval mode."""
    require_run(trial)
    samples = samples_of(sandbox)
    if samples.axis != 0 or not samples.layout.is_certain or samples.batch.whole:
        raise NotApplicable("the samples of the batch cannot be reordered")
    settle_and_shake(sandbox, samples)
    with sandbox.mode(training=False), torch.no_grad():
        samples, reference, whole = reference_run(sandbox, samples, inner=False)
        order = torch.arange(samples.count).roll(1)
        moved = _run(sandbox, samples.batch.select(order), whole, inner=False)
        other_seed = record(sandbox, samples.batch, whole=whole, seed=SEED + 1, inner=False)
    if not _has_rows(samples, reference, moved, other_seed):
        raise NotApplicable("the model returns no tensor with one row per sample")
    assert reference.predicted is not None and moved.predicted is not None and other_seed.predicted is not None
    influence = relative_change(reference.predicted[order], moved.predicted)

    def differs(values: tuple[torch.Tensor, ...]) -> bool:
        before, after = values
        rows = before.dim() > 0 and before.shape == after.shape and len(before) == samples.count
        return rows and relative_change(before[order], after) > TELLS

    place = None
    if influence > TELLS:
        with sandbox.mode(training=False), torch.no_grad():
            runs = [_run(sandbox, batch, whole) for batch in (samples.batch, samples.batch.select(order))]
        place = first_place(runs, differs)
    return BatchOrder(
        influence=influence,
        noise=relative_change(reference.predicted, other_seed.predicted),
        first=place.path if place else "",
        place=str(place) if place else "",
        samples=samples.count,
    )


def _run(sandbox: Sandbox, batch: Batch, whole: bool, *, inner: bool = True) -> Recording:
    with required_user_code("the samples cannot be reordered: {kind}", passing=(NotApplicable,)):
        return record(sandbox, batch, whole=whole, inner=inner)


def _has_rows(samples: Samples, *runs: Recording) -> bool:
    """Whether all runs give a tensor of one shape whose first dimension, and no other, holds the samples."""
    shapes = {tuple(run.predicted.shape) if run.predicted is not None else () for run in runs}
    shape = next(iter(shapes))
    return len(shapes) == 1 and shape[:1] == (samples.count,) and shape.count(samples.count) == 1


@check(explains=("inputs-ignored", "cannot-overfit-batch", "collate-mixes-samples"))
def batch_mixing(
    mixing: BatchMixing,
    order: BatchOrder | None,
    *,
    influence: float = 1e-3,  # Karpathy's recipe: must be 0
    noises: float = 10.0,  # times the change between two equal runs; our choice
) -> Iterator[Finding]:
    """The prediction for one sample depends on the other samples in the batch.

    In eval mode a prediction must not depend on the rest of the batch, nor on the sample's position in it. nbdebug
    replaces one sample and compares the outputs of the others, module by module; then it runs the same samples in a
    different order.

    Why it matters: information leaks between samples, usually through a `view` or `reshape` where a `transpose` or
    `permute` was meant, or a softmax or mean over dimension 0. The loss may still fall, but the model relies on
    information that is missing at inference on a single sample.

    What to try: check the module named, and the code after it, for reshape, view, softmax(dim=0), mean(0), or a
    recurrent layer without batch_first=True.
    """
    limit = max(influence, noises * mixing.noise)
    if mixing.influence <= limit:
        if order is not None and order.influence > max(influence, noises * order.noise):
            yield _order_dependent(order, max(influence, noises * order.noise))
        return
    intended = mixing.batch_statistics or mixing.added or not mixing.sure
    caveat = ""
    if mixing.batch_statistics:
        caveat = " This layer tracks no running statistics, so it uses batch statistics in eval mode too."
    elif mixing.added:
        caveat = " Batch statistics are appended to each sample's features there, as GAN critics do on purpose."
    elif not mixing.sure:
        caveat = " If dimension 0 of your batch is time rather than samples, this is expected."
    yield Finding(
        f"Replacing sample {mixing.replaced} changes the outputs of {mixing.pairs} other samples by up to "
        f"{mixing.influence:.1%}, first {mixing.place or 'in the model'}.{caveat}",
        where=mixing.first or "model",
        severity="note" if intended else "bug",
        evidence={
            "influence": mixing.influence,
            "noise": mixing.noise,
            "threshold": limit,
            "source": "exactly 0 for a correct model in eval mode",
        },
        remedies=_remedies(mixing.first_module),
        exhibit=Bars(("sample replaced", "same batch again"), (mixing.influence, mixing.noise), log=True),
    )


def _order_dependent(order: BatchOrder, limit: float) -> Finding:
    """Return the finding for outputs that depend on the position in the batch, but not on the other samples."""
    return Finding(
        f"Reordering the same {order.samples} samples changes their outputs by up to {order.influence:.1%}, first "
        f"{order.place or 'in the model'}: predictions depend on the position in the batch.",
        where=order.first or "model",
        severity="bug",
        evidence={
            "influence": order.influence,
            "noise": order.noise,
            "threshold": limit,
            "source": "exactly 0 for a correct model in eval mode",
        },
        remedies=_remedies(""),
        exhibit=Bars(("different order", "same order again"), (order.influence, order.noise), log=True),
    )


def _remedies(module: str) -> tuple[Remedy, ...]:
    """Return the fixes, the one for this kind of module first."""
    kept = Remedy("Keep dimension 0 for samples: reorder dimensions with `permute`, not with `view` or `reshape`.")
    kinds = ("Attention", "Transformer", "LSTM", "GRU", "RNN")
    recurrent = any(kind in module for kind in kinds)
    time_first = Remedy(
        "Pass `batch_first=True`: recurrent and attention layers expect time in dimension 0 by default.",
        f"{module if recurrent else 'nn.LSTM'}(…, batch_first=True)",
        Patch("samples-first") if recurrent else None,
    )
    return (time_first, kept) if recurrent else (kept, time_first)
