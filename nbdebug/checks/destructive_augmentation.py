"""Augmentation that destroys the signal."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import Augmentation
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Remedy, Severity
from nbdebug.registry import check

__all__ = ["destructive_augmentation"]


@check(explains=("labels-unrelated-to-inputs", "noisy-labels", "worse-than-baseline", "learns-without-inputs"))
def destructive_augmentation(
    augmentation: Augmentation,
    *,
    times_chance: float = 2.5,  # heuristic: almost chance level
    p_value: float = 0.001,
    kept: float = 0.15,  # heuristic: fraction of what simple models predict on clean samples
) -> Iterator[Finding]:
    """Augmentation destroys the information in the samples.

    nbdebug reads some samples many times with different random seeds and tries to identify which sample an augmented
    version comes from. Where clean samples are available, as in a validation set, it also compares how well simple
    models predict the class of clean and of augmented samples.

    Why it matters: augmentation should change what is irrelevant and keep what determines the label. If nothing of the
    sample is left, the label is unrelated to the input and there is nothing to learn.

    What to try: display a batch as the network receives it; weaken noise, crops, erasing and color changes one by one;
    train once without augmentation.
    """
    if augmentation.samples < 8:
        raise NotApplicable(f"only {augmentation.samples} samples: too few to compare with chance level")
    if augmentation.p > p_value or augmentation.upper < times_chance * augmentation.chance:
        above = augmentation.recognised / augmentation.chance
        yield _finding(
            f"Only {augmentation.recognised:.1%} of {augmentation.samples * augmentation.readings} augmented versions "
            f"can be matched to their sample among {augmentation.samples} (chance level {augmentation.chance:.1%}).",
            "bug" if above < 0.6 * times_chance else "suspect",
            augmentation,
            p_value,
            Bars(("identified", "chance level"), (augmentation.recognised, augmentation.chance)),
        )
    elif _class_is_lost(augmentation, kept):
        clean = augmentation.clean_gain or 0.0
        yield _finding(
            f"Simple models close {clean:.0%} of the gap between chance and perfect accuracy on clean samples, but "
            f"only {max(augmentation.gain, 0):.0%} on augmented ones.",
            "suspect",
            augmentation,
            kept,
            Bars(("clean", "augmented"), (clean, max(augmentation.gain, 0.0))),
        )


def _class_is_lost(augmentation: Augmentation, kept: float) -> bool:
    clean = augmentation.clean_gain
    if clean is None or clean < 0.4:
        return False
    return augmentation.gain < kept * clean and augmentation.sorted_gain < 3 * kept * clean


def _finding(says: str, severity: Severity, augmentation: Augmentation, limit: float, exhibit: Bars) -> Finding:
    return Finding(
        says,
        where="loader",
        severity=severity,
        evidence={
            "recognised": augmentation.recognised,
            "chance": augmentation.chance,
            "p": augmentation.p,
            "gain on clean samples": augmentation.clean_gain,
            "gain on augmented samples": augmentation.gain,
            "threshold": limit,
            "source": "37 reasons, 13; binomial test against chance, cross-validation of simple models",
        },
        remedies=(
            Remedy("Print a batch as the network receives it.", "print(next(iter(loader)))"),
            Remedy("Weaken the augmentation until a person can tell the label again."),
        ),
        exhibit=exhibit,
    )
