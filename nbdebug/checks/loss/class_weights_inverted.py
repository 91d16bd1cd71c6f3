"""Class weights that grow with the class frequency."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.class_weighting import ClassWeighting
from nbdebug.evidence.loader_sweep import LoaderSweep
from nbdebug.evidence.sampler_weights import SamplerWeights

__all__ = ["class_weights_inverted"]


@check(basis="statistic", explains=("class-imbalance", "loss-metric-disagree"))
def class_weights_inverted(
    sweep: LoaderSweep | None,
    weighting: ClassWeighting | None,
    sampler: SamplerWeights | None,
    *,
    classes: int = 3,  # two points always lie on a line; our choice
    correlation: float = 0.9,  # of log weight and log count; inverse frequencies give -1, unrelated costs about 0
    spread: float = 1.5,  # largest over smallest, of weights and of counts; below it nothing is weighted; our choice
) -> Iterator[Finding]:
    """The loss, or the sampler, weights frequent classes more than rare ones.

    nbdebug gives the loss the same prediction for samples of every class, compares the gradients, and correlates them
    with how often the loader yields each class; and it reads the weights of a `WeightedRandomSampler`.

    Why it matters: weights are meant to make up for rare classes. Proportional to the counts instead of their inverse,
    they make rare classes rarer still, and the model hardly ever predicts them.

    What to try: weight by inverse frequency, `len(y) / (classes * torch.bincount(y))`.
    """
    if sampler is not None:
        drawn = [(count, weight) for count, weight in sampler.classes if weight > 0]
        if (found := _correlation(drawn, classes, spread)) > correlation:
            yield _of_sampler(drawn, found, correlation)
    if sweep is None or weighting is None:
        if sampler is not None:
            return
        raise NotApplicable("the targets are not one class per sample")
    known = sweep.class_labels()
    if weighting.reason or not known:
        raise NotApplicable(weighting.reason or "the targets are not one class per sample")
    counts = _counts(next(iter(known.values())))
    pairs = [(counts[c], pull) for c, pull in weighting.pulls.items() if pull > 0 and counts.get(c, 0) > 0]
    if len(pairs) < classes:
        raise NotApplicable(f"needs at least {classes} classes that the loss weights")
    if (found := _correlation(pairs, classes, spread)) > correlation:
        yield _finding(pairs, found, correlation)


def _correlation(pairs: Sequence[tuple[int, float]], classes: int, spread: float) -> float:
    """Correlate the logarithms of counts and weights; 0 where there are few classes, or one of both hardly varies."""
    if len(pairs) < classes:
        return 0.0
    (fewest, most), (low, high) = ((min(side), max(side)) for side in zip(*pairs, strict=True))
    if most <= spread * fewest or high <= spread * low:
        return 0.0
    return float(np.corrcoef([(math.log(count), math.log(weight)) for count, weight in pairs], rowvar=False)[0, 1])


def _of_sampler(pairs: Sequence[tuple[int, float]], found: float, threshold: float) -> Finding:
    (few, rare), (many, common) = min(pairs), max(pairs)
    return Finding(
        f"The sampler draws frequent classes more: a sample of a class of {many} is drawn {common / rare:.1f} times as "
        f"often as one of a class of {few} (correlation {found:.2f}).",
        where="loader",
        severity="suspect",
        is_contradiction=True,  # drawing every sample equally often already favors frequent classes
        evidence={
            "correlation of log weight and log count": found,
            "threshold": threshold,
            "source": "torch.utils.data.WeightedRandomSampler: one weight per sample, not a count",
        },
        remedies=(
            Remedy(
                "Weight samples by the inverse frequency of their class.",
                "WeightedRandomSampler((1 / torch.bincount(y))[y], len(y))",
            ),
        ),
    )


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
