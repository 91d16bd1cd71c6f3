"""Which positions of a sequence each prediction depends on, and which of them holds its target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.batch_dim import change_of
from nbdebug.experiments.compared_positions import (
    first_entry,
    first_position,
    prediction_of,
    sources_of,
    steps_of,
)
from nbdebug.experiments.locate_module import jittered
from nbdebug.experiments.positions import Match, exchanged, matches
from nbdebug.experiments.sample_exchange import samples_of
from nbdebug.experiments.sequence_summaries import summaries
from nbdebug.experiments.tape import Tape, record
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.nested import leaves
from nbdebug.setup.user_code import user_code

__all__ = ["PositionInfluence", "StreamInfluence", "few_samples", "position_influence"]

AGREES = 0.98  # share of targets that must equal an entry of the batch at the same offset
OTHERS = 0.9  # share at any other offset, above which the sequence repeats itself
ROWS = 8
SIZES = 3
TELLS = 1e-4
NOISE = 1e-5  # rounding, relative to how predictions differ
STREAMS = 3  # entries that the target equals and that are exchanged


@dataclass(frozen=True)
class StreamInfluence:
    """One entry of the batch that the target equals at some offset, and what exchanging its positions changes.

    The target at position `j` is the entry's value at `j + offset`. Changes are relative to how predictions differ: by
    exchanging everything from the target's own position on (`target`), what lies behind it (`later`), and what lies
    before it (`earlier`). `covered` is the share of the targets that the entry holds at all, and
    `start` the number of positions that the program cuts off the beginning of the entry, or of its outputs.
    """

    name: str
    offset: int
    agreement: float
    runner_up: float
    positions: int
    predicted: int  # the number of predictions per sample
    is_tokens: bool
    target: float
    later: float
    earlier: float
    covered: float = 1.0
    start: int = 0
    sample_dim: int = 0
    time_dim: int = 1
    is_summary: bool = False  # later positions are seen only through one vector per sample

    @property
    def ahead(self) -> int:
        """How many positions behind an output its target stands."""
        return self.offset - self.start

    @property
    def is_whole(self) -> bool:
        """Whether there is a target for each output of the sequence, from the first one that counts on."""
        return self.predicted + self.start >= max(self.positions - abs(self.ahead) - 1, 3)

    @property
    def is_next_step(self) -> bool:
        """Whether the target is the next value of the sequence at every position."""
        return self.is_whole and 1 <= self.ahead <= 2

    @property
    def is_shifted(self) -> bool:
        """Whether predictions are computed from what lies before their target alone, as in a decoder."""
        return self.earlier > TELLS and self.target <= TELLS


@dataclass(frozen=True)
class PositionInfluence:
    """What each prediction sees of the sequences that its target is taken from, in `mode`.

    `shifted_before` says by how many positions the entry with the targets was shifted before the program shifted it
    again, and `several` that the loss compares other predictions with other targets as well.
    """

    streams: tuple[StreamInfluence, ...]
    mode: str
    prediction: str  # the module that makes it
    shifted_before: int = 0
    several: bool = False
    runs: int = 0


@probe
def position_influence(sandbox: Sandbox, trial: TrialRun | None) -> PositionInfluence:
    """Exchange tokens or time steps and watch the prediction at every position."""
    if trial is not None:
        require_run(trial)
    jittered(sandbox.model)  # what begins at zero hides what lies before it
    batch = few_samples(sandbox)
    for training in (False, True):  # some programs have a loss in one mode only
        with sandbox.mode(training):
            tapes = list[Tape]()
            with user_code(passing=()):  # the first run of a copy may verify it with passes of its own
                tapes += [record(sandbox, batch, hold_modes=True), record(sandbox, batch, hold_modes=True)]
            if len(tapes) == 2:
                exchanges = Exchanges(sandbox, batch, tapes[1])
                return measured(exchanges, tapes[0], "training" if training else "eval")
    raise NotApplicable("the program cannot be recorded with a few samples in either mode")


def few_samples(sandbox: Sandbox) -> Batch:
    """Return the first few samples, as many as no other dimension can be mistaken for."""
    samples = samples_of(sandbox)
    return samples.head(ROWS - (ROWS in samples.lengths)).batch


def measured(exchanges: Exchanges, before: Tape, mode: str) -> PositionInfluence:
    """Return what the predictions see of each entry that the target equals."""
    tape, reason = exchanges.tape, "the targets are not values of a sequence that the prediction is computed from"
    for found in _matches(exchanges.batch, tape):
        used = [match for match in found if match.stream.name in sources_of(tape)][:STREAMS]
        if not used:
            continue
        exchanges.refuse_random(before)
        try:
            seen = tuple(_influence(exchanges, match) for match in used)
        except NotApplicable as error:  # perhaps the samples are along another dimension
            reason = str(error)
            continue
        several = sum(term.comparison is not None for term in tape.terms) > max(len(steps_of(tape)), 1)
        shifted = _shifted_before(tape, found, used[0])
        return PositionInfluence(seen, mode, tape.prediction.module, shifted, several, exchanges.runs)
    raise NotApplicable(reason)


def _matches(batch: Batch, tape: Tape) -> Iterator[list[Match]]:
    """Yield the entries that the target equals, the samples along the first dimension, then along the second."""
    tensors = [t for _, t in leaves(batch.raw) if isinstance(t, torch.Tensor) and t.dim() > 1]
    for size in list(dict.fromkeys([batch.size, *(t.shape[1] for t in tensors)]))[:SIZES]:
        if found := matches(batch, tape, int(size), least=AGREES, most=OTHERS):
            yield found


def _shifted_before(tape: Tape, found: list[Match], used: Match) -> int:
    """Return how far the entry that holds the targets is shifted against the inputs, if the program shifts it too."""
    given = tape.target.sources if tape.target is not None else ()
    own = [match for match in found if match.stream.name in given and match.stream.name != used.stream.name]
    return max((used.offset - match.offset for match in own if match.offset > 0), default=0)


def _influence(exchanges: Exchanges, match: Match) -> StreamInfluence:
    length, counted = match.stream.length, match.seen.counted
    cuts = sorted({max(length * part // 4, 1) for part in (1, 2, 3)} | {length - 1})
    target, later, earlier = 0.0, 0.0, 0.0
    places = torch.arange(counted.shape[1]) + match.offset  # of the target, for each prediction
    for cut, row, change in exchanges.changes(match, [slice(cut, length) for cut in cuts]):
        target = max(target, _most(change[counted[row] & (places <= cut.start)]))
        later = max(later, _most(change[counted[row] & (places < cut.start)]))
    for cut, row, change in exchanges.changes(match, [slice(0, cut) for cut in cuts]):
        earlier = max(earlier, _most(change[counted[row] & (places >= cut.stop)]))
    stream = match.stream
    return StreamInfluence(
        stream.name, match.offset, match.agreement, match.runner_up, length, int(counted.shape[1]), stream.is_tokens,
        target, later, earlier, float(counted[:, (places >= 0) & (places < length)].sum() / counted.sum()),
        first_position(exchanges.tape, exchanges.tape.prediction.number) + first_entry(exchanges.tape, stream.name),
        stream.sample_dim, stream.time_dim, later > TELLS and match.offset > 0 and exchanges.is_summarized(match),
    )  # fmt: skip


def _most(changes: torch.Tensor) -> float:
    return float(changes.max()) if changes.numel() else 0.0


class Exchanges:
    """One program with one batch, whose positions are exchanged."""

    def __init__(self, sandbox: Sandbox, batch: Batch, tape: Tape) -> None:
        self.sandbox, self.batch, self.tape, self.runs = sandbox, batch, tape, 2

    def refuse_random(self, before: Tape) -> None:
        """Abstain if the prediction is another one in an equal run, or with another seed."""
        for again in (prediction_of(before), self._predicted(self.batch, self.tape.seed + 1)):
            own = prediction_of(self.tape)
            if again is None or again.shape != own.shape or float(change_of(own, again).max()) > NOISE:
                raise NotApplicable("the prediction is another one in a second run, so nothing can be compared")

    def changes(self, match: Match, places: list[slice]) -> Iterator[tuple[slice, int, torch.Tensor]]:
        """Exchange places of some samples and yield how much each prediction of these samples changes.

        The samples in between stay as they are: where their predictions change as well, nothing can be concluded.
        """
        rows = match.seen.target.shape[0]
        apart = rows >= 2 * len(places)
        plans = [{2 * i: place for i, place in enumerate(places)}] if apart else [
            dict.fromkeys(range(max(rows // 2, 1)), place) for place in places
        ]  # fmt: skip
        for plan in plans:
            after = self._predicted(exchanged(self.batch, match.stream, plan), self.tape.seed)
            if after is None:
                raise NotApplicable("the program takes another course with other values at some positions")
            before = prediction_of(self.tape)
            change = match.seen.read(change_of(before, after)).amax(-1)
            kept = torch.ones(rows, dtype=torch.bool)
            kept[list(plan)] = False
            if bool((change[kept] > NOISE).any()):
                raise NotApplicable("the samples affect each other; see batch-mixing")
            for row, place in plan.items():
                yield place, row, change[row]

    def is_summarized(self, match: Match) -> bool:
        """Whether later positions reach the prediction only through one vector per sample, as in an autoencoder."""
        if steps_of(self.tape):  # a loop over time sees what lies ahead only by an encoder
            return True
        rows, length = match.seen.target.shape[0], match.stream.length
        cut = length // 2
        changed = exchanged(self.batch, match.stream, dict.fromkeys(range(rows), slice(cut, length)))
        held = summaries(self.sandbox, self.batch, self.tape, match.stream.name, {length, match.seen.target.shape[1]})
        self.runs += 2
        after = held(changed) if held is not None else None
        if after is None or after.shape != self.tape.prediction.shape:
            return False
        change = match.seen.read(change_of(self.tape.prediction.value, after)).amax(-1)
        places = torch.arange(change.shape[1]) + match.offset
        return not bool((change[match.seen.counted & (places <= cut)] > TELLS).any())

    def _predicted(self, batch: Batch, seed: int) -> torch.Tensor | None:
        self.runs += 1
        again = record(self.sandbox, batch, step=self.tape.is_step, seed=seed, hold_modes=True)
        value, own = prediction_of(again), prediction_of(self.tape)
        return value if value.shape == own.shape and again.prediction.made_by == self.tape.prediction.made_by else None
