"""Where the loss reads the model: the last values that everything the main term makes of the heads passes through."""

from __future__ import annotations

from nbdebug.experiments.tape.ops import Recording
from nbdebug.experiments.tape.read import Term

__all__ = ["output_numbers"]

MAX_OPS = 2_000  # behind the heads; a loss that takes more is judged at its heads


def output_numbers(recording: Recording, term: Term) -> tuple[int, ...]:
    """Return the last dominator of the term up to its prediction, such as the probabilities behind a softmax.

    All that the term is computed from passes through it, so that exchanging it exchanges all that the model says. Where
    several heads take separate ways to the loss there is none, and the heads are returned.
    """
    heads = tuple(n for n in term.heads if recording.values[n].shape)
    if not heads or len(term.zone) > MAX_OPS:
        return heads
    dominators = _dominators(recording, term, heads)
    common = dominators.get(term.number, set())
    if term.comparison is not None:
        common = common & dominators.get(term.comparison.prediction, set())
    else:
        common = common & set(heads)
    found = [n for n in common if recording.values[n].numel > 1]
    return (max(found),) if found else heads


def _dominators(recording: Recording, term: Term, heads: tuple[int, ...]) -> dict[int, set[int]]:
    """Return, for each value between the heads and the term, the values that every way from a head to it passes."""
    found = {number: {number} for number in heads}
    for index in term.zone:
        op = recording.ops[index]
        before = [found[n] for n in op.inputs if n in found]
        if not before:
            continue
        common = set.intersection(*before)
        for number in op.made:
            if number not in found:
                found[number] = common | {number}
    return found
