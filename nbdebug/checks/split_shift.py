"""A held-out split differs from the training data."""

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
    mean_shift: float = 1.5,  # standard deviations; 0.8 is large (Cohen's d), and splits by time drift
    scale_ratio: float = 3.0,  # normalizing images divides by 0.2 to 0.3; augmentation changes the scale by less
    auc: float = 0.95,  # of a random forest that tells the splits apart; 0.5 is chance
    label_distance: float = 0.8,  # total variation, 0 to 1; balanced training sets against natural ones stay below
) -> Iterator[Finding]:
    """The validation or test data are preprocessed differently, or come from another distribution.

    nbdebug compares means, standard deviations and label frequencies, corrected for the number of columns and samples,
    and trains a random forest to tell the splits apart. Training data are read without their augmentation where
    possible; otherwise only large differences of scale count.

    Why it matters: a model generalizes to data like its training data. If the validation data are scaled, ordered or
    selected differently, the validation error measures that difference and not the model.

    What to try: use the same preprocessing for all splits, with the statistics of the training data; shuffle before the
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
    """Report an input whose values are all scaled by one factor: one split misses a preprocessing step."""
    for name, scale, correlation in pair.slopes:
        moved = [c for c, _, _ in pair.moved if c.startswith(name)]
        if correlation > 0.9 and not 1 / limit < scale < limit and len(moved) >= 0.2 * pair.columns:
            factor = scale if scale > 1 else 1 / scale
            word = "larger" if scale > 1 else "smaller"
            says = f"The values of `{name}` are {factor:.3g} times {word} in `{pair.name}` than in the training data."
            return _finding(pair, says, "bug", scale, limit)
    return None


def _swapped(pair: Shift) -> Finding | None:
    if not pair.channels_swapped:
        return None
    says = f"The color channels of `{pair.name}` match the training data only in reversed order (RGB and BGR)."
    return _finding(pair, says, "suspect", 1.0, 1.0)


def _moved(pair: Shift, mean_shift: float, scale_ratio: float) -> Finding | None:
    """Report columns with a large shift; with augmented training data, half of them must be shifted."""
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
        f"{len(gross)} of {pair.columns} input columns differ between `{pair.name}` and the training data: the mean of "
        f"`{name}` is off by {difference:+.2g} standard deviations, its scale by a factor of {ratio:.3g}."
    )
    return _finding(pair, says, "suspect", max(abs(difference), abs(math.log(max(ratio, 1e-9)))), mean_shift, gross)


def _told_apart(pair: Shift, limit: float) -> Finding | None:
    if pair.random or pair.auc_p > 1e-6 or pair.auc < limit - 0.2:
        return None
    severity: Severity = "suspect" if pair.auc >= limit else "note"
    says = (
        f"A random forest tells `{pair.name}` from the training data with an AUC of {pair.auc:.2f} (chance 0.50; "
        f"{pair.size} and {pair.train_size} samples)."
    )
    return _finding(pair, says, severity, pair.auc, limit)


def _labels(pair: Shift, limit: float, classifier: bool) -> Iterator[Finding]:
    if pair.label_distance is None or pair.label_p > 1e-6 or pair.label_distance < 0.25:
        return
    far = classifier and (pair.label_distance >= limit or pair.unseen_share >= 0.1)
    unseen = f"; {', '.join(pair.unseen[:5])} never occur in the training samples read" if pair.unseen else ""
    says = (
        f"The label distribution of `{pair.name}` differs from the training data (total variation distance "
        f"{pair.label_distance:.2f}{unseen})."
    )
    yield Finding(
        says,
        where=pair.name,
        severity="suspect" if far else "note",
        evidence={"distance": pair.label_distance, "p": pair.label_p, "threshold": limit, "source": "chi-square test"},
        remedies=(Remedy("Shuffle before the split, and stratify by label.", "train_test_split(x, y, stratify=y)"),),
        exhibit=Table(("label", "training", pair.name), pair.label_table, "Label frequencies"),
    )


def _targets(pair: Shift, mean_shift: float, scale_ratio: float) -> Iterator[Finding]:
    """Report targets in other units: a large shift in mean or scale; a trend over time shifts them by less."""
    if pair.target is None:
        return
    difference, ratio = pair.target
    if abs(difference) <= mean_shift and 1 / scale_ratio < ratio < scale_ratio:
        return
    says = (
        f"The targets of `{pair.name}` are on another scale than in training: the mean is off by {difference:+.2g} "
        f"standard deviations, the standard deviation by a factor of {ratio:.3g}."
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
                "Fit the scaler on the training data and apply it to all splits.",
                "scaler.fit(x_train); x_val = scaler.transform(x_val)",
            ),
            Remedy("Use the same deterministic transforms for both datasets."),
        ),
        exhibit=Bars(
            tuple(c for c, _, _ in shown[:10]),
            tuple(d for _, d, _ in shown[:10]),
            "Shift of the mean",
            "standard deviations",
        ),
    )
