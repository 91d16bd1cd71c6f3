"""Inputs without any influence."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import IgnoredPart, InputInfluence
from nbdebug.finding import Finding, Remedy, Severity
from nbdebug.registry import check

__all__ = ["inputs_ignored"]


@check(explains=("learns-without-inputs", "worse-than-baseline"))
def inputs_ignored(influence: InputInfluence, *, steps: float = 0.5) -> Iterator[Finding]:  # half of a sequence
    """An input, a column or most of the steps have no influence on outputs or loss.

    nbdebug exchanges each input, and each column or channel of it, between the samples of several batches, in both
    modes and after shaking the parameters a little, and looks for any change at all. What is the same for all samples
    is not tested.

    Why it matters: the model cannot learn from what it does not see. An argument that is never used, a slice that is
    one too short, or the first output of a recurrent network instead of the last are easy to write and hard to see.

    What to try: follow the input named through forward: is it used, is it overwritten, does a slice or an index leave
    it out?
    """
    for part in influence.ignored:
        if part.part == "step" and len(part.indices) <= steps * part.of:
            continue  # the end of a sequence may fall out of a window
        yield Finding(
            f"{_named(part)} no influence: exchanging {'it' if not part.indices else 'them'} between samples changes "
            f"neither outputs nor loss, to the last bit, in {influence.batches} batches.",
            where=part.key,
            severity=_severity(part, influence),
            evidence={
                "indices": list(part.indices),
                "of": part.of,
                "batches": influence.batches,
                "threshold": 0,
                "source": "an input that is used changes something when it changes",
            },
            remedies=(Remedy("Use it in forward, or leave it out of the batch."),),
        )


def _named(part: IgnoredPart) -> str:
    if not part.indices:
        return f"The input {part.key} has"
    some = ", ".join(map(str, part.indices[:5])) + (", …" if len(part.indices) > 5 else "")
    return f"{len(part.indices)} of {part.of} {part.part}s of {part.key} ({some}) have"


def _severity(part: IgnoredPart, influence: InputInfluence) -> Severity:
    """What may have been left out on purpose is worth a note only."""
    if part.part == "input":
        return "note" if influence.by_name else "bug"
    last_in_order = influence.foretells_itself and len(part.indices) == 1
    return "note" if part.part == "column" and (influence.windowed or last_in_order) else "suspect"
