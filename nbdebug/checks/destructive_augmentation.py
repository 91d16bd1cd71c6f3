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
    times_chance: float = 2.5,  # a judgement: nearly what guessing gives
    p_value: float = 0.001,
    kept: float = 0.15,  # a judgement: of what simple models know of the class of clean samples
) -> Iterator[Finding]:
    """Augmentation changes samples so much that they cannot be told apart any more.

    nbdebug reads some samples many times, each time with other random numbers, and tries to recognise which sample a
    reading comes from by the other readings. Where clean samples are at hand, as a validation set has them, it also
    compares how well simple models predict the class of either.

    Why it matters: augmentation should change what does not matter and keep what does. If nothing of the sample is
    left, the label has nothing to do with the input and there is nothing to learn.

    What to try: show a batch as the network receives it; weaken noise, crops, erasing and colour changes one by one;
    train once without augmentation.
    """
    if augmentation.samples < 8:
        raise NotApplicable(f"only {augmentation.samples} samples: too few to tell recognition from guessing")
    if augmentation.p > p_value or augmentation.upper < times_chance * augmentation.chance:
        above = augmentation.recognised / augmentation.chance
        yield _finding(
            f"From one augmented reading, the sample it comes from is recognised in {augmentation.recognised:.1%} of "
            f"{augmentation.samples * augmentation.readings} cases among {augmentation.samples}; guessing gives "
            f"{augmentation.chance:.1%}.",
            "bug" if above < 0.6 * times_chance else "suspect",
            augmentation,
            p_value,
            Bars(("recognised", "guessing"), (augmentation.recognised, augmentation.chance)),
        )
    elif _class_is_lost(augmentation, kept):
        clean = augmentation.clean_gain or 0.0
        yield _finding(
            f"Simple models go {clean:.0%} of the way from chance to perfect in predicting the class of clean samples, "
            f"and {max(augmentation.gain, 0):.0%} for augmented ones.",
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
            "source": "37 reasons, 13; binomial test against guessing, simple models by cross-validation",
        },
        remedies=(
            Remedy("Look at what the network receives.", "print(next(iter(loader)))"),
            Remedy("Weaken the augmentation until a person can name the label again."),
        ),
        exhibit=exhibit,
    )
