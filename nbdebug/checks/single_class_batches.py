"""Batches with one label only."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nbdebug.errors import NotApplicable
from nbdebug.evidence import LoaderSweep
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["single_class_batches"]


@check(explains=("batchnorm-misused", "loss-spikes", "predictions-unstable"))
def single_class_batches(
    sweep: LoaderSweep,
    *,
    p: float = 1e-4,  # of so many such batches by chance
    share: float = 0.1,  # of the batches
) -> Iterator[Finding]:
    """Many batches hold samples of one class only.

    nbdebug counts such batches in the loader's own order and compares with what the frequencies of the classes predict
    for batches of that size.

    Why it matters: every step then pulls toward one class, and batch normalisation takes the mean of a class for the
    mean of the data, so that the class itself disappears from the activations.

    What to try: shuffle the samples, not the batches; look at the batch sampler and at how files are grouped.
    """
    sweep.require(32)
    known = sweep.class_labels()
    if not known:
        raise NotApplicable("the targets are not one class for each sample")
    for name, labels in sweep.ordered.labels.items():
        if name not in known:
            continue
        frequencies = np.unique(known[name], return_counts=True)[1] / len(known[name])
        batches = [b for b in np.split(labels, np.cumsum(sweep.ordered.sizes)[:-1]) if len(b) >= 4]
        if len(frequencies) < 2 or len(batches) < 3:
            raise NotApplicable("there are too few classes, or too few batches of four samples or more")
        single = [len(np.unique(batch)) == 1 for batch in batches]
        expected = [float((frequencies ** len(batch)).sum()) for batch in batches]
        probability = _at_least(sum(single), expected)
        if probability < p and sum(single) > share * len(batches):
            yield Finding(
                f"{sum(single)} of the first {len(batches)} batches hold one class only; by chance it would be "
                f"{sum(expected):.2g}.",
                where="loader",
                severity="suspect",
                evidence={
                    "batches of one class": sum(single),
                    "expected": sum(expected),
                    "batches": len(batches),
                    "p": probability,
                    "threshold": p,
                    "source": "37 reasons, 10",
                },
                remedies=(Remedy("Shuffle the samples.", "DataLoader(…, shuffle=True)", Patch("shuffle")),),
                exhibit=Bars(("batches of one class", "by chance"), (float(sum(single)), sum(expected))),
            )


def _at_least(count: int, chances: list[float]) -> float:
    """Give the probability of at least so many successes in independent trials with these chances."""
    distribution = np.array([1.0])
    for chance in chances:
        distribution = np.convolve(distribution, [1 - chance, chance])
    return float(distribution[count:].sum())
