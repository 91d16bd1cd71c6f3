"""Many batches contain a single class."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.loader_sweep import LoaderSweep

__all__ = ["single_class_batches"]


@check(basis="statistic", explains=("batchnorm-misused", "loss-spikes", "predictions-unstable"))
def single_class_batches(
    sweep: LoaderSweep,
    *,
    p: float = 1e-4,  # probability of this many with shuffled samples; our choice
    share: float = 0.1,  # fraction of batches; our choice
    least: int = 32,  # samples; our choice
    size: int = 4,  # samples of a batch; our choice: smaller ones often have one class
    batches: int = 3,  # our choice
) -> Iterator[Finding]:
    """Many batches contain a single class.

    nbdebug counts such batches in the loader's own order and compares with the number that the class frequencies
    predict for shuffled batches of that size.

    Why it matters: every step then pulls toward one class, and BatchNorm takes the mean of a class for the mean of the
    data, so that the class itself disappears from the activations.

    What to try: shuffle the samples, not the batches; check the batch sampler and how files are grouped.
    """
    sweep.require(least)
    known = sweep.class_labels()
    if not known:
        raise NotApplicable("the targets are not one class label per sample")
    for name, labels in sweep.ordered.labels.items():
        if name not in known:
            continue
        frequencies = np.unique(known[name], return_counts=True)[1] / len(known[name])
        judged = [b for b in np.split(labels, np.cumsum(sweep.ordered.sizes)[:-1]) if len(b) >= size]
        if len(frequencies) < 2 or len(judged) < batches:
            raise NotApplicable(f"too few classes, or too few batches with at least {size} samples")
        single = [len(np.unique(batch)) == 1 for batch in judged]
        expected = [float((frequencies ** len(batch)).sum()) for batch in judged]
        probability = _at_least(sum(single), expected)
        if probability < p and sum(single) > share * len(judged):
            yield Finding(
                f"{sum(single)} of the first {len(judged)} batches contain a single class; with shuffling, "
                f"{sum(expected):.2g} are expected.",
                where="loader",
                severity="suspect",
                evidence={
                    "batches of one class": sum(single),
                    "expected": sum(expected),
                    "batches": len(judged),
                    "p": probability,
                    "threshold": p,
                    "source": "37 reasons, 10",
                },
                remedies=(Remedy("Shuffle the samples.", "DataLoader(…, shuffle=True)", Patch("shuffle")),),
                exhibit=Bars(("single-class batches", "expected"), (float(sum(single)), sum(expected))),
            )


def _at_least(count: int, chances: list[float]) -> float:
    """Return the probability of at least `count` successes in independent trials (Poisson binomial)."""
    distribution = np.array([1.0])
    for chance in chances:
        distribution = np.convolve(distribution, [1 - chance, chance])
    return float(distribution[count:].sum())
