"""The loader returns the same batch repeatedly."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy, Severity
from nbdebug.core.registry import check
from nbdebug.evidence.batch_repeats import BatchRepeats

__all__ = ["repeated_batches"]


@check(explains=("duplicate-samples", "samples-dropped"))
def repeated_batches(
    repeats: BatchRepeats,
    *,
    share: float = 0.1,  # fraction of batches that are duplicates of another one; our choice
    in_a_row: int = 10,  # consecutive steps on one batch, where others occur as well; our choice
    few: int = 2,  # distinct batches of a whole pass; our choice
) -> Iterator[Finding]:
    """The loader returns the same batch repeatedly.

    nbdebug draws the first batches in the loader's own order and compares hashes of their samples; in a training that
    it watches, it identifies batches by some of their values. Repetition across epochs is fine, and inner loops on one
    batch are only noted: there the weights are reset in between, or the model generates the data.

    Why it matters: the model overfits a handful of samples, while the loop seems to iterate over the whole dataset. It
    happens when an index is computed from the wrong counter, a stream is reopened for every batch, or a batch kept for
    a test is still in use.

    What to try: print the indices that the sampler yields; look for `next(iter(loader))` inside the loop.
    """
    copies = repeats.seen - repeats.distinct
    if copies <= share * repeats.seen:
        return
    if repeats.one_pass:
        severity: Severity = "bug" if repeats.in_a_row > 1 or repeats.distinct <= few or repeats.complete else "note"
    elif repeats.distinct == 1 or repeats.in_a_row >= in_a_row:
        # Full-batch training is legitimate, and so are inner loops.
        severity = "note" if repeats.distinct == 1 or repeats.is_inner else "suspect"
    else:
        return
    yield Finding(
        f"{copies} of the first {repeats.seen} {repeats.unit} are duplicates: only {repeats.distinct} distinct; one "
        f"batch occurs {repeats.most} times, up to {repeats.in_a_row} in a row.",
        where="loader",
        severity=severity,
        evidence={
            "batches": repeats.seen,
            "different batches": repeats.distinct,
            "in a row": repeats.in_a_row,
            "threshold": share,
            "source": "37 reasons, 1",
        },
        remedies=(Remedy("Iterate over the loader in the loop.", "for batch in loader: …"),),
    )
