"""Move the samples of a batch to other places and see whether each keeps its answer."""

from __future__ import annotations

import torch

from nbdebug.errors import Cancelled, NotApplicable, OutOfTime
from nbdebug.evidence import BatchOrder, TrialRun
from nbdebug.probes.batch_mixing import TELLS, reference_run, settle_and_shake
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.twin import Twin
from nbdebug.twin.layout import relative_change
from nbdebug.twin.locate import SEED, Recording, first_place, record
from nbdebug.twin.samples import Samples, samples_of

__all__ = ["batch_order"]


@probe
def batch_order(twin: Twin, trial: TrialRun) -> BatchOrder:
    """Permute a batch and compare the outputs sample by sample, in eval mode."""
    require_run(trial)
    samples = samples_of(twin)
    if samples.axis != 0 or not samples.sure or samples.batch.whole:
        raise NotApplicable("the samples of the batch cannot be reordered")
    settle_and_shake(twin, samples)
    with twin.mode(training=False), torch.no_grad():
        samples, reference, whole = reference_run(twin, samples)
        order = torch.arange(samples.count).roll(1)
        moved = _run(twin, samples.batch.select(order), whole)
        other_luck = record(twin, samples.batch, whole=whole, seed=SEED + 1)
    if not _has_rows(samples, reference, moved, other_luck):
        raise NotApplicable("the model returns no tensor with one row per sample")
    assert reference.predicted is not None and moved.predicted is not None and other_luck.predicted is not None
    influence = relative_change(reference.predicted[order], moved.predicted)

    def differs(values: tuple[torch.Tensor, ...]) -> bool:
        before, after = values
        rows = before.dim() > 0 and before.shape == after.shape and len(before) == samples.count
        return rows and relative_change(before[order], after) > TELLS

    place = first_place([reference, moved], differs) if influence > TELLS else None
    return BatchOrder(
        influence=influence,
        noise=relative_change(reference.predicted, other_luck.predicted),
        first=place.path if place else "",
        place=str(place) if place else "",
        samples=samples.count,
    )


def _run(twin: Twin, batch: Batch, whole: bool) -> Recording:
    try:
        return record(twin, batch, whole=whole)
    except (Cancelled, OutOfTime, NotApplicable):
        raise
    except Exception as error:
        raise NotApplicable(f"the samples cannot be reordered: {type(error).__name__}") from None


def _has_rows(samples: Samples, *runs: Recording) -> bool:
    """Whether all runs give a tensor of one shape whose first dimension, and no other, holds the samples."""
    shapes = {tuple(run.predicted.shape) if run.predicted is not None else () for run in runs}
    shape = next(iter(shapes))
    return len(shapes) == 1 and shape[:1] == (samples.count,) and shape.count(samples.count) == 1
