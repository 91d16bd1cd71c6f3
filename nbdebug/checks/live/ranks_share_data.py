"""Ranks train on the same samples."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.ranks import Ranks
from nbdebug.setup.distributed.rank_facts import RankFacts

__all__ = ["ranks_share_data"]


@check
def ranks_share_data(
    ranks: Ranks,
    *,
    same: float = 0.9,  # fraction of positions with the same sample; shards and shuffles share almost none; our choice
    least: int = 8,  # batches, or twice as many samples; fewer may be coincidence; our choice
) -> Iterator[Finding]:
    """Ranks train on the same samples.

    Each rank should draw its own shard of the data. nbdebug compares the samples that one epoch draws on each rank, or
    the batches seen in training: identical at the same step, or the whole dataset on each rank. Ranks that sample with
    replacement independently are not reported.

    Why it matters: where all ranks see the same batch, the averaged gradient is that of a single rank, and the others
    compute it redundantly. Where each rank iterates over the whole data in its own order, an epoch takes as many times
    longer as there are ranks.

    What to try: `DataLoader(data, batch_size, sampler=DistributedSampler(data))` instead of `shuffle=True`, and
    `sampler.set_epoch(epoch)` at the start of each epoch. For an IterableDataset, start at the rank and take every
    world-size-th sample, or use `datasets.distributed.split_dataset_by_node`.
    """
    if not any(facts.order or facts.batches for facts in ranks.facts):
        raise NotApplicable("the samples that each rank draws are unknown")
    for other in ranks.facts[1:]:
        if other.share is not None and other.share == ranks.first.share:
            continue  # pieces of one computation
        what, share, count = _in_step(ranks.first, other, least)
        if share >= same:
            yield Finding(
                f"Rank {other.rank} draws the same {what} as rank 0 in the same order ({share:.0%} of {count} "
                "positions).",
                where="loader",
                severity="bug",
                evidence={"rank": other.rank, "share": share, "compared": count, "threshold": same},
            )
        elif all(_goes_over_everything(facts, 2 * least) for facts in (ranks.first, other)):
            yield Finding(
                f"Rank {other.rank} and rank 0 each draw all {other.samples} samples in every epoch, in different "
                "orders: no `DistributedSampler` splits the data.",
                where="loader",
                severity="suspect",
                evidence={"rank": other.rank, "draws": other.draws, "samples": other.samples},
            )


def _in_step(one: RankFacts, other: RankFacts, least: int) -> tuple[str, float, int]:
    """Return what was compared, the fraction of positions where two ranks draw the same, and their number."""
    for what, mine, theirs, enough in (
        ("batches", one.batches, other.batches, least if one.steps else 1),
        ("samples", one.order, other.order, 2 * least),
    ):
        count = min(len(mine), len(theirs))
        if len(set(mine[:count])) >= enough:  # distinct ones: a batch that is always the same has its own check
            return what, sum(a == b for a, b in zip(mine, theirs, strict=False)) / count, count
    return "", 0.0, 0


def _goes_over_everything(facts: RankFacts, least: int) -> bool:
    """Return whether an epoch draws every sample once."""
    whole = facts.draws >= facts.samples >= least and len(facts.order) >= least
    return whole and len(set(facts.order)) == len(facts.order)
