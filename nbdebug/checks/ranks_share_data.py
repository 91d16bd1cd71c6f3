"""Ranks that draw the same samples."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import RankFacts, Ranks
from nbdebug.finding import Finding
from nbdebug.registry import check

__all__ = ["ranks_share_data"]


@check
def ranks_share_data(
    ranks: Ranks,
    *,
    same: float = 0.9,  # share of the places at which both draw the same; shards and shuffles share next to none
    least: int = 8,  # batches, or twice as many samples; fewer are no habit
) -> Iterator[Finding]:
    """The processes of one training see the same data.

    Each process should draw its own share of the data. Compared are the samples that one pass draws on each process, or
    the batches that came: the same at the same step, or the whole data set on each process. Processes that draw with
    replacement, each for itself, raise nothing.

    Why it matters: where all processes see the same batch, their average is what one of them would have had alone, and
    all the others compute for nothing. Where each goes over the whole data in an order of its own, an epoch is as many
    times longer as there are processes.

    What to try: `DataLoader(data, batch_size, sampler=DistributedSampler(data))` in place of `shuffle=True`, and
    `sampler.set_epoch(epoch)` at the beginning of each epoch. For an IterableDataset, begin at the rank and take every
    world-size-th sample, or use `datasets.distributed.split_dataset_by_node`.
    """
    if not any(facts.order or facts.batches for facts in ranks.facts):
        raise NotApplicable("nothing is known of the data that each rank draws")
    for other in ranks.facts[1:]:
        what, share, count = _in_step(ranks.first, other, least)
        if share >= same:
            yield Finding(
                f"Rank {other.rank} draws the same {what} as rank 0 in the same order ({share:.0%} of {count} places).",
                where="loader",
                severity="bug",
                evidence={"rank": other.rank, "share": share, "compared": count, "threshold": same},
            )
        elif all(_goes_over_everything(facts, 2 * least) for facts in (ranks.first, other)):
            yield Finding(
                f"Rank {other.rank} and rank 0 each draw all {other.samples} samples in every pass, each in an order "
                "of its own: no sampler deals them out.",
                where="loader",
                severity="suspect",
                evidence={"rank": other.rank, "draws": other.draws, "samples": other.samples},
            )


def _in_step(one: RankFacts, other: RankFacts, least: int) -> tuple[str, float, int]:
    """Give at which share of the places two processes draw the same."""
    for what, mine, theirs, enough in (
        ("batches", one.batches, other.batches, least if one.steps else 1),
        ("samples", one.order, other.order, 2 * least),
    ):
        count = min(len(mine), len(theirs))
        if len(set(mine[:count])) >= enough:  # of different ones: a batch that is always the same has its own check
            return what, sum(a == b for a, b in zip(mine, theirs, strict=False)) / count, count
    return "", 0.0, 0


def _goes_over_everything(facts: RankFacts, least: int) -> bool:
    """Whether a pass draws every sample once."""
    whole = facts.draws >= facts.samples >= least and len(facts.order) >= least
    return whole and len(set(facts.order)) == len(facts.order)
