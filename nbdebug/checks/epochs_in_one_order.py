"""A sampler that is not told the epoch."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import Ranks
from nbdebug.finding import Finding
from nbdebug.registry import check

__all__ = ["epochs_in_one_order"]


@check
def epochs_in_one_order(ranks: Ranks, *, epochs: float = 2.0) -> Iterator[Finding]:  # the second is the first repeat
    """Every epoch of a distributed training has the same batches in the same order.

    A DistributedSampler shuffles by the number of the epoch, which it has to be told. Seen are the batches that came
    again in the same order, while a sampler that shuffles still stands at epoch 0. Where no such sampler is there, the
    order may be meant, and is a note; so is, before a training is watched, a sampler at epoch 0 when the optimizer has
    whole epochs behind it.

    Why it matters: the model sees the same neighbours in every batch of every epoch, as if nothing were shuffled, and
    the processes never exchange their shares of the data.

    What to try: `sampler.set_epoch(epoch)` at the beginning of each epoch, before the loader is iterated. Where the
    data come in one order on purpose, this is as it should be.
    """
    if not any(facts.batches or facts.fixed_order for facts in ranks.facts):
        raise NotApplicable("nothing is known of the order of the data")
    repeating = [facts for facts in ranks.facts if facts.period]
    if repeating and len(repeating) == len(ranks.facts):
        first = repeating[0]
        yield Finding(
            f"The same {first.period} batches came again in the same order on every rank, {first.steps} steps long.",
            where="loader",
            severity="suspect" if any(facts.fixed_order for facts in repeating) else "note",
            evidence={"period": first.period, "steps": first.steps, "untold sampler": first.fixed_order},
        )
    first = ranks.first
    if first.fixed_order and first.epoch == 0 and first.epochs >= epochs:
        yield Finding(
            f"The optimizer has {first.epochs:.1f} epochs behind it, and the sampler still stands at epoch 0.",
            where="loader",
            severity="note",
            evidence={"epochs": first.epochs, "epoch": first.epoch, "threshold": epochs},
        )
