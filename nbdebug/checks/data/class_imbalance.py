"""Rare classes without compensation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist

import numpy as np

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.class_weighting import ClassWeighting
from nbdebug.evidence.loader_sweep import LoaderSweep

__all__ = ["class_imbalance"]


REMEDIES = (
    Remedy(
        "Weight the loss by inverse class frequency.",
        "nn.CrossEntropyLoss(weight=len(y) / (classes * torch.bincount(y)))",
        Patch("weigh-classes"),
    ),
    Remedy("Oversample rare classes.", "WeightedRandomSampler(1 / torch.bincount(y)[y], len(y))"),
)


@check(explains=("loss-metric-disagree",), basis="statistic")
def class_imbalance(
    sweep: LoaderSweep,
    weighting: ClassWeighting | None,
    *,
    ratio: float = 10.0,  # SageMaker Debugger: ClassImbalance
    alpha: float = 0.01,  # probability of a false alarm, over all classes; our choice
    weighted: float = 1.5,  # ratio of gradients above which the loss favors the rare class; our choice
    eased: float = 0.5,  # relative gradient of an easy sample, below which the loss counts as a focal loss; our choice
    least: int = 50,  # samples; our choice
) -> Iterator[Finding]:
    """Some classes are far rarer than others, and neither the loss nor the sampler compensates.

    Classes are counted in the batches that the loader yields, so a balancing sampler is taken into account. To see
    whether the loss weights classes, nbdebug gives it the same prediction for samples of every class and compares the
    gradients; a loss that down-weights easy samples (focal loss) counts as well.

    Why it matters: a model that always predicts the majority class has a low loss and a high accuracy, and training
    stays there.

    What to try: weight the loss by inverse class frequency, or oversample rare classes; evaluate with a metric that
    treats classes equally, such as balanced accuracy or the F1 score.
    """
    sweep.require(least)
    known = sweep.class_labels()
    if not known:
        raise NotApplicable("the targets are not one class per sample")
    for name, labels in known.items():
        values, counts = np.unique(labels[labels >= 0], return_counts=True)
        if len(values) < 2:
            continue
        least, most = int(counts.min()), int(counts.max())
        tests = 1 if sweep.way == "all" else len(values)  # in a subset one of many classes is rare by chance
        margin = NormalDist().inv_cdf(1 - alpha / tests) * math.sqrt(1 / least + 1 / most)
        lower_bound = most / least * math.exp(-margin)
        rare, common = int(values[counts.argmin()]), int(values[counts.argmax()])
        compensated = _compensates(weighting, rare, common, weighted, eased)
        if lower_bound > ratio and compensated is not True:
            reason = weighting.reason if weighting is not None else "not tested"
            unknown = f"; whether the loss compensates is unknown ({reason})."
            tail = unknown if compensated is None else ", and the loss does not compensate."
            yield Finding(
                f"Class {common} is {most / least:.0f} times as frequent as class {rare} ({most} vs. {least} of "
                f"{len(labels)} samples){tail}",
                where=name,
                severity="note" if compensated is None else "suspect",
                evidence={
                    "ratio": most / least,
                    "ratio, lower bound": lower_bound,
                    "samples": len(labels),
                    "pull at the classes": weighting.pulls if weighting is not None else {},
                    "threshold": ratio,
                    "source": "SageMaker Debugger; 37 reasons, 8",
                },
                remedies=REMEDIES,
                exhibit=Bars(tuple(map(str, values[:50])), tuple(map(float, counts[:50])), title="Samples per class"),
            )


def _compensates(
    weighting: ClassWeighting | None, rare: int, common: int, weighted: float, eased: float
) -> bool | None:
    """Return whether the loss compensates; None where that is unknown."""
    if weighting is None or rare not in weighting.pulls or common not in weighting.pulls:
        return None
    if weighting.discount is not None and weighting.discount < eased:
        return True
    gradient = weighting.pulls[common]
    return weighting.pulls[rare] > weighted * gradient if gradient > 0 else True
