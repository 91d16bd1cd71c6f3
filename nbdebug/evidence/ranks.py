"""What do the processes of a distributed training say, side by side?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nbdebug.core.control import Control
from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.setup import Setup
from nbdebug.setup.distributed.facts import as_facts
from nbdebug.setup.distributed.meeting import ARRIVAL
from nbdebug.setup.distributed.rank_facts import RankFacts, TensorPrint

__all__ = ["Ranks", "apart_in", "likeness", "ranks_met"]


@dataclass(frozen=True)
class Ranks:
    """Every process that was heard, the first one first."""

    facts: tuple[RankFacts, ...]

    @property
    def first(self) -> RankFacts:
        """The process that gathers."""
        return self.facts[0]


def apart_in(one: RankFacts, other: RankFacts, *, buffers: bool, rounding: float) -> list[tuple[TensorPrint, float]]:
    """Return the tensors of the same name and shape whose values differ by more than rounding, and by how much."""
    known = {(p.name, p.place): p for p in other.prints if p.is_buffer == buffers}
    pairs = [(p, known[key]) for p in one.prints if (key := (p.name, p.place)) in known]
    pairs = [(mine, theirs) for mine, theirs in pairs if mine.shape == theirs.shape]
    sized = [(mine, _distance(mine, theirs)) for mine, theirs in pairs if mine.is_buffer == buffers]
    return [(mine, size) for mine, size in sized if size > rounding]


def likeness(one: RankFacts, other: RankFacts, name: str) -> float:
    """Return the correlation of a tensor's samples on two processes; 0 where there is too little to say."""
    mine, theirs = (next(np.array(p.sample) for p in facts.prints if p.name == name) for facts in (one, other))
    if len(mine) < 8 or not np.std(mine) > 0 or not np.std(theirs) > 0:
        return 0.0
    return float(np.corrcoef(mine, theirs)[0, 1])


def _distance(mine: TensorPrint, theirs: TensorPrint) -> float:
    """Return how far two tensors are apart, relative to their size, by their samples, norms and sums."""
    count = math.prod(mine.shape)
    scale = max(mine.norm, theirs.norm) / math.sqrt(count)
    if scale == 0:
        return 0.0
    sampled = max(abs(a - b) for a, b in zip(mine.sample, theirs.sample, strict=True))
    summed = abs(mine.total - theirs.total) / math.sqrt(count)
    return max(sampled, summed, abs(mine.norm - theirs.norm) / math.sqrt(count)) / scale


@probe
def ranks_met(setup: Setup, control: Control) -> Ranks:
    """Collect the model and data summaries of all ranks."""
    meeting = setup.meeting
    if meeting is None:
        raise NotApplicable("there is only one process")
    if not meeting.is_first:
        raise NotApplicable("rank 0 compares the ranks and reports")
    heard = meeting.hear("facts", ARRIVAL, control.poll)
    if not heard:
        raise NotApplicable("; ".join(meeting.missing.values()))
    return Ranks((setup.meeting_facts, *(as_facts(heard[rank]) for rank in sorted(heard))))
