"""A watched training on several processes: each writes down how it goes, and the first one reads it."""

from __future__ import annotations

import warnings
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from nbdebug.evidence.recorded.values import firsts_of
from nbdebug.evidence.recording import Recording
from nbdebug.setup.distributed.facts import (
    as_facts,
    averages_itself,
    period_of,
    prints_of,
    sends_buffers,
    untold_sampler,
)
from nbdebug.setup.distributed.meeting import Meeting, meet
from nbdebug.setup.distributed.pieces import data_share
from nbdebug.setup.distributed.rank_facts import RankFacts, TensorPrint
from nbdebug.watch.joining import FINAL, RUNNING, joined, packed, waited_everywhere
from nbdebug.watch.recorder.recorder import Recorder
from nbdebug.watch.snapshot import snapshot

__all__ = ["RankWatch"]

PATIENCE = 20.0  # seconds for which the first process waits for the others' last words, once, when it is asked


class RankWatch:
    """The part of this process in a training that several are watched at; idle where it trains alone.

    Nothing in a step waits for another process: what is said goes into the store, at most a few times a second.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._meeting: Meeting | None = None
        self._before: dict[str, TensorPrint] = {}
        self._final: RankFacts | None = None

    def _lost(self, error: Exception) -> None:
        """Go on alone: nothing that goes wrong between the processes may reach the training."""
        self._meeting = None
        warnings.warn(f"nbdebug.watch: the other ranks are not tracked: {error!r}", RuntimeWarning, stacklevel=3)

    def begin(self) -> None:
        """Meet the others, the first time that it begins."""
        if self._meeting is None:
            self._meeting = meet("watch", in_pairs=True)
            if self._meeting is not None:
                self._before = {one.name: one for one in self._prints() if one.is_buffer}
        self._final = None

    def tell(self) -> None:
        """Say how it goes so far, without the values, which would have to be read."""
        if self._meeting is not None and not self._meeting.is_first:
            try:
                self._meeting.say("facts", asdict(self._facts()))
                self._tell_pieces(self._meeting, "pieces", RUNNING)
            except (RuntimeError, OSError) as error:
                self._lost(error)

    def end(self) -> None:
        """Say how it went, with the values that this process ended with."""
        if self._meeting is None or self._final is not None:
            return
        prints = self._prints()
        moved = tuple(one.name for one in prints if one.is_buffer and one != self._before.get(one.name, one))
        recording = snapshot(self._recorder)
        facts = replace(self._facts(), not_finite=firsts_of(recording), waiting=self._waiting(recording))
        untold = bool(facts.period) and untold_sampler()
        self._final = replace(facts, prints=prints, moved=moved, fixed_order=untold)
        if not self._meeting.is_first:
            try:
                self._tell_pieces(self._meeting, "all pieces", FINAL)
                self._meeting.say("final", asdict(self._final))
            except (RuntimeError, OSError) as error:
                self._lost(error)

    def gathered(self) -> tuple[tuple[RankFacts, ...], tuple[str, ...]]:
        """Return every process that was heard, on the first process, and in sentences who was not."""
        if self._meeting is None or not self._meeting.is_first:
            return (), ()
        own = self._final or self._facts()
        try:
            said = self._heard(self._meeting)
        except (RuntimeError, OSError) as error:  # the store is gone with the process that held it
            return (), (f"The other ranks cannot be reached any more: {error}.",)
        others = [as_facts(said[rank]) for rank in sorted(said)]
        # Values of different moments differ by right.
        others = [one if one.steps == own.steps else replace(one, prints=()) for one in others]
        return (own, *others), tuple(f"{says}." for says in self._meeting.missing.values())

    def _tell_pieces(self, meeting: Meeting, topic: str, most: int) -> None:
        """Say what was measured of the pieces that this process holds, where the model is sharded."""
        target = self._recorder.target
        if target.is_sharded:
            meeting.say(topic, packed(snapshot(self._recorder), target.parameters, most))

    def whole(self, recording: Recording) -> Recording:
        """Return the recording of the first process with the norms of whole parameters, where all were heard."""
        target, meeting = self._recorder.target, self._meeting
        if meeting is None or not meeting.is_first or not target.is_sharded or not recording.parameters:
            return recording
        topic, most = ("pieces", RUNNING) if self._final is None else ("all pieces", FINAL)
        try:
            said = meeting.latest(topic)
        except (RuntimeError, OSError):  # the store is gone with the process that held it
            said = {}
        if len(said) < meeting.size - 1:
            silent = "Norms of gradients and weights are those of the pieces on rank 0: not every rank was heard."
            return replace(recording, unseen=(*recording.unseen, silent))
        recording = joined(recording, [packed(recording, target.parameters, most), *said.values()])
        return waited_everywhere(recording, recording.ranks) if recording.ranks else recording

    def _heard(self, meeting: Meeting) -> dict[int, Any]:
        if self._final is None:
            return meeting.latest("facts")
        meeting.excuse_absent()
        return meeting.hear("final", PATIENCE)

    def _waiting(self, recording: Recording) -> tuple[str, ...]:
        """Return the parameters of which this process holds a piece that never got a gradient but zeros."""
        known = recording.coverage
        return known.waiting if known is not None and self._recorder.target.is_sharded else ()

    def _prints(self) -> tuple[TensorPrint, ...]:
        roots = self._recorder.target.roots
        named = [(f"{name}." if len(roots) > 1 else "", root) for name, root in roots.items()]
        return tuple(replace(one, name=prefix + one.name) for prefix, root in named for one in prints_of(root))

    def _facts(self) -> RankFacts:
        recorder, meeting, roots = self._recorder, self._meeting, self._recorder.target.roots.values()
        assert meeting is not None
        batches = dict(recorder.passes.batches.first)
        return RankFacts(
            rank=meeting.rank,
            batches=tuple(batches.values()),
            period=period_of(batches),
            steps=recorder.step,
            times={name: values for name, values in self._times().items() if values},
            own_averaging=any(averages_itself(root) for root in roots),
            sends_buffers=any(sends_buffers(root) for root in roots),
            share=data_share(roots),
        )

    def _times(self) -> dict[str, tuple[float, ...]]:
        """Return the quartiles of each part of a step, without the first, in which everything is cold."""
        store = self._recorder.store
        with store.lock:
            series = store.times.series()
        values = {name: one.finite.values[1:] for name, one in series.items()}
        quarters = (0.25, 0.5, 0.75)
        return {name: tuple(np.quantile(v, quarters).tolist()) if len(v) else () for name, v in values.items()}
