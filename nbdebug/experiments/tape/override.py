"""Override: run the whole program again with values exchanged where they are made, and compare runs."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nbdebug.experiments.tape.ops import Recording
from nbdebug.experiments.tape.program import TapeUnreadable, run_recorded
from nbdebug.experiments.tape.tape import TOLERANCE, Tape, check_shape, record
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch

__all__ = ["Override", "agree_on_replay", "moves_with_seed", "override"]


@dataclass(frozen=True)
class Override:
    """The loss of a run in which a value was exchanged, and its gradient with respect to that value."""

    loss: float
    gradient: torch.Tensor | None = None


def override(
    sandbox: Sandbox, batch: Batch, tape: Tape, exchange: dict[int, torch.Tensor], *, gradient: bool = False
) -> Override:
    """Run the program again with values exchanged where they are made; for what a replay refuses."""
    leaves = {}
    for number, new in exchange.items():
        check_shape(tape.recording.values[number], new)
        leaves[number] = new.detach().clone().requires_grad_(new.is_floating_point() or new.is_complex())
    wants = gradient and not tape.is_step
    again = run_recorded(sandbox, batch, step=tape.is_step, seed=tape.seed, backward=wants, overrides=leaves)
    last = max(tape.recording.values[number].producer for number in exchange)
    names = [[op.name for op in recording.ops[: last + 1]] for recording in (tape.recording, again)]
    loss = _same_root(tape, again)
    if names[0] != names[1] or loss is None:
        raise TapeUnreadable("a second run of the program takes other operations")
    return Override(float(loss), leaves[next(iter(exchange))].grad)


def moves_with_seed(sandbox: Sandbox, batch: Batch, tape: Tape) -> bool:
    """Whether the prediction is another one with another seed, so that differences between runs mean nothing."""
    again = record(sandbox, batch, step=tape.is_step, seed=tape.seed + 1)
    one, other = tape.prediction.value, again.prediction.value
    return one.shape != other.shape or not torch.equal(one, other)


def _same_root(tape: Tape, again: Recording) -> torch.Tensor | None:
    """Return the loss of another run that is the one the tape has read, by its place among all of them."""
    before = tape.recording.roots or tape.recording.differentiated
    after = again.roots or again.differentiated
    place = before.index(tape.main.root)
    loss = again.values[after[place]].tensor if place < len(after) else None
    return loss.detach() if loss is not None else None


def agree_on_replay(sandbox: Sandbox, batch: Batch, tape: Tape) -> bool:
    """Whether a replay and an override have the same loss with another prediction; if so, replays are allowed.

    A program that reads values, to print them or to validate them, is replayed well; one that computes with the numbers
    is not, and only another prediction can tell them apart.
    """
    own, number = tape.prediction.value, tape.prediction.number
    finite = torch.isfinite(own)
    other = own.clone()
    other[finite] = 0.75 * own[finite] + 0.25 * own[finite].flip(0)
    before, tape.reads_matter = tape.reads_matter, False
    try:
        expected = override(sandbox, batch, tape, {number: other}).loss
        found = float(tape.replay(other).detach())
    except (TapeUnreadable, RuntimeError, ValueError):
        tape.reads_matter = before
        return False
    tape.reads_matter = not abs(found - expected) <= TOLERANCE * max(abs(expected), 1e-6)
    return not tape.reads_matter
