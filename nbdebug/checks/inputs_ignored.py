"""Inputs that do not affect the outputs."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import IgnoredPart, InputInfluence
from nbdebug.finding import Finding, Remedy, Severity
from nbdebug.registry import check

__all__ = ["inputs_ignored"]


@check(explains=("learns-without-inputs", "worse-than-baseline"))
def inputs_ignored(influence: InputInfluence, *, steps: float = 0.5) -> Iterator[Finding]:  # half of the sequence
    """An input, a column or most of the time steps do not affect the outputs or the loss.

    nbdebug permutes each input, and each column or channel of it, across the samples of several batches, in both modes
    and after a small perturbation of the parameters, and looks for any change at all. Inputs that are the same for all
    samples are not tested.

    Why it matters: the model cannot learn from an input that it does not use. An argument that is never used, a slice
    that is one too short, or the first output of a recurrent network instead of the last are easy to write and hard to
    spot.

    What to try: follow the input named through forward: is it used, is it overwritten, does a slice or an index drop
    it?
    """
    for part in influence.ignored:
        if part.part == "step" and len(part.indices) <= steps * part.of:
            continue  # a window may exclude the end of a sequence
        yield Finding(
            f"{_named(part)} no effect: permuting {'them' if len(part.indices) > 1 else 'it'} across samples changes "
            f"neither outputs nor loss in {influence.batches} batches.",
            where=part.key,
            severity=_severity(part, influence),
            evidence={
                "indices": list(part.indices),
                "of": part.of,
                "batches": influence.batches,
                "threshold": 0,
                "source": "an input that is used changes the outputs",
            },
            remedies=(Remedy("Use it in forward, or remove it from the batch."),),
        )


def _named(part: IgnoredPart) -> str:
    if not part.indices:
        return f"The input `{part.key}` has"
    some = ", ".join(map(str, part.indices[:5])) + (", …" if len(part.indices) > 5 else "")
    verb = "have" if len(part.indices) > 1 else "has"
    return f"{len(part.indices)} of {part.of} {part.part}s of `{part.key}` ({some}) {verb}"


def _severity(part: IgnoredPart, influence: InputInfluence) -> Severity:
    """Return a note for an input that may be excluded on purpose."""
    if part.part == "input":
        return "note" if influence.by_name else "bug"
    last_in_order = influence.foretells_itself and len(part.indices) == 1
    return "note" if part.part == "column" and (influence.windowed or last_in_order) else "suspect"
