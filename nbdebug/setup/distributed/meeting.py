"""Where the processes of one training meet: a corner of their store, in which each writes and the first one reads."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch.distributed as dist

from nbdebug.core.torch_compat import default_store

__all__ = ["Meeting", "meet"]

ARRIVAL = 20.0  # seconds that the first process waits for the others to begin
LOOK = 0.02  # seconds between two looks into the store
_held: Counter[str] = Counter()  # meetings of each kind that this process has begun
_heard: Counter[tuple[str, int]] = Counter()  # the newest meeting of each kind in which another process was heard


def _no_poll() -> None:
    """Stand for the poll of a control where there is none."""


@dataclass
class Meeting:
    """One occasion on which every process says something; `missing` says in sentences who was not heard, and why."""

    kind: str
    number: int
    rank: int
    size: int
    store: Any = field(repr=False)
    missing: dict[int, str] = field(default_factory=dict)
    in_pairs: bool = False  # whether the n-th meeting here belongs to the n-th there, come who may
    _read: dict[tuple[str, int], Any] = field(default_factory=dict, repr=False)
    _numbers: dict[int, int] = field(default_factory=dict, repr=False)

    @property
    def is_first(self) -> bool:
        """Whether this process gathers."""
        return self.rank == 0

    def say(self, topic: str, content: Any) -> None:
        """Write the summary of this process, replacing the last one, without waiting for other ranks."""
        self.store.set(self._key(topic, self.rank), json.dumps(content))

    def leave(self, error: BaseException) -> None:
        """Tell the first process not to wait, and why."""
        self.say("left", f"{type(error).__name__}: {error}"[:500])

    def latest(self, topic: str) -> dict[int, Any]:
        """Return what the others have said about it so far, without waiting."""
        found = {rank: self._look(topic, rank) for rank in self._others()}
        return {rank: content for rank, content in found.items() if content is not None}

    def hear(self, topic: str, seconds: float, poll: Callable[[], None] = _no_poll) -> dict[int, Any]:
        """Wait until every other process has said it, has left, or the time is over."""
        until = time.monotonic() + seconds
        for rank in self._others():
            while (topic, rank) not in self._read and rank not in self.missing:
                poll()
                content = self._look(topic, rank)
                if content is not None:
                    self._read[topic, rank] = content
                elif (left := self._look("left", rank)) is not None:
                    self.missing[rank] = f"Rank {rank} ended with {left}"
                elif time.monotonic() > until:
                    self.missing[rank] = self._silence(rank, seconds)
                else:
                    time.sleep(LOOK)
        return {rank: content for (said, rank), content in self._read.items() if said == topic}

    def excuse_absent(self) -> None:
        """Wait no longer for those who have not even begun."""
        for rank in self._others():
            if self._look("here", rank) is None:
                self.missing.setdefault(rank, f"Rank {rank} was not watched: call nbdebug.watch on every rank")

    def _others(self) -> list[int]:
        return [rank for rank in range(self.size) if rank != self.rank]

    def _silence(self, rank: int, seconds: float) -> str:
        if self._look("here", rank) is None:
            return (
                f"Rank {rank} did not come within {seconds:.0f} s, so it is not in the report: call nbdebug on "
                "every rank, not on rank 0 alone"
            )
        return f"Rank {rank} began, and was not heard of for {seconds:.0f} s; it hangs, died, or takes much longer"

    def _look(self, topic: str, rank: int) -> Any:
        key = self._key(topic, rank)
        return json.loads(self.store.get(key)) if self.store.check([key]) else None

    def _key(self, topic: str, rank: int) -> str:
        return f"{self.kind}/{rank}/{self._number(rank)}/{topic}"

    def _number(self, rank: int) -> int:
        """Return the number under which a process takes part: the newest, because some may have met without the
        rest.
        """
        if rank == self.rank or self.in_pairs:
            return self.number
        if rank not in self._numbers:
            number = _heard[self.kind, rank] + 1
            if not self._began(rank, number):
                return number
            while self._began(rank, number + 1):
                number += 1
            self._numbers[rank] = _heard[self.kind, rank] = number
        return self._numbers[rank]

    def _began(self, rank: int, number: int) -> bool:
        return bool(self.store.check([f"{self.kind}/{rank}/{number}/here"]))


def meet(kind: str, *, in_pairs: bool = False) -> Meeting | None:
    """Begin a meeting of this kind; None where there is one process only."""
    if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() < 2:
        return None
    store = _store()
    if store is None:
        return None
    _held[kind] += 1
    meeting = Meeting(kind, _held[kind], dist.get_rank(), dist.get_world_size(), store, in_pairs=in_pairs)
    meeting.say("here", True)
    return meeting


def _store() -> Any:
    """Return a corner of the store in which torch's own processes met; None where they met in another way, as by
    MPI.
    """
    from torch.distributed.distributed_c10d import PrefixStore

    store = default_store()
    return PrefixStore("nbdebug", store) if store is not None else None
