"""Many labels appear to be wrong."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.stats import beta

from nbdebug.charts import Table
from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.baselines import Baselines

__all__ = ["noisy_labels"]


@check(basis="statistic")
def noisy_labels(
    simple: Baselines,
    *,
    noise: float = 0.05,  # fraction of wrong labels; public benchmarks have 3.4 % on average (Northcutt et al., 2021)
    gain: float = 0.3,  # from chance (0) to perfect (1): less is no ground to judge labels; our choice
    flat: float = 0.7,  # error rate of the most confident third over all; overlapping classes give far less; our choice
    alpha: float = 0.001,  # of the lower confidence bound of the errors where it is surest; our choice
    samples: int = 100,  # with fewer the confidence bound below is never reached
) -> Iterator[Finding]:
    """Many labels appear to be wrong.

    Simple models predict each label from the other samples (cross-validation). Where classes overlap, they are wrong on
    low-confidence predictions; wrong labels make them wrong just as often on high-confidence ones. So the error rate of
    the most confident third counts.

    Why it matters: the model has to overfit wrong labels, which takes capacity, slows training down, and puts a floor
    under the achievable error.

    What to try: review the samples listed first; have a second person label them; for the rest, use a loss that
    tolerates label noise, such as label smoothing.
    """
    if simple.kind != "classes":
        raise NotApplicable("the targets are not class labels")
    if simple.size < samples:
        raise NotApplicable(f"{simple.size} samples are too few to detect wrong labels ({samples} needed)")
    wrong = simple.predicted != simple.labels
    confident = np.argsort(-simple.sure, kind="stable")[: len(wrong) // 3]
    errors, count = int(wrong[confident].sum()), len(confident)
    lower_bound = float(beta.ppf(alpha, errors, count - errors + 1)) if errors else 0.0
    if simple.gain < gain or lower_bound < noise or errors / count < flat * wrong.mean():
        return
    yield _finding(simple, wrong, errors / count, noise)


def _finding(simple: Baselines, wrong: np.ndarray, confident_error: float, limit: float) -> Finding:
    listed = sorted(np.flatnonzero(wrong), key=lambda i: simple.given[i] - simple.sure[i])
    return Finding(
        f"About {wrong.mean():.0%} of {simple.size} labels disagree with a simple model ({simple.best}), and "
        f"{confident_error:.0%} where it is most confident. Review samples "
        f"{', '.join(str(simple.indices[i]) for i in listed[:5])} first.",
        where="loader",
        severity="suspect",
        evidence={
            "errors where surest": confident_error,
            "errors in all": float(wrong.mean()),
            "indices": [simple.indices[i] for i in listed[:50]],
            "threshold": limit,
            "source": "Northcutt et al., Confident Learning and Pervasive Label Errors (2021)",
        },
        remedies=(
            Remedy("Review the listed samples and their labels."),
            Remedy("Use a loss that tolerates label noise.", "nn.CrossEntropyLoss(label_smoothing=0.1)"),
        ),
        exhibit=Table(
            ("index", "label", "predicted", "confidence"),
            tuple(_row(simple, int(i)) for i in listed[:20]),
            "Labels to review first",
            samples=True,
        ),
    )


def _row(simple: Baselines, i: int) -> tuple[int, str, str, float]:
    given, seen = simple.classes[int(simple.labels[i])], simple.classes[int(simple.predicted[i])]
    return simple.indices[i], f"{given:g}", f"{seen:g}", round(float(simple.sure[i]), 2)
