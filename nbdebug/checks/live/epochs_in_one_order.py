"""A DistributedSampler without set_epoch."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.ranks import Ranks

__all__ = ["epochs_in_one_order"]


@check
def epochs_in_one_order(
    ranks: Ranks,
    *,
    epochs: float = 2.0,  # the second epoch is the first repeat
) -> Iterator[Finding]:
    """Every epoch of a distributed training run has the same batches in the same order.

    A DistributedSampler shuffles with a seed that depends on the epoch, which `set_epoch` has to set. nbdebug detects
    batches that repeat in the same order while a shuffling sampler is still at epoch 0. Without such a sampler the
    order may be intended, and is a note; so is, before a training run is watched, a sampler at epoch 0 when the
    optimizer has already run whole epochs.

    Why it matters: every batch contains the same samples in every epoch, as if nothing were shuffled, and the ranks
    never exchange their shards of the data.

    What to try: call `sampler.set_epoch(epoch)` at the start of each epoch, before iterating over the loader. If a
    fixed order is intended, ignore this.
    """
    if not any(facts.batches or facts.fixed_order for facts in ranks.facts):
        raise NotApplicable("the order of the data is unknown")
    repeating = [facts for facts in ranks.facts if facts.period]
    if repeating and len(repeating) == len(ranks.facts):
        first = repeating[0]
        yield Finding(
            f"The same {first.period} batches repeat in the same order on every rank, over {first.steps} steps.",
            where="loader",
            severity="suspect" if any(facts.fixed_order for facts in repeating) else "note",
            evidence={"period": first.period, "steps": first.steps, "untold sampler": first.fixed_order},
        )
    first = ranks.first
    if first.fixed_order and first.epoch == 0 and first.epochs >= epochs:
        yield Finding(
            f"The optimizer has run {first.epochs:.1f} epochs, but the sampler is still at epoch 0.",
            where="loader",
            severity="note",
            evidence={"epochs": first.epochs, "epoch": first.epoch, "threshold": epochs},
        )
