"""Class weights that grow with the class frequency."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.class_weighting import ClassWeighting
from nbdebug.evidence.loader_sweep import LoaderSweep

__all__ = ["class_weights_inverted"]


@check(basis="statistic", explains=("class-imbalance", "loss-metric-disagree"))
def class_weights_inverted(
    sweep: LoaderSweep,
    weighting: ClassWeighting,
    *,
    classes: int = 3,  # two points always lie on a line; our choice
    correlation: float = 0.9,  # of log weight and log count; inverse frequencies give -1, unrelated costs about 0
    spread: float = 1.5,  # largest over smallest, of weights and of counts; below it nothing is weighted; our choice
) -> Iterator[Finding]:
    """The loss weights frequent classes more than rare ones.

    nbdebug gives the loss the same prediction for samples of every class, compares the gradients, and correlates them
    with how often the loader yields each class.

    Why it matters: weights are meant to make up for rare classes. Proportional to the counts instead of their inverse,
    they make rare classes rarer still, and the model hardly ever predicts them.

    What to try: weight by inverse frequency, `len(y) / (classes * torch.bincount(y))`.
    """
    known = sweep.class_labels()
    if weighting.reason or not known:
        raise NotApplicable(weighting.reason or "the targets are not one class per sample")
    counts = _counts(next(iter(known.values())))
    pairs = [(counts[c], pull) for c, pull in weighting.pulls.items() if pull > 0 and counts.get(c, 0) > 0]
    if len(pairs) < classes:
        raise NotApplicable(f"needs at least {classes} classes that the loss weights")
    (fewest, most), (low, high) = ((min(side), max(side)) for side in zip(*pairs, strict=True))
    if most <= spread * fewest or high <= spread * low:
        return
    found = float(np.corrcoef([(math.log(count), math.log(pull)) for count, pull in pairs], rowvar=False)[0, 1])
    if found > correlation:
        yield _finding(pairs, found, correlation)


def _counts(labels: np.ndarray) -> dict[int, int]:
    values, counts = np.unique(labels, return_counts=True)
    return {int(value): int(count) for value, count in zip(values, counts, strict=True)}


def _finding(pairs: list[tuple[int, float]], found: float, threshold: float) -> Finding:
    (few, rare), (many, common) = min(pairs), max(pairs)
    return Finding(
        f"The loss weights frequent classes more: a class of {many} samples {common / rare:.1f} times as much as one "
        f"of {few} (correlation {found:.2f}).",
        where="loss_fn",
        severity="suspect",
        evidence={
            "correlation of log weight and log count": found,
            "threshold": threshold,
            "source": "scikit-learn, class_weight='balanced': n_samples / (n_classes * counts)",
        },
        remedies=(
            Remedy(
                "Weight by inverse class frequency.",
                "nn.CrossEntropyLoss(weight=len(y) / (classes * torch.bincount(y)))",
                Patch("weigh-classes"),
            ),
        ),
        exhibit=Bars(
            tuple(f"{count} samples" for count, _ in sorted(pairs)),
            tuple(pull for _, pull in sorted(pairs)),
            title="Gradient of a class for the same prediction",
        ),
    )
