"""A rank that the others wait for."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from nbdebug.errors import NotApplicable
from nbdebug.evidence import RankFacts, Ranks
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding
from nbdebug.registry import check

__all__ = ["lagging_rank"]

# A rank that is ahead waits in its backward pass for the others' gradients, so that only these parts are its own.
OWN = {"data": "what comes before the forward pass", "forward": "the forward pass"}


@check
def lagging_rank(
    ranks: Ranks,
    *,
    slower: float = 1.5,  # times as long; processes that share a machine differ by less
    share: float = 0.2,  # of a whole step that is lost; what is less is not worth the search
    least: int = 20,  # steps; fewer hold the start, when caches and workers are cold
) -> Iterator[Finding]:
    """One process of a training is slower than the others, which wait for it.

    Compared are the time from one step to the next forward pass, which is mostly loading, and that of the forward pass:
    in the backward pass everybody waits for the slowest, and in the forward pass, too, where DistributedDataParallel
    sends buffers round (the forward pass is then left out). The slow process has to be slower at its quick steps than
    the others at their slow ones, and the others have to spend what it loses waiting in the parts that follow, so that
    chance on a busy machine raises nothing.

    Why it matters: every step takes as long as on the slowest process; all the others are paid for waiting.

    What to try: look at what differs on that process: a slower disk or fewer workers where its data come late, longer
    samples (sort them into buckets, so that all processes get the same lengths), another job on its device, a device
    that is throttled, or logging and checkpoints that only this process makes.
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
        if apart and now > slower * usual and now - usual > share * whole and _waited(timed, slow, part, now - usual):
            yield Finding(
                f"Rank {slow.rank} needs {1000 * now:.3g} ms for {OWN[part]} of a step, the others "
                f"{1000 * usual:.3g} ms of {1000 * whole:.3g} ms for the whole step.",
                where=f"rank {slow.rank}",
                severity="suspect",
                evidence={"rank": slow.rank, "seconds": now, "others": usual, "part": part, "threshold": slower},
                exhibit=Bars(
                    tuple(f"rank {facts.rank}" for facts in timed),
                    tuple(1000 * facts.times[part][1] for facts in timed),
                    f"How long {OWN[part]} takes",
                    unit="ms",
                ),
            )


def _waited(timed: list[RankFacts], slow: RankFacts, part: str, lost: float) -> bool:
    """Whether the others spend at least half of what is lost in the later parts of a step, where processes meet."""
    later = [name for name in ("forward", "backward") if name != part and name in slow.times]
    spent = {facts.rank: sum(facts.times[name][1] for name in later) for facts in timed}
    return all(spent[facts.rank] - spent[slow.rank] > lost / 2 for facts in timed if facts is not slow)
