"""The same sample many times."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nbdebug.errors import NotApplicable
from nbdebug.evidence import LoaderSweep, PartFacts
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["duplicate_samples"]


@check(explains=("split-leakage",))
def duplicate_samples(
    sweep: LoaderSweep,
    *,
    copies: float = 0.1,  # a copy for every tenth sample: enough to shift what is learned
    pairs: int = 5,  # equal pairs seen, below which the estimate is worth nothing
    apart: int = 4,  # places in which samples that are not copies differ at least, as a rule
) -> Iterator[Finding]:
    """The data set holds the same samples many times.

    nbdebug compares digests of the inputs of samples with different indices and estimates from the equal pairs how many
    copies a sample has in the whole data set. Tables of few and discrete columns and short texts repeat honestly; so
    this counts only where those that repeat differ from all others in many places, or in a column that is almost never
    the same.

    Why it matters: copies weigh more than other samples, and once the data are split they are in the training and in
    the validation set alike, so that the validation error is too good.

    What to try: drop duplicates before splitting. If rare classes were repeated on purpose, use a weighted sampler
    instead, and split first.
    """
    sweep.require(32)
    if sweep.keys is None:
        raise NotApplicable("the inputs are not tensors with one row for each sample")
    _, first = np.unique(sweep.indices, return_index=True)
    keys = sweep.keys[first]
    values, counts = np.unique(keys, return_counts=True)
    equal = int((counts * (counts - 1) // 2).sum())
    if equal == 0 or len(values) == 1 or not _beyond_chance(sweep, apart):
        return
    total = sweep.total if sweep.total is not None and sweep.way == "random" else len(keys)
    each = equal / (len(keys) * (len(keys) - 1) / 2) * (total - 1)
    repeated = int((counts > 1).sum())
    doubled = sweep.indices[first][np.isin(keys, values[counts > 1])]
    alarming = each >= copies and equal >= pairs and not _is_oversampling(sweep, first, keys)
    yield Finding(
        f"{repeated} samples occur more than once among {sweep.says}; a sample has about {each:.2g} copies in the "
        f"whole data set.",
        where=sweep.inputs[0].name,
        severity="suspect" if alarming else "note",
        evidence={
            "copies of a sample": each,
            "equal pairs": equal,
            "samples compared": len(keys),
            "some of them": doubled[:10].tolist(),
            "threshold": copies,
            "source": "debugging your ML models: look for duplicates",
        },
        remedies=(Remedy("Drop copies before splitting.", "frame = frame.drop_duplicates()"),),
    )


def _beyond_chance(sweep: LoaderSweep, apart: int) -> bool:
    """Whether samples that are not equal differ so much that equality is no accident."""
    return any(_tells_apart(part, apart) for part in sweep.inputs if len(part.rows) >= 16)


def _tells_apart(part: PartFacts, apart: int) -> bool:
    rows, counts = np.unique(part.rows, axis=0, return_counts=True)
    if len(rows) < 8:
        return False
    order = np.argsort(counts <= 1, kind="stable")[:256]  # those that repeat first: it is about them
    rows, repeated = rows[order], counts[order] > 1
    if part.is_float and max(len(np.unique(column)) for column in rows.T) > 0.8 * len(rows):
        return True  # a column that is almost never the same twice
    differ = (rows[:, None, :] != rows[None, :, :]).sum(2)
    np.fill_diagonal(differ, rows.shape[1] + 1)
    nearest = differ.min(1)
    return bool(np.quantile(nearest[repeated] if repeated.any() else nearest, 0.25) >= apart)


def _is_oversampling(sweep: LoaderSweep, first: np.ndarray, keys: np.ndarray) -> bool:
    """Whether the copies are what makes the classes equally frequent."""
    for labels in sweep.class_labels().values():
        _, once = np.unique(keys, return_index=True)
        before = np.unique(labels[first], return_counts=True)[1]
        after = np.unique(labels[first][once], return_counts=True)[1]
        if len(before) > 1 and before.max() < 1.5 * before.min() and after.max() > 2 * after.min():
            return True
    return False
