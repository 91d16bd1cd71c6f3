"""Samples that never get their turn."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import EpochOrder
from nbdebug.finding import Finding, Patch, Remedy, Severity
from nbdebug.registry import check

__all__ = ["samples_dropped"]

KEEP = Patch("keep-every-sample")


@check(explains=("constant-targets", "repeated-batches", "single-class-batches", "split-shift"))
def samples_dropped(
    order: EpochOrder,
    *,
    dropped: float = 0.1,  # of the data set, by dropping the last batch
    unseen: float = 0.5,  # of the data set, by a sampler that leaves it out for good
) -> Iterator[Finding]:
    """A large part of the data set is never drawn.

    nbdebug lays out the indices of two passes without reading a sample. What a sampler draws by chance, now this and
    now that, counts as drawn, and so does what the validation and test loaders draw from the same data set.

    Why it matters: the model is trained on less than you think, often on the part of the data that came first.

    What to try: `drop_last=False` or a smaller batch where the last batch holds much of the data; look at the indices
    that the sampler or the subset was made with.
    """
    if order.drawn == 0:
        raise NotApplicable("the loader draws nothing; see empty-loader")
    if order.replicas > 1:
        raise NotApplicable(f"the data are shared out among {order.replicas} processes")
    lost = order.total - order.distinct
    size = order.batch_size or 0
    if order.drop_last and 0 < lost < size and order.drawn % size == 0 and order.distinct == order.drawn:
        if lost > dropped * order.total:
            yield _finding(
                order, lost, "suspect", dropped,
                f"drop_last leaves {lost} of {order.total} samples out of every pass, because batches hold {size}",
                Remedy("Keep the last batch, or make batches smaller.", "DataLoader(…, drop_last=False)", KEEP),
            )  # fmt: skip
        return
    covered = order.distinct_in_two + order.elsewhere
    by_chance = order.drawn > order.distinct  # with replacement, a second pass shows whether there is more to come
    moves_on = order.distinct_in_two > (order.distinct if by_chance else 1.05 * order.distinct)
    missing = order.total - min(covered, order.total)
    if missing > dropped * order.total and not moves_on:
        grave = missing > unseen * order.total
        yield _finding(
            order, missing, "suspect" if grave else "note", unseen,
            f"{order.sampler} draws {order.distinct} of {order.total} samples, the same ones in every pass, and no "
            f"other loader draws the rest",
            Remedy("Look at the indices that it was made with.", "print(len(loader.sampler), len(loader.dataset))"),
        )  # fmt: skip
    elif order.subset_of is not None and order.total < (1 - unseen) * order.subset_of:
        yield _finding(
            order, order.subset_of - order.total, "note", unseen,
            f"The loader reads a subset of {order.total} of {order.subset_of} samples",
            Remedy("Look at how the subset was made.", "print(len(loader.dataset), len(loader.dataset.dataset))"),
        )  # fmt: skip


def _finding(order: EpochOrder, lost: int, severity: Severity, threshold: float, says: str, remedy: Remedy) -> Finding:
    return Finding(
        f"{says}.",
        where="loader",
        severity=severity,
        evidence={
            "samples": order.total,
            "drawn in a pass": order.distinct,
            "drawn in two passes": order.distinct_in_two,
            "drawn by other loaders": order.elsewhere,
            "never drawn": lost,
            "threshold": threshold,
            "source": "37 reasons, 3",
        },
        remedies=(remedy,),
    )
