"""Parameter updates are too large or too small relative to the weights."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.short_run import UpdateRatios

__all__ = ["update_ratio_off"]

MAX_FACTOR = 1e4  # times the learning rate: a larger factor is not a typo in it


@check(
    basis="statistic",
    explains=(
        "cannot-overfit-batch",
        "non-finite-loss",
        "loss-diverges",
        "loss-spikes",
        "weights-growing",
        "predictions-unstable",
        "dead-units",
    ),
)
def update_ratio_off(
    run: UpdateRatios,
    *,
    too_large: float = 0.3,  # TheDeepChecker: 1e-1; three times that, and only while nothing is learned
    too_small: float = 1e-6,  # TheDeepChecker: 1e-4; small ones are legitimate in fine-tuning
    learned: float = 0.9,  # of the loss before: what falls below it learns at any ratio; our choice
) -> Iterator[Finding]:
    """The update-to-weight ratio is far too large or too small.

    nbdebug trains a copy for a short while, or watches your own training, and measures the relative update of each
    weight matrix in one step. Biases, normalization layers and the first steps are left out.

    Why it matters: a typical step changes a weight by about a thousandth. Much larger updates overwrite what was
    learned; much smaller ones learn nothing.

    What to try: change the learning rate by the same factor, or find out why the gradients of this layer differ from
    its neighbors'.
    """
    known = [(name, ratio) for name, ratio in run.ratios if math.isfinite(ratio)]
    # Where others change, an unchanged matrix is frozen or gets no gradient: no learning rate fixes that.
    known = [(name, ratio) for name, ratio in known if ratio > 0] or known
    if not known:
        raise NotApplicable("no weight matrix was trained")
    typical = sorted(ratio for _, ratio in known)[len(known) // 2]
    falls = run.loss_after < learned * run.loss_before
    if typical > too_large and not falls:
        what, severity = "far too large, and the loss does not fall", "suspect"
    elif typical < too_small:
        what, severity = "the weights hardly change", "note"
    else:
        return
    yield Finding(
        f"One step changes the weights by {typical:.2g} of their norm (median of {len(known)} matrices; usual: 1e-3): "
        f"{what}.",
        where=max(known, key=lambda item: abs(math.log10(max(item[1], 1e-12)) + 3))[0],
        severity=severity,  # type: ignore[arg-type]
        evidence={
            "update/weight": typical,
            "threshold": (too_small, too_large),
            "source": "37 reasons, 33; TheDeepChecker",
        },
        remedies=(_remedy(1e-3 / max(typical, 1e-12)),),
        exhibit=Bars(
            tuple(name for name, _ in known),
            tuple(ratio for _, ratio in known),
            title="Update / weight",
            log=True,
            band=(1e-4, 1e-1),
        ),
    )


def _remedy(factor: float) -> Remedy:
    if factor > MAX_FACTOR:
        return Remedy(
            "Find the cause first: a learning rate or schedule at zero, clipping, or vanishing gradients. "
            "No learning rate compensates for that."
        )
    return Remedy(
        f"Multiply the learning rate by about {factor:.0e}.",
        f'for group in optimizer.param_groups:\n    group["lr"] *= {factor:.0e}',
        Patch("multiply-learning-rate", {"factor": factor}),
    )
