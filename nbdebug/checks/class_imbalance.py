"""Rare classes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist

import numpy as np

from nbdebug.errors import NotApplicable
from nbdebug.evidence import ClassWeighting, LoaderSweep
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["class_imbalance"]

REMEDIES = (
    Remedy(
        "Weigh the loss.",
        "nn.CrossEntropyLoss(weight=len(y) / (classes * torch.bincount(y)))",
        Patch("weigh-classes"),
    ),
    Remedy("Draw rare classes more often.", "WeightedRandomSampler(1 / torch.bincount(y)[y], len(y))"),
)


@check(explains=("loss-metric-disagree",))
def class_imbalance(
    sweep: LoaderSweep,
    weighting: ClassWeighting | None,
    *,
    ratio: float = 10.0,  # SageMaker Debugger: ClassImbalance
    alpha: float = 0.01,  # chance of a false alarm, over all classes
    weighted: float = 1.5,  # by which the loss pulls harder at the rare class
    eased: float = 0.5,  # of the pull of an easy sample, below which the loss cares for hard ones as focal loss does
) -> Iterator[Finding]:
    """Some classes are far rarer than others, and neither the loss nor the sampler makes up for it.

    What counts is what the loader draws, so a sampler that balances the classes is seen. Whether the loss weighs
    classes is found by giving it the same answer for samples of every class and comparing the gradients; a loss that
    discounts easy samples counts as well.

    Why it matters: a model that always answers with the common class has a good loss and a good accuracy, and training
    stays there.

    What to try: weigh the loss by the inverse frequency, or draw rare classes more often; judge by a metric that treats
    classes alike, such as balanced accuracy or the F1 score.
    """
    sweep.require(50)
    known = sweep.class_labels()
    if not known:
        raise NotApplicable("the targets are not one class for each sample")
    for name, labels in known.items():
        values, counts = np.unique(labels[labels >= 0], return_counts=True)
        if len(values) < 2:
            continue
        least, most = int(counts.min()), int(counts.max())
        tests = 1 if sweep.way == "all" else len(values)  # in a part of the data one class of many is rare by chance
        doubt = NormalDist().inv_cdf(1 - alpha / tests) * math.sqrt(1 / least + 1 / most)
        sure = most / least * math.exp(-doubt)
        rare, common = int(values[counts.argmin()]), int(values[counts.argmax()])
        handled = _handled(weighting, rare, common, weighted, eased)
        if sure > ratio and handled is not True:
            reason = weighting.reason if weighting is not None else "it was not tried"
            unseen = f"; whether the loss makes up for it could not be seen ({reason})."
            tail = unseen if handled is None else ", and the loss does not make up for it."
            yield Finding(
                f"Class {common} is drawn {most / least:.0f} times as often as class {rare} ({most} against {least} of "
                f"{len(labels)} samples drawn){tail}",
                where=name,
                severity="note" if handled is None else "suspect",
                evidence={
                    "ratio": most / least,
                    "ratio, lower bound": sure,
                    "samples": len(labels),
                    "pull at the classes": weighting.pulls if weighting is not None else {},
                    "threshold": ratio,
                    "source": "SageMaker Debugger; 37 reasons, 8",
                },
                remedies=REMEDIES,
                exhibit=Bars(
                    tuple(map(str, values[:50])), tuple(map(float, counts[:50])), title="Samples of each class"
                ),
            )


def _handled(weighting: ClassWeighting | None, rare: int, common: int, weighted: float, eased: float) -> bool | None:
    """Say whether the loss makes up for it; None where that is not known."""
    if weighting is None or rare not in weighting.pulls or common not in weighting.pulls:
        return None
    if weighting.discount is not None and weighting.discount < eased:
        return True
    pull = weighting.pulls[common]
    return weighting.pulls[rare] > weighted * pull if pull > 0 else True
