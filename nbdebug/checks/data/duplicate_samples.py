"""Duplicate samples in the dataset."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.loader_sweep import LoaderSweep
from nbdebug.evidence.loader_sweep_tally import PartFacts

__all__ = ["duplicate_samples"]


@check(basis="statistic", explains=("split-leakage",))
def duplicate_samples(
    sweep: LoaderSweep,
    *,
    copies: float = 0.1,  # one copy per ten samples: enough to bias training; our choice
    pairs: int = 5,  # equal pairs; the estimate is unreliable with fewer; our choice
    apart: int = 4,  # minimum number of values in which distinct samples usually differ; our choice
    unique: float = 0.8,  # of the values of a column: then equal samples are no coincidence; our choice
    nearest: float = 0.25,  # quantile of the samples that differ from all others in so many; our choice
    even: float = 1.5,  # largest over smallest class with the copies; our choice, …
    uneven: float = 2.0,  # … and without them: rare classes are oversampled on purpose; our choice
    least: int = 32,  # samples; our choice
) -> Iterator[Finding]:
    """The dataset contains many duplicate samples.

    nbdebug compares hashes of the inputs of samples with different indices and estimates from the equal pairs how many
    copies a sample has in the whole dataset. Tables with few discrete columns and short texts have legitimate
    duplicates; so this counts only where repeated samples differ from all others in many values, or in a column that is
    almost always unique.

    Why it matters: duplicates get more weight than other samples, and after a random split they are in both the
    training and the validation set, so the validation error is too low.

    What to try: drop duplicates before splitting. To oversample rare classes, use a weighted sampler instead, and split
    first.
    """
    sweep.require(least)
    if sweep.keys is None:
        raise NotApplicable("the inputs are not tensors with one row per sample")
    _, first = np.unique(sweep.indices, return_index=True)
    keys = sweep.keys[first]
    values, counts = np.unique(keys, return_counts=True)
    equal = int((counts * (counts - 1) // 2).sum())
    if equal == 0 or len(values) == 1 or not _beyond_chance(sweep, apart, unique, nearest):
        return
    total = sweep.total if sweep.total is not None and sweep.way == "random" else len(keys)
    each = equal / (len(keys) * (len(keys) - 1) / 2) * (total - 1)
    repeated = int((counts > 1).sum())
    doubled = sweep.indices[first][np.isin(keys, values[counts > 1])]
    is_suspicious = each >= copies and equal >= pairs and not _is_oversampling(sweep, first, keys, even, uneven)
    yield Finding(
        f"{repeated} samples occur more than once in {sweep.says} (copies per sample in the whole dataset: about "
        f"{each:.2g}).",
        where=sweep.inputs[0].name,
        severity="suspect" if is_suspicious else "note",
        evidence={
            "copies of a sample": each,
            "equal pairs": equal,
            "samples compared": len(keys),
            "some of them": doubled[:10].tolist(),
            "threshold": copies,
            "source": "debugging your ML models: look for duplicates",
        },
        remedies=(
            Remedy("Drop duplicates before splitting.", "frame = frame.drop_duplicates()", Patch("remove-copies")),
        ),
    )


def _beyond_chance(sweep: LoaderSweep, apart: int, unique: float, quantile: float) -> bool:
    """Return whether distinct samples differ so much that equal ones are no coincidence."""
    return any(_is_distinctive(part, apart, unique, quantile) for part in sweep.inputs if len(part.rows) >= 16)


def _is_distinctive(part: PartFacts, apart: int, unique: float, quantile: float) -> bool:
    rows, counts = np.unique(part.rows, axis=0, return_counts=True)
    if len(rows) < 8:
        return False
    order = np.argsort(counts <= 1, kind="stable")[:256]  # repeated rows first: they are the ones to test
    rows, repeated = rows[order], counts[order] > 1
    if part.is_float and max(len(np.unique(column)) for column in rows.T) > unique * len(rows):
        return True  # a column that is almost always unique
    differ = (rows[:, None, :] != rows[None, :, :]).sum(2)
    np.fill_diagonal(differ, rows.shape[1] + 1)
    nearest = differ.min(1)
    return bool(np.quantile(nearest[repeated] if repeated.any() else nearest, quantile) >= apart)


def _is_oversampling(sweep: LoaderSweep, first: np.ndarray, keys: np.ndarray, even: float, uneven: float) -> bool:
    """Return whether the duplicates balance the classes."""
    for labels in sweep.class_labels().values():
        _, once = np.unique(keys, return_index=True)
        before = np.unique(labels[first], return_counts=True)[1]
        after = np.unique(labels[first][once], return_counts=True)[1]
        if len(before) > 1 and before.max() < even * before.min() and after.max() > uneven * after.min():
            return True
    return False
