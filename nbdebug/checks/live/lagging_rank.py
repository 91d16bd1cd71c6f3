"""A rank that the other ranks wait for."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.ranks import Ranks
from nbdebug.setup.distributed.rank_facts import RankFacts

__all__ = ["lagging_rank"]

# A fast rank waits in its backward pass for the gradients of the others, so only these parts measure the rank itself.
OWN = {"data": "the code before the forward pass", "forward": "the forward pass"}


@check
def lagging_rank(
    ranks: Ranks,
    *,
    slower: float = 1.5,  # times as long; ranks that share a machine differ by less
    share: float = 0.2,  # of a whole step; a smaller loss is not worth reporting; our choice
    waited: float = 0.5,  # of what it loses, by which each other rank waits for it later; our choice
    least: int = 20,  # steps; fewer are dominated by the start, when caches and workers are cold; our choice
) -> Iterator[Finding]:
    """One rank of a distributed run is slower than the others, which wait for it.

    nbdebug compares the time from one step to the next forward pass, which is mostly data loading, and the time of the
    forward pass: in the backward pass all ranks wait for the slowest, and in the forward pass, too, where
    DistributedDataParallel broadcasts buffers (the forward pass is then excluded). The fast steps of the slow rank must
    be slower than the slow steps of the others, and the others must spend the lost time waiting in the later parts of a
    step, so that random delays on a busy machine raise no alarm.

    Why it matters: every step takes as long as on the slowest rank; all other ranks idle.

    What to try: look at what differs on that rank: a slower disk or fewer workers if its data is late, longer samples
    (bucket them by length, so that all ranks get similar lengths), another job on its device, a throttled device, or
    logging and checkpoints that only this rank writes.
    """
    timed = [facts for facts in ranks.facts if facts.steps >= least and all(name in facts.times for name in OWN)]
    if len(timed) < 2:
        raise NotApplicable(f"fewer than two ranks have {least} timed steps")
    whole = median(sum(quartiles[1] for quartiles in facts.times.values()) for facts in timed)
    sent = any(facts.sends_buffers for facts in timed)
    for part in ("data",) if sent else tuple(OWN):
        slow = max(timed, key=lambda facts: facts.times[part][1])
        others = [facts.times[part] for facts in timed if facts is not slow]
        quick, now, _ = slow.times[part]
        usual = median(middle for _, middle, _ in others)
        apart = quick > max(late for _, _, late in others)
        if (
            apart
            and now > slower * usual
            and now - usual > share * whole
            and _have_waited(timed, slow, part, waited * (now - usual))
        ):
            yield Finding(
                f"Rank {slow.rank} takes {1000 * now:.3g} ms for {OWN[part]}, the others {1000 * usual:.3g} ms "
                f"(whole step: {1000 * whole:.3g} ms).",
                where=f"rank {slow.rank}",
                severity="suspect",
                evidence={"rank": slow.rank, "seconds": now, "others": usual, "part": part, "threshold": slower},
                exhibit=Bars(
                    tuple(f"rank {facts.rank}" for facts in timed),
                    tuple(1000 * facts.times[part][1] for facts in timed),
                    f"Time for {OWN[part]}",
                    unit="ms",
                ),
            )


def _have_waited(timed: list[RankFacts], slow: RankFacts, part: str, lost: float) -> bool:
    """Return whether the others spend at least half of the lost time in later parts of a step, where ranks wait."""
    later = [name for name in ("forward", "backward") if name != part and name in slow.times]
    spent = {facts.rank: sum(facts.times[name][1] for name in later) for facts in timed}
    return all(spent[facts.rank] - spent[slow.rank] > lost for facts in timed if facts is not slow)
