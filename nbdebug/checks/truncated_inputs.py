"""Input values were truncated to integers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nbdebug.evidence import LoaderSweep, PartFacts, StoredValues, ValueLoss
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["truncated_inputs"]

HOW = {
    "cast": "truncated by a cast to an integer dtype",
    "division": "truncated by an integer division by the maximum",
}


@check(explains=("constant-inputs", "duplicate-samples", "labels-unrelated-to-inputs", "worse-than-baseline"))
def truncated_inputs(
    sweep: LoaderSweep,
    stored: StoredValues | None,
    *,
    blank: float = 0.5,  # fraction of samples that are all zero
    bell: float = 0.6,  # the integers between -1 and 1 hold 68 % of a normal distribution
) -> Iterator[Finding]:
    """Input values were truncated by an integer dtype or an integer division.

    nbdebug follows the values of some samples from the arrays that the dataset stores, through its `__getitem__`, into
    the batch, and reproduces the usual mistakes on them: a cast that drops fractions, an integer division by 255. Where
    nothing is stored it looks for what such a mistake leaves behind: columns with mean 0 and standard deviation 1 that
    hold only integers, or samples that are all zero.

    Why it matters: an image in [0, 1] cast to an integer is black. Nothing fails, and nothing can be learned.

    What to try: convert to float before scaling, `x.float() / 255`, and look for `.long()`, `.int()`, `astype(int)`,
    `//` and for arrays created with an integer dtype.
    """
    sweep.require(16)
    known = {part.name: part for part in stored.parts} if stored is not None else {}
    for part in sweep.inputs:
        loss = known.get(part.name)
        if loss is not None and loss.how:
            yield _truncated_while_loading(part, loss)
        elif part.whole and part.varies and part.width > 1:
            yield from _looks_truncated(part, sweep, blank, bell)


def _truncated_while_loading(part: PartFacts, loss: ValueLoss) -> Finding:
    return Finding(
        f"`{part.name}` has {loss.given_levels} distinct values in the batch but {loss.stored_levels} in the dataset "
        f"({loss.stored_as}, up to {loss.stored_high:g}): {HOW[loss.how]} while {loss.stage}.",
        where=part.name,
        evidence={
            "levels stored": loss.stored_levels,
            "levels in the batch": loss.given_levels,
            "share of zeros": part.zeros,
            "threshold": loss.stored_levels,
            "source": "37 reasons, 3",
        },
        remedies=(Remedy("Convert to float before scaling.", "x = x.float() / 255"),),
        exhibit=Bars(
            ("distinct values in dataset", "distinct values in batch"), (loss.stored_levels, loss.given_levels)
        ),
    )


def _looks_truncated(part: PartFacts, sweep: LoaderSweep, blank: float, bell: float) -> Iterator[Finding]:
    empty = part.constant / max(part.samples, 1)
    targets = [labels[sweep.blank] for labels in sweep.labels.values()]
    differ = any(len(np.unique(found)) > 1 for found in targets if len(found))
    if empty > blank and differ and part.high <= 1 and part.low >= 0:
        says = f"{empty:.0%} of the samples of `{part.name}` are all zero and the others contain only 0 and 1"
    elif (share := _looks_standardized(part)) > bell:
        says = f"{share:.0%} of the columns of `{part.name}` look standardized but contain only integers"
        empty = share
    else:
        return
    yield Finding(
        f"{says}: fractions seem to have been truncated ({sweep.says}).",
        where=part.name,
        severity="suspect",
        evidence={"share": empty, "share of zeros": part.zeros, "threshold": blank, "source": "37 reasons, 3"},
        remedies=(Remedy("Keep a floating-point dtype.", "torch.tensor(values, dtype=torch.float32)"),),
    )


def _looks_standardized(part: PartFacts) -> float:
    """Return the fraction of columns that look standardized and then cast: mostly 0, rarely ±2, both signs."""
    rows = part.rows
    if len(rows) < 100 or rows.shape[1] < 3 or len(part.shape) != 1:
        return 0.0
    std, center, zeros = rows.std(0), np.abs(rows.mean(0)), (rows == 0).mean(0)
    far = (np.abs(rows) >= 2).mean(0)
    alike = (std > 0.3) & (std < 1.1) & (center < 0.3) & (zeros > 0.5) & (far > 0.005) & (far < 0.1)
    return float((alike & (rows.min(0) < 0) & (rows.max(0) > 0)).mean())
