"""Inputs that say nothing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.stats import binom

from nbdebug.evidence import LoaderSweep, PartFacts
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["constant_inputs"]

SOURCE = "37 reasons, 1: look at what the network receives"


@check(
    explains=("duplicate-samples", "repeated-batches", "labels-unrelated-to-inputs", "outputs-identical",
              "batch-not-memorised", "learns-without-inputs", "inputs-ignored", "worse-than-baseline")
)  # fmt: skip
def constant_inputs(
    sweep: LoaderSweep,
    *,
    blank_share: float = 0.05,  # a twentieth of the data that answers nothing is worth a look
    least: int = 16,  # fewer samples can be alike by chance
) -> Iterator[Finding]:
    """The inputs are the same for every sample, or are one value all over.

    nbdebug looks for inputs in which no sample differs from another, for samples that are one value all over although
    different answers are asked for them, and for columns that never change. A mask, a column of ones or a blank sample
    that mostly belongs to one class is none of this.

    Why it matters: what does not differ cannot tell anything. A file that was not found, a wrong path to a buffer or a
    transform that overwrites its result often shows only here.

    What to try: print a batch as the model receives it; follow one sample from its file through every transform.
    """
    sweep.require(least)
    varying = [part for part in sweep.inputs if part.varies]
    for part in sweep.inputs:
        if not part.varies and part.samples >= least and not part.bad:
            yield _same_everywhere(part, sweep, alone=not varying)
        elif part.constant_columns and len(part.shape) == 1 and part.width > 1:
            yield _columns(part, sweep)
    if varying and sweep.blank.mean() > blank_share:
        yield from _blank_samples(sweep, blank_share)


def _same_everywhere(part: PartFacts, sweep: LoaderSweep, alone: bool) -> Finding:
    value = f"all {part.low:g}" if part.low == part.high else f"between {part.low:g} and {part.high:g}"
    picture = part.is_float and len(part.shape) >= 3
    return Finding(
        f"The input {part.name} never differs in {sweep.says}: values {value}.",
        where=part.name,
        severity="bug" if alone else "suspect" if picture else "note",
        evidence={"lowest": part.low, "highest": part.high, "samples": part.samples, "threshold": 0, "source": SOURCE},
        remedies=(Remedy("Follow one sample through the data set.", "print(loader.dataset[0], loader.dataset[1])"),),
    )


def _columns(part: PartFacts, sweep: LoaderSweep) -> Finding:
    columns = part.constant_columns or ()
    named = ", ".join(str(c) for c in columns[:8]) + (", …" if len(columns) > 8 else "")
    return Finding(
        f"{len(columns)} of {part.width} columns of {part.name} never change in {sweep.says}: {named}.",
        where=f"{part.name}[:, {columns[0]}]",
        severity="note",
        evidence={"columns": list(columns[:50]), "of": part.width, "threshold": 0, "source": SOURCE},
    )


def _blank_samples(sweep: LoaderSweep, blank_share: float) -> Iterator[Finding]:
    share, which = float(sweep.blank.mean()), sweep.indices[sweep.blank]
    answers = {name: np.unique(labels[sweep.blank]) for name, labels in sweep.labels.items()}
    contradictory = [
        name for name, found in answers.items() if len(found) > 1 and not _tells(sweep.labels[name], sweep.blank)
    ]
    yield Finding(
        f"{int(sweep.blank.sum())} of {sweep.seen} samples are one value all over"
        + (f", and {len(answers[contradictory[0]])} different answers are asked for them" if contradictory else "")
        + f"; the first is sample {which[0]}.",
        where=sweep.inputs[0].name,
        severity="suspect" if contradictory else "note",
        evidence={"share": share, "first samples": which[:10].tolist(), "threshold": blank_share, "source": SOURCE},
        remedies=(Remedy("Look at one of them.", f"loader.dataset[{which[0]}]"),),
    )


def _tells(labels: np.ndarray, blank: np.ndarray, p: float = 1e-3) -> bool:
    """Whether most of the samples that are one value all over have one answer, and more of them than by chance.

    A text of one word said again and again is such a sample, and no sample that was lost.
    """
    values, counts = np.unique(labels[blank], return_counts=True)
    size, hits = int(counts.sum()), int(counts.max())
    share = float(np.mean(labels == values[counts.argmax()]))
    by_chance = float(binom.sf(hits - 1, size, share))
    return 2 * hits > size and by_chance * len(values) < p
