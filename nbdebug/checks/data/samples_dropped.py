"""Part of the dataset is never drawn."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Patch, Remedy, Severity
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.epoch_order import EpochOrder

__all__ = ["samples_dropped"]

KEEP = Patch("keep-every-sample")


@check(explains=("constant-targets", "repeated-batches", "single-class-batches", "split-shift"))
def samples_dropped(
    order: EpochOrder,
    *,
    dropped: float = 0.1,  # of the dataset, by dropping the last batch; our choice
    unseen: float = 0.5,  # of the dataset, by a sampler that never draws it; our choice
    moves_on: float = 1.05,  # distinct samples of two epochs over those of one: others come later; our choice
) -> Iterator[Finding]:
    """A large part of the dataset is never drawn.

    nbdebug computes the indices of two epochs without loading a sample. Samples that a random sampler may draw later
    count as drawn, and so do those that the validation and test loaders draw from the same dataset.

    Why it matters: the model is trained on less data than intended, often on the part that comes first.

    What to try: `drop_last=False` or a smaller batch size where the last batch contains much of the data; check the
    indices that the sampler or `Subset` was created with.
    """
    if order.drawn == 0:
        raise NotApplicable("the loader is empty; see empty-loader")
    if order.replicas > 1:
        raise NotApplicable(f"the data are sharded over {order.replicas} processes")
    lost = order.total - order.distinct
    size = order.batch_size or 0
    if order.drop_last and 0 < lost < size and order.drawn % size == 0 and order.distinct == order.drawn:
        if lost > dropped * order.total:
            yield _finding(
                order, lost, "suspect", dropped,
                f"`drop_last=True` drops {lost} of {order.total} samples in every epoch (batch size {size})",
                Remedy("Keep the last batch, or reduce the batch size.", "DataLoader(…, drop_last=False)", KEEP),
            )  # fmt: skip
        return
    covered = order.distinct_in_two + order.elsewhere
    replacement = order.drawn > order.distinct  # sampling with replacement: a second epoch may draw more
    draws_others = order.distinct_in_two > (order.distinct if replacement else moves_on * order.distinct)
    missing = order.total - min(covered, order.total)
    if missing > dropped * order.total and not draws_others:
        grave = missing > unseen * order.total
        yield _finding(
            order, missing, "suspect" if grave else "note", unseen,
            f"`{order.sampler}` draws the same {order.distinct} of {order.total} samples in every epoch, and no other "
            f"loader draws the rest",
            Remedy("Check the indices of the sampler.", "print(len(loader.sampler), len(loader.dataset))"),
        )  # fmt: skip
    elif order.subset_of is not None and order.total < (1 - unseen) * order.subset_of:
        yield _finding(
            order, order.subset_of - order.total, "note", unseen,
            f"The loader reads a subset of {order.total} of {order.subset_of} samples",
            Remedy("Check how the subset was created.", "print(len(loader.dataset), len(loader.dataset.dataset))"),
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
