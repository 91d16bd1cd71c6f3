"""Where the loss reads the model: the last values that everything the main term makes of the heads passes through."""

from __future__ import annotations

from nbdebug.experiments.tape.ops import Recording
from nbdebug.experiments.tape.read import Term

__all__ = ["output_numbers", "terms_at_heads"]

MAX_GUARD = 1e-2  # a lower bound of probabilities before their logarithm
MAX_OPS = 2_000  # behind the heads; a loss that takes more is judged at its heads


def terms_at_heads(terms: tuple[Term, ...], main: Term) -> list[Term]:
    """Return the main term and those of the same loss that share a head with it, as both halves of a binary one do."""
    heads = set(main.heads)
    return [term for term in terms if term is main or (term.root == main.root and heads.intersection(term.heads))]


def output_numbers(recording: Recording, terms: tuple[Term, ...], main: Term) -> tuple[int, ...]:
    """Return the last dominator of the terms up to the main prediction, such as the probabilities behind a softmax.

    All that these terms make of the heads passes through it, so that exchanging it exchanges all that the model says.
    Where several heads take separate ways to the loss there is none, and the heads are returned.
    """
    heads = tuple(n for n in main.heads if recording.values[n].shape)
    group = terms_at_heads(terms, main)
    zone = sorted({index for term in group for index in term.zone})
    if not heads or len(zone) > MAX_OPS:
        return heads
    dominators = _dominators(recording, zone, heads)
    ends = [term.number for term in group]
    ends += [main.comparison.prediction] if main.comparison is not None else []
    common = set.intersection(*(dominators.get(end, set()) for end in ends))
    if main.comparison is None:
        common = common & set(heads)
    found = [n for n in common if recording.values[n].numel > 1]
    return (_unguarded(recording, max(found), common),) if found else heads


def _unguarded(recording: Recording, number: int, known: set[int]) -> int:
    """Return what a clamp that only keeps a logarithm finite, as `p.clamp(1e-7, 1 - 1e-7)`, was given."""
    op = recording.producer(number)
    if op is None or op.name not in ("clamp", "clamp_", "clip", "clamp_min", "clamp_min_") or not op.inputs:
        return number
    given = [part for part in (*op.args, op.kwargs.get("min")) if isinstance(part, float)]
    is_guard = bool(given) and 0 < min(given) <= MAX_GUARD
    return op.inputs[0] if is_guard and op.inputs[0] in known else number


def _dominators(recording: Recording, zone: list[int], heads: tuple[int, ...]) -> dict[int, set[int]]:
    """Return, for each value between the heads and the loss, the values that every way from a head to it passes."""
    found = {number: {number} for number in heads}
    for index in zone:
        op = recording.ops[index]
        before = [found[n] for n in op.inputs if n in found]
        if not before:
            continue
        common = set.intersection(*before)
        for number in op.made:
            if number not in found:
                found[number] = common | {number}
    return found
