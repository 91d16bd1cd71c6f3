"""Many wrong labels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.stats import beta

from nbdebug.errors import NotApplicable
from nbdebug.evidence import Baselines
from nbdebug.exhibit import Table
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["noisy_labels"]


@check
def noisy_labels(
    simple: Baselines,
    *,
    noise: float = 0.05,  # share of wrong labels; public benchmarks hold 3.4 % on average (Northcutt and others, 2021)
    gain: float = 0.3,  # of the way from chance to perfect: a task that simple models hardly predict cannot be judged
    flat: float = 0.7,  # errors of the surest third against all; classes that overlap give far less than 1
    samples: int = 100,  # the test below has the number of samples in it; with fewer it never speaks
) -> Iterator[Finding]:
    """Many labels seem to be wrong.

    Simple models predict each label from the other samples. Where classes overlap, they err where they are unsure;
    wrong labels make them err as often where they are sure. So the errors of the surest third count.

    Why it matters: the model has to learn wrong answers by heart, which takes capacity, slows it down, and sets a floor
    to the error that can be reached.

    What to try: look at the samples listed first; ask a second person to label them; for what stays, use a loss that
    tolerates it, such as label smoothing.
    """
    if simple.kind != "classes":
        raise NotApplicable("the targets are not classes")
    if simple.size < samples:
        raise NotApplicable(f"{simple.size} samples are too few to tell wrong labels from hard ones ({samples} needed)")
    wrong = simple.predicted != simple.labels
    surest = np.argsort(-simple.sure, kind="stable")[: len(wrong) // 3]
    errors, count = int(wrong[surest].sum()), len(surest)
    least = float(beta.ppf(0.001, errors, count - errors + 1)) if errors else 0.0
    if simple.gain < gain or least < noise or errors / count < flat * wrong.mean():
        return
    yield _finding(simple, wrong, errors / count, noise)


def _finding(simple: Baselines, wrong: np.ndarray, surely: float, limit: float) -> Finding:
    listed = sorted(np.flatnonzero(wrong), key=lambda i: simple.given[i] - simple.sure[i])
    return Finding(
        f"About {wrong.mean():.0%} of {simple.size} labels contradict what similar samples are called ({simple.best}), "
        f"and just as many ({surely:.0%}) where the prediction is surest; the likeliest are samples "
        f"{', '.join(str(simple.indices[i]) for i in listed[:5])}.",
        where="loader",
        severity="suspect",
        evidence={
            "errors where surest": surely,
            "errors in all": float(wrong.mean()),
            "indices": [simple.indices[i] for i in listed[:50]],
            "threshold": limit,
            "source": "Northcutt and others, Confident Learning and Pervasive Label Errors (2021)",
        },
        remedies=(
            Remedy("Look at the samples listed, with their labels."),
            Remedy("Let the loss tolerate some wrong labels.", "nn.CrossEntropyLoss(label_smoothing=0.1)"),
        ),
        exhibit=Table(
            ("index", "label", "looks like", "sure"),
            tuple(_row(simple, int(i)) for i in listed[:20]),
            "Labels to look at first",
            samples=True,
        ),
    )


def _row(simple: Baselines, i: int) -> tuple[int, str, str, float]:
    given, seen = simple.classes[int(simple.labels[i])], simple.classes[int(simple.predicted[i])]
    return simple.indices[i], f"{given:g}", f"{seen:g}", round(float(simple.sure[i]), 2)
