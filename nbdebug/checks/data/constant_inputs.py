"""Inputs that carry no information."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.stats import binom

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.loader_sweep import LoaderSweep
from nbdebug.evidence.loader_sweep_tally import PartFacts

__all__ = ["constant_inputs"]

SOURCE = "37 reasons, 1: check what the network receives"


@check(
    basis="statistic",
    explains=(
        "duplicate-samples",
        "repeated-batches",
        "labels-unrelated-to-inputs",
        "outputs-identical",
        "cannot-overfit-batch",
        "model-ignores-inputs",
        "inputs-ignored",
        "worse-than-baseline",
    ),
)
def constant_inputs(
    sweep: LoaderSweep,
    *,
    blank_share: float = 0.05,  # 5 % of the data without information is worth reporting; our choice
    least: int = 16,  # fewer samples can be equal by coincidence; our choice
    p_value: float = 1e-3,  # of blank samples that share a target by chance; our choice
) -> Iterator[Finding]:
    """Inputs are identical for every sample, or a sample has the same value everywhere.

    nbdebug looks for inputs that are equal in all samples, for constant samples (the same value everywhere) that have
    different targets, and for columns that never change. Masks, columns of ones and constant samples that mostly belong
    to one class are not reported as problems.

    Why it matters: an input that does not vary carries no information. A file that was not found, a wrong path to a
    buffer or a transform that overwrites its result often shows up only here.

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
        yield from _blank_samples(sweep, blank_share, p_value)


def _same_everywhere(part: PartFacts, sweep: LoaderSweep, alone: bool) -> Finding:
    value = f"all {part.low:g}" if part.low == part.high else f"from {part.low:g} to {part.high:g}"
    picture = part.is_float and len(part.shape) >= 3
    return Finding(
        f"The input `{part.name}` is identical in {sweep.says}: values {value}.",
        where=part.name,
        severity="bug" if alone else "suspect" if picture else "note",
        evidence={"lowest": part.low, "highest": part.high, "samples": part.samples, "threshold": 0, "source": SOURCE},
        remedies=(Remedy("Compare two samples of the dataset.", "print(loader.dataset[0], loader.dataset[1])"),),
    )


def _columns(part: PartFacts, sweep: LoaderSweep) -> Finding:
    columns = part.constant_columns or ()
    named = ", ".join(str(c) for c in columns[:8]) + (", …" if len(columns) > 8 else "")
    return Finding(
        f"{len(columns)} of {part.width} columns of `{part.name}` are constant in {sweep.says}: {named}.",
        where=f"{part.name}[:, {columns[0]}]",
        severity="note",
        evidence={"columns": list(columns[:50]), "of": part.width, "threshold": 0, "source": SOURCE},
    )


def _blank_samples(sweep: LoaderSweep, blank_share: float, p_value: float) -> Iterator[Finding]:
    share, which = float(sweep.blank.mean()), sweep.indices[sweep.blank]
    targets = {name: np.unique(labels[sweep.blank]) for name, labels in sweep.labels.items()}
    contradictory = [
        name
        for name, found in targets.items()
        if len(found) > 1 and not _share_a_target(sweep.labels[name], sweep.blank, p_value)
    ]
    yield Finding(
        f"{int(sweep.blank.sum())} of {sweep.seen} samples have the same value everywhere"
        + (f", but {len(targets[contradictory[0]])} different targets" if contradictory else "")
        + f" (first: sample {which[0]}).",
        where=sweep.inputs[0].name,
        severity="suspect" if contradictory else "note",
        evidence={"share": share, "first samples": which[:10].tolist(), "threshold": blank_share, "source": SOURCE},
        remedies=(Remedy("Inspect one of them.", f"loader.dataset[{which[0]}]"),),
    )


def _share_a_target(labels: np.ndarray, blank: np.ndarray, p: float) -> bool:
    """Return whether most constant samples share one target, and more of them than by chance.

    A text that repeats one word is such a sample, and not a loading error.
    """
    values, counts = np.unique(labels[blank], return_counts=True)
    size, hits = int(counts.sum()), int(counts.max())
    share = float(np.mean(labels == values[counts.argmax()]))
    by_chance = float(binom.sf(hits - 1, size, share))
    return 2 * hits > size and by_chance * len(values) < p
