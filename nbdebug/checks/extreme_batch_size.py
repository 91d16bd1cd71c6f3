"""Batches of one, or of everything."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import EpochOrder, LoaderSweep, LoneSample
from nbdebug.finding import Finding, Patch, Remedy, Severity
from nbdebug.registry import check

__all__ = ["extreme_batch_size"]


@check(explains=("forward-fails", "batchnorm-misused", "batch-not-memorised", "train-eval-gap"))
def extreme_batch_size(
    sweep: LoaderSweep,
    lone: LoneSample,
    order: EpochOrder | None,
    *,
    share: float = 0.5,  # of the data set in one batch
    least: int = 64,  # samples; a smaller data set may well be one batch
) -> Iterator[Finding]:
    """Batches hold a single sample, or most of the data set.

    nbdebug looks at the sizes that the loader gives, the last batch included, and runs the model in training mode on a
    single sample.

    Why it matters: batch normalisation over one sample subtracts the sample from itself; in layers without a spatial
    extent PyTorch refuses it, perhaps at the end of the first epoch, when the last batch holds one sample. Very large
    batches take few steps in an epoch, and tend to generalise worse.

    What to try: batches of 8 to 256; `drop_last=True` in training with batch normalisation; GroupNorm or LayerNorm
    where batches have to be small.
    """
    sweep.require()
    size = max(sweep.ordered.sizes)
    if size == 1 and (lone.normaliser or lone.fails):
        says = f"Batches hold one sample, and {lone.normaliser or 'the model'} normalises over the batch"
        tail = f": {lone.fails}" if lone.fails else ""
        yield _finding(f"{says}{tail}.", lone.normaliser or "loader", "bug" if lone.fails else "suspect", size, sweep)
    elif size == 1:
        yield _finding("Batches hold one sample.", "loader", "note", size, sweep)
    elif _last_is_alone(sweep, order) and lone.fails and lone.runs_on_two:
        yield _finding(
            f"The last batch of a pass holds one sample, and the model fails on it: {lone.fails}.",
            lone.normaliser or "loader", "bug", 1, sweep,
        )  # fmt: skip
    if sweep.total is not None and sweep.total >= least and size > share * sweep.total:
        yield _finding(
            f"One batch holds {size} of {sweep.total} samples, so a pass takes {-(-sweep.total // size)} steps.",
            "loader", "note", size, sweep,
        )  # fmt: skip


def _last_is_alone(sweep: LoaderSweep, order: EpochOrder | None) -> bool:
    if order is not None:
        return order.last_batch == 1 and not order.drop_last
    return sweep.ordered.complete and sweep.ordered.sizes[-1] == 1


def _finding(says: str, where: str, severity: Severity, size: int, sweep: LoaderSweep) -> Finding:
    return Finding(
        says,
        where=where,
        severity=severity,
        evidence={"batch size": size, "samples": sweep.total, "threshold": 1, "source": "37 reasons, 11"},
        remedies=(
            Remedy(
                "Drop an incomplete last batch, or use another size.",
                "DataLoader(…, 32, drop_last=True)",
                # The batch size told is that of the last batch where only that one is too small.
                Patch("drop-last-batch" if max(sweep.ordered.sizes) > 1 else "reload-batches", {"size": 32}),
            ),
        ),
    )
