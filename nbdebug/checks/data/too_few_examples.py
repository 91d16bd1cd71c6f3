"""The dataset is too small."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.loader_sweep import LoaderSweep

__all__ = ["too_few_examples"]


@check
def too_few_examples(
    sweep: LoaderSweep,
    *,
    per_class: int = 10,  # 37 reasons, 9, recommends a thousand; ten is far too few by any rule
    at_all: int = 100,  # 37 reasons, 9, recommends a thousand for each class; our choice
    parameters: int = 1000,  # per sample; networks are often larger than their data, but not by this much; our choice
) -> Iterator[Finding]:
    """There are far too few samples for the number of classes or parameters.

    This is a note, because a small dataset can be enough: with a pretrained model, or to test whether the model can
    learn at all.

    Why it matters: a network with many parameters overfits a small dataset and does not generalize.

    What to try: collect or augment data, start from weights pretrained on similar data, use a smaller model, and
    evaluate with cross-validation.
    """
    sweep.require()
    total = sweep.total if sweep.total is not None else sweep.seen if sweep.way == "all" else None
    evidence = {"samples": total or sweep.seen, "trained parameters": sweep.trainable, "source": "37 reasons, 9"}
    remedy = (Remedy("Start from a model pretrained on similar data, or use a smaller one."),)
    if total is not None and total < at_all:
        says = f"The dataset has only {total} samples."
        yield Finding(says, "loader", "note", {**evidence, "threshold": at_all}, remedy)
    elif total is not None and sweep.trainable > parameters * total:
        says = f"The model has {sweep.trainable:,} trainable parameters but only {total} training samples."
        yield Finding(says, "loader", "note", {**evidence, "threshold": parameters}, remedy)
    for name, labels in sweep.class_labels().items():
        values, counts = np.unique(labels[labels >= 0], return_counts=True)
        scale = (total or sweep.seen) / sweep.seen
        few = values[counts * scale < per_class]
        if len(few) and len(values) > 1:
            named = ", ".join(str(v) for v in few[:8])
            says = f"{len(few)} of {len(values)} classes of `{name}` have fewer than {per_class} samples: {named}."
            yield Finding(says, name, "note", {**evidence, "threshold": per_class}, remedy)
