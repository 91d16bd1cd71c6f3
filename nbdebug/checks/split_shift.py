"""A held-out split that does not look like the training data."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nbdebug.evidence import FirstPass, Shift, Shifts
from nbdebug.exhibit import Bars, Table
from nbdebug.finding import Finding, Remedy, Severity
from nbdebug.registry import check

__all__ = ["split_shift"]


@check
def split_shift(
    shifts: Shifts,
    first: FirstPass | None,
    *,
    mean_shift: float = 1.5,  # standard deviations; 0.8 is called large in statistics (Cohen), and splits by time drift
    scale_ratio: float = 3.0,  # normalising images divides by 0.2 to 0.3; augmentation changes scales by less
    auc: float = 0.95,  # a forest that tells the splits apart almost always; 0.5 is chance
    label_distance: float = 0.8,  # 0 to 1; balanced training sets against natural ones stay below
) -> Iterator[Finding]:
    """The validation or test data are preprocessed differently, or come from another distribution.

    nbdebug compares means, scales and label frequencies, corrected for the number of columns and the sample size, and
    lets a forest try to tell the splits apart. Training data are read without their augmentation where that can be
    done; where it cannot, only gross differences of scale count.

    Why it matters: a model is good on what it has seen. If the validation data are scaled, ordered or selected in
    another way, the validation error measures that difference and not the model.

    What to try: use one preprocessing for all splits, with the statistics of the training data; shuffle before the
    split, and stratify by label. A split by time or by source is right if that is how the model will be used.
    """
    classifier = first is None or first.task.kind in ("classification", "binary")
    for pair in shifts.pairs:
        found = _scaled(pair, scale_ratio) or _swapped(pair) or _moved(pair, mean_shift, scale_ratio)
        found = found or _told_apart(pair, auc)
        if found is not None:
            yield found
        yield from _labels(pair, label_distance, classifier)
        yield from _targets(pair, 2 * mean_shift, scale_ratio)


def _scaled(pair: Shift, limit: float) -> Finding | None:
    """All values of an input are multiplied by a factor: one side misses a step of its preprocessing."""
    for name, slope, straight in pair.slopes:
        moved = [c for c, _, _ in pair.moved if c.startswith(name)]
        if straight > 0.9 and not 1 / limit < slope < limit and len(moved) >= 0.2 * pair.columns:
            factor = slope if slope > 1 else 1 / slope
            word = "larger" if slope > 1 else "smaller"
            says = f"The values of {name} are {factor:.3g} times {word} in {pair.name} than in the training data."
            return _finding(pair, says, "bug", slope, limit)
    return None


def _swapped(pair: Shift) -> Finding | None:
    if not pair.channels_swapped:
        return None
    says = f"The colour channels of {pair.name} fit those of the training data only in reversed order (RGB and BGR)."
    return _finding(pair, says, "suspect", 1.0, 1.0)


def _moved(pair: Shift, mean_shift: float, scale_ratio: float) -> Finding | None:
    """Some columns are far off; where training data are augmented, that has to hold for half of them."""
    gross = [
        (name, difference, ratio)
        for name, difference, ratio in pair.moved
        if abs(difference) > mean_shift or not 1 / scale_ratio < ratio < scale_ratio
    ]
    few = 0.5 * pair.columns if pair.random else 0.1 * pair.columns if pair.columns > 100 else 1
    if len(gross) < few:
        return None
    name, difference, ratio = gross[0]
    says = (
        f"{len(gross)} of {pair.columns} input columns differ grossly between {pair.name} and the training data; in "
        f"{name} the mean is {difference:+.2g} standard deviations off and the spread {ratio:.3g} times as large."
    )
    return _finding(pair, says, "suspect", max(abs(difference), abs(math.log(max(ratio, 1e-9)))), mean_shift, gross)


def _told_apart(pair: Shift, limit: float) -> Finding | None:
    if pair.random or pair.auc_p > 1e-6 or pair.auc < limit - 0.2:
        return None
    severity: Severity = "suspect" if pair.auc >= limit else "note"
    says = (
        f"A forest tells {pair.name} from the training data in {pair.auc:.0%} of all pairs (50 % is chance; "
        f"{pair.size} and {pair.train_size} samples)."
    )
    return _finding(pair, says, severity, pair.auc, limit)


def _labels(pair: Shift, limit: float, classifier: bool) -> Iterator[Finding]:
    if pair.label_distance is None or pair.label_p > 1e-6 or pair.label_distance < 0.25:
        return
    far = classifier and (pair.label_distance >= limit or pair.unseen_share >= 0.1)
    unseen = f"; {', '.join(pair.unseen[:5])} never occur in the training samples seen" if pair.unseen else ""
    says = (
        f"The labels of {pair.name} are distributed differently: {pair.label_distance:.0%} of them would have to be "
        f"others to match the training data{unseen}."
    )
    yield Finding(
        says,
        where=pair.name,
        severity="suspect" if far else "note",
        evidence={"distance": pair.label_distance, "p": pair.label_p, "threshold": limit, "source": "chi-square test"},
        remedies=(Remedy("Shuffle before the split and stratify.", "train_test_split(x, y, stratify=y)"),),
        exhibit=Table(("label", "training", pair.name), pair.label_table, "Share of each label"),
    )


def _targets(pair: Shift, mean_shift: float, scale_ratio: float) -> Iterator[Finding]:
    """Targets in other units: far off in the mean or in the scale; a trend in time moves them by less."""
    if pair.target is None:
        return
    difference, ratio = pair.target
    if abs(difference) <= mean_shift and 1 / scale_ratio < ratio < scale_ratio:
        return
    says = (
        f"The targets of {pair.name} are on another scale than those of the training data: their mean is "
        f"{difference:+.2g} standard deviations off and their spread {ratio:.3g} times as large."
    )
    yield _finding(pair, says, "suspect", difference, mean_shift)


def _finding(
    pair: Shift,
    says: str,
    severity: Severity,
    value: float,
    limit: float,
    gross: list[tuple[str, float, float]] | None = None,
) -> Finding:
    shown = gross or list(pair.moved)
    return Finding(
        says,
        where=pair.name,
        severity=severity,
        evidence={
            "difference": value,
            "columns moved": len(pair.moved),
            "columns": pair.columns,
            "auc": pair.auc,
            "samples": pair.size,
            "threshold": limit,
            "source": "Welch and scale tests at 1e-6, Bonferroni; classifier two-sample test (Lopez-Paz and Oquab)",
        },
        remedies=(
            Remedy(
                "Fit the scaling on the training data and use it for all splits.",
                "scaler.fit(x_train); x_val = scaler.transform(x_val)",
            ),
            Remedy("Give both data sets the same deterministic transforms."),
        ),
        exhibit=Bars(
            tuple(c for c, _, _ in shown[:10]), tuple(d for _, d, _ in shown[:10]), "Shift of the mean", "deviations"
        ),
    )
