"""The same batch again and again."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import BatchRepeats
from nbdebug.finding import Finding, Remedy, Severity
from nbdebug.registry import check

__all__ = ["repeated_batches"]


@check(explains=("duplicate-samples", "samples-dropped"))
def repeated_batches(
    repeats: BatchRepeats,
    *,
    share: float = 0.1,  # of the batches that are copies of another one
    in_a_row: int = 10,  # steps on one batch, where others come as well
) -> Iterator[Finding]:
    """The loader gives the same batch again and again.

    nbdebug draws the first batches in the loader's own order and compares the digests of their samples; in a training
    that it watches it tells batches apart by a sample of their values. That every epoch brings them again is fine, and
    inner loops on one batch are only noted: there the weights are put back in between, or the model makes the data.

    Why it matters: the model trains on a handful of samples and learns them by heart, while the loop seems to go over
    the whole data set. It happens when an index is computed from the wrong counter, a stream is opened anew for every
    batch, or a batch that was kept for a test is still in use.

    What to try: print the indices that the sampler yields; look for `next(iter(loader))` inside of the loop.
    """
    copies = repeats.seen - repeats.distinct
    if copies <= share * repeats.seen:
        return
    if repeats.one_pass:
        severity: Severity = "bug" if repeats.in_a_row > 1 or repeats.distinct <= 2 or repeats.complete else "note"
    elif repeats.distinct == 1 or repeats.in_a_row >= in_a_row:
        # Training on the whole data at once is legitimate, and so are inner loops.
        severity = "note" if repeats.distinct == 1 or repeats.is_inner else "suspect"
    else:
        return
    yield Finding(
        f"{copies} of the first {repeats.seen} {repeats.unit} are copies of another one; one batch came {repeats.most} "
        f"times, {repeats.in_a_row} of them in a row, and only {repeats.distinct} "
        f"{'is' if repeats.distinct == 1 else 'are'} different.",
        where="loader",
        severity=severity,
        evidence={
            "batches": repeats.seen,
            "different batches": repeats.distinct,
            "in a row": repeats.in_a_row,
            "threshold": share,
            "source": "37 reasons, 1",
        },
        remedies=(Remedy("Draw from the loader in the loop.", "for batch in loader: …"),),
    )
