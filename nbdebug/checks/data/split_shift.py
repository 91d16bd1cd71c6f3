"""A held-out split differs from the training data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from nbdebug.charts import Bars, Table
from nbdebug.core.control import Control
from nbdebug.core.finding import Finding, Patch, Remedy, Severity
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import FirstPass
from nbdebug.evidence.sample_table import Samples, SampleTable
from nbdebug.evidence.split_statistics import (
    channels_swapped,
    label_difference,
    moved_columns,
    quantile_derivatives,
    target_difference,
    tell_apart,
)

__all__ = ["Shift", "Shifts", "shift", "split_shift"]


@dataclass(frozen=True)
class Shift:
    """How the inputs and labels of one held-out split differ from the training data.

    `moved` are the columns whose mean or scale differs beyond chance, with the standardized difference of the means and
    the ratio of the scales; `auc` is how well a forest tells the splits apart, 0.5 being not at all. `slopes` are
    factor and offset that bring the values of an input of the training data to those of the split (1 and 0 if equal).
    `target` is the same for targets that are numbers, where it is beyond chance: the difference of the means in
    deviations of the training data, and the ratio of the scales.
    """

    name: str
    train_size: int
    size: int
    columns: int
    moved: tuple[tuple[str, float, float], ...]
    slopes: tuple[tuple[str, float, float, float], ...]  # input, factor, offset, how well they explain the difference
    auc: float
    auc_p: float
    channels_swapped: bool
    label_distance: float | None
    label_p: float
    unseen: tuple[str, ...]
    unseen_share: float
    random: bool
    label_table: tuple[tuple[str, float, float], ...] = ()
    target: tuple[float, float] | None = None


@dataclass(frozen=True)
class Shifts:
    """Each held-out split against the training data."""

    pairs: tuple[Shift, ...]


FEWEST = 40


@probe
def shift(samples: Samples, control: Control) -> Shifts:
    """Compare the splits column by column, and train a random forest to distinguish them."""
    if not samples.others:
        raise NotApplicable("there is no validation or test loader to compare with")
    train = samples.clean
    usable = [t for t in samples.others if len(t) >= FEWEST and t.columns == train.columns]
    if not usable or len(train) < FEWEST:
        raise NotApplicable(f"a split has fewer than {FEWEST} samples, or the splits differ in shape")
    pairs = []
    for number, table in enumerate(usable):
        control.progress(number / len(usable), f"comparing {table.name} with the training data")
        pairs.append(_compare(train, table, samples.random and samples.plain is None))
    return Shifts(tuple(pairs))


def _compare(train: SampleTable, other: SampleTable, random: bool) -> Shift:
    auc, p = tell_apart(train.rows, other.rows)
    distance, label_p, unseen, unseen_share, table = label_difference(train, other)
    return Shift(
        name=other.name,
        train_size=len(train),
        size=len(other),
        columns=train.rows.shape[1],
        moved=moved_columns(train, other),
        slopes=quantile_derivatives(train, other),
        auc=auc,
        auc_p=p,
        channels_swapped=channels_swapped(train, other),
        label_distance=distance,
        label_p=label_p,
        unseen=unseen,
        unseen_share=unseen_share,
        random=random,
        label_table=table,
        target=target_difference(train, other),
    )


@check
def split_shift(
    shifts: Shifts,
    first: FirstPass | None,
    *,
    mean_shift: float = 1.5,  # standard deviations; 0.8 is large (Cohen's d), and splits by time drift
    scale_ratio: float = 3.0,  # normalizing images divides by 0.2 to 0.3; augmentation changes the scale by less
    auc: float = 0.95,  # of a random forest that tells the splits apart; 0.5 is chance; our choice
    label_distance: float = 0.8,  # total variation, 0 to 1; balanced training sets against natural ones stay below
    label_note: float = 0.25,  # total variation from which on it is worth a note; our choice
    unseen: float = 0.1,  # share of the split with labels that training lacks; our choice
    auc_note: float = 0.75,  # AUC from which on it is worth a note; our choice
    p_value: float = 1e-6,  # of AUC and labels by chance; our choice
    correlation: float = 0.9,  # of the values of both splits, where one factor explains the difference; our choice
    scaled: float = 0.2,  # of the columns, which that factor moves; our choice
    target_shift: float = 2.0,  # times `mean_shift`, for targets; our choice
    columns: float = 0.1,  # of more than `wide` columns, that have moved; our choice
    wide: int = 100,  # columns, up to which a single one counts; our choice
    random_columns: float = 0.5,  # of the columns, where samples are augmented at random; our choice
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
        found = _scaled(pair, scale_ratio, correlation, scaled) or _swapped(pair)
        share = random_columns if pair.random else columns if pair.columns > wide else 0.0
        found = found or _moved(pair, mean_shift, scale_ratio, share)
        if not found and not pair.random and pair.auc_p <= p_value:
            found = _told_apart(pair, auc, auc_note)
        if found is not None:
            yield found
        if pair.label_distance is not None and pair.label_p <= p_value and pair.label_distance >= label_note:
            far = classifier and (pair.label_distance >= label_distance or pair.unseen_share >= unseen)
            yield _labels(pair, label_distance, "suspect" if far else "note")
        yield from _targets(pair, target_shift * mean_shift, scale_ratio)


def _scaled(pair: Shift, limit: float, least: float, share: float) -> Finding | None:
    """Report an input whose values are all scaled by one factor: one split misses a preprocessing step."""
    for name, scale, offset, correlation in pair.slopes:
        moved = [c for c, _, _ in pair.moved if c.startswith(name)]
        if correlation > least and not 1 / limit < scale < limit and len(moved) >= share * pair.columns:
            factor = scale if scale > 1 else 1 / scale
            word = "larger" if scale > 1 else "smaller"
            says = f"The values of `{name}` are {factor:.3g} times {word} in `{pair.name}` than in the training data."
            found = _finding(pair, says, "bug", scale, limit)
            patch = Patch(
                "scale-split", {"split": pair.name, "name": name, "factor": 1 / scale, "shift": (0.0 - offset) / scale}
            )
            first = replace(found.remedies[0], patch=patch)
            return replace(found, remedies=(first, *found.remedies[1:]))
    return None


def _swapped(pair: Shift) -> Finding | None:
    if not pair.channels_swapped:
        return None
    says = f"The color channels of `{pair.name}` match the training data only in reversed order (RGB and BGR)."
    found = _finding(pair, says, "suspect", 1.0, 1.0)
    first, same = found.remedies
    patch = Patch("reorder-split", {"split": pair.name, "order": [2, 1, 0]})
    return replace(found, remedies=(replace(same, patch=patch), first))


def _moved(pair: Shift, mean_shift: float, scale_ratio: float, share: float) -> Finding | None:
    """Report columns with a large shift; with augmented training data, half of them must be shifted."""
    gross = [
        (name, difference, ratio)
        for name, difference, ratio in pair.moved
        if abs(difference) > mean_shift or not 1 / scale_ratio < ratio < scale_ratio
    ]
    if not gross or len(gross) < share * pair.columns:
        return None
    name, difference, ratio = gross[0]
    says = (
        f"{len(gross)} of {pair.columns} input columns differ between `{pair.name}` and the training data: the mean of "
        f"`{name}` is off by {difference:+.2g} standard deviations, its scale by a factor of {ratio:.3g}."
    )
    return _finding(pair, says, "suspect", max(abs(difference), abs(math.log(max(ratio, 1e-9)))), mean_shift, gross)


def _told_apart(pair: Shift, limit: float, note: float) -> Finding | None:
    if pair.auc < min(note, limit):
        return None
    severity: Severity = "suspect" if pair.auc >= limit else "note"
    says = (
        f"A random forest tells `{pair.name}` from the training data with an AUC of {pair.auc:.2f} (chance 0.50; "
        f"{pair.size} and {pair.train_size} samples)."
    )
    return _finding(pair, says, severity, pair.auc, limit)


def _labels(pair: Shift, limit: float, severity: Severity) -> Finding:
    unseen = f"; {', '.join(pair.unseen[:5])} never occur in the training samples read" if pair.unseen else ""
    says = (
        f"The label distribution of `{pair.name}` differs from the training data (total variation distance "
        f"{pair.label_distance:.2f}{unseen})."
    )
    return Finding(
        says,
        where=pair.name,
        severity=severity,
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
