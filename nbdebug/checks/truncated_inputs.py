"""Values that were cut down to whole numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nbdebug.evidence import LoaderSweep, PartFacts, StoredValues, ValueLoss
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["truncated_inputs"]

HOW = {
    "cast": "the part behind the decimal point is gone, as after a cast to an integer type",
    "division": "they were divided by their largest value without a remainder, so that almost all became 0",
}


@check(explains=("constant-inputs", "duplicate-samples", "labels-unrelated-to-inputs", "worse-than-baseline"))
def truncated_inputs(
    sweep: LoaderSweep,
    stored: StoredValues | None,
    *,
    blank: float = 0.5,  # more than half of the samples left without any value
    bell: float = 0.6,  # the integers between -1 and 1 hold 68 % of a normal distribution
) -> Iterator[Finding]:
    """Values were lost to an integer type or to an integer division.

    nbdebug follows the values of some samples from the arrays that the data set holds, through its `__getitem__`, into
    the batch, and redoes the usual mistakes on them: a cast that drops fractions, a division of integers by 255. Where
    nothing is stored it looks for what such a mistake leaves behind: columns around 0 of spread 1 that hold whole
    numbers only, or samples of which nothing is left.

    Why it matters: a picture in [0, 1] cast to an integer is black. Nothing fails, and nothing can be learned.

    What to try: convert to float before scaling: `x.float() / 255`, and look for `.long()`, `.int()`, `astype(int)`,
    `//` and for arrays that were made with an integer type.
    """
    sweep.require(16)
    known = {part.name: part for part in stored.parts} if stored is not None else {}
    for part in sweep.inputs:
        loss = known.get(part.name)
        if loss is not None and loss.how:
            yield _seen_happening(part, loss)
        elif part.whole and part.varies and part.width > 1:
            yield from _left_behind(part, sweep, blank, bell)


def _seen_happening(part: PartFacts, loss: ValueLoss) -> Finding:
    return Finding(
        f"{part.name} arrives with {loss.given_levels} different values where the data set holds {loss.stored_levels} "
        f"({loss.stored_as}, up to {loss.stored_high:g}): {HOW[loss.how]}, while {loss.stage}.",
        where=part.name,
        evidence={
            "levels stored": loss.stored_levels,
            "levels in the batch": loss.given_levels,
            "share of zeros": part.zeros,
            "threshold": loss.stored_levels,
            "source": "37 reasons, 3",
        },
        remedies=(Remedy("Convert before scaling.", "x = x.float() / 255"),),
        exhibit=Bars(("values stored", "values in the batch"), (loss.stored_levels, loss.given_levels)),
    )


def _left_behind(part: PartFacts, sweep: LoaderSweep, blank: float, bell: float) -> Iterator[Finding]:
    empty = part.constant / max(part.samples, 1)
    answers = [labels[sweep.blank] for labels in sweep.labels.values()]
    asked = any(len(np.unique(found)) > 1 for found in answers if len(found))
    if empty > blank and asked and part.high <= 1 and part.low >= 0:
        says = f"{empty:.0%} of the samples of {part.name} are all zero and the rest holds only 0 and 1"
    elif (share := _looks_standardised(part)) > bell:
        says = f"{share:.0%} of the columns of {part.name} lie around 0 with spread 1, and hold whole numbers only"
        empty = share
    else:
        return
    yield Finding(
        f"{says}: values between 0 and 1 seem to have been cut off in {sweep.says}.",
        where=part.name,
        severity="suspect",
        evidence={"share": empty, "share of zeros": part.zeros, "threshold": blank, "source": "37 reasons, 3"},
        remedies=(Remedy("Keep the type of real numbers.", "torch.tensor(values, dtype=torch.float32)"),),
    )


def _looks_standardised(part: PartFacts) -> float:
    """Give the share of columns that look like standardised ones after a cast: 0 most often, ±2 rare, both signs."""
    rows = part.rows
    if len(rows) < 100 or rows.shape[1] < 3 or len(part.shape) != 1:
        return 0.0
    spread, centre, zeros = rows.std(0), np.abs(rows.mean(0)), (rows == 0).mean(0)
    far = (np.abs(rows) >= 2).mean(0)
    alike = (spread > 0.3) & (spread < 1.1) & (centre < 0.3) & (zeros > 0.5) & (far > 0.005) & (far < 0.1)
    return float((alike & (rows.min(0) < 0) & (rows.max(0) > 0)).mean())
