"""Augmentation that destroys the signal."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import Augmentation
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["destructive_augmentation"]


@check(explains=("labels-unrelated-to-inputs", "noisy-labels", "worse-than-baseline", "learns-without-inputs"))
def destructive_augmentation(
    augmentation: Augmentation,
    *,
    times_chance: float = 2.5,  # a benign augmentation is recognised 5 to 24 times as often as by guessing (own trials)
    p_value: float = 0.001,
) -> Iterator[Finding]:
    """Augmentation changes samples so much that they cannot be told apart any more.

    nbdebug reads some samples many times, each time with other random numbers, and tries to recognise which sample a
    reading comes from by the other readings.

    Why it matters: augmentation should change what does not matter and keep what does. If nothing of the sample is
    left, the label has nothing to do with the input and there is nothing to learn.

    What to try: show a batch as the network receives it; weaken noise, crops, erasing and colour changes one by one;
    train once without augmentation.
    """
    if augmentation.samples < 8:
        raise NotApplicable(f"only {augmentation.samples} samples: too few to tell recognition from guessing")
    above = augmentation.recognised / augmentation.chance
    if augmentation.p > p_value or augmentation.upper < times_chance * augmentation.chance:
        yield Finding(
            f"From one augmented reading, the sample it comes from is recognised in {augmentation.recognised:.1%} of "
            f"{augmentation.samples * augmentation.readings} cases among {augmentation.samples}; guessing gives "
            f"{augmentation.chance:.1%}.",
            where="loader",
            severity="bug" if above < 0.6 * times_chance else "suspect",
            evidence={
                "recognised": augmentation.recognised,
                "chance": augmentation.chance,
                "p": augmentation.p,
                "threshold": p_value,
                "source": "37 reasons, 13; binomial test against guessing",
            },
            remedies=(
                Remedy("Look at what the network receives.", "nbdebug.show_batch(loader)"),
                Remedy("Weaken the augmentation until a person can name the label again."),
            ),
            exhibit=Bars(("recognised", "guessing"), (augmentation.recognised, augmentation.chance)),
        )
