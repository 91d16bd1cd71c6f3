"""Updates out of proportion to the weights."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import UpdateRatios
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["update_ratio_off"]

MOST = 1e4  # times the learning rate: more is no slip of a digit


@check(
    explains=(
        "batch-not-memorised",
        "non-finite-loss",
        "loss-diverges",
        "loss-spikes",
        "weights-growing",
        "predictions-unstable",
        "dead-units",
    )
)
def update_ratio_off(
    run: UpdateRatios,
    *,
    too_large: float = 0.3,  # TheDeepChecker: 1e-1; three times that, and only while nothing is learned
    too_small: float = 1e-6,  # TheDeepChecker: 1e-4; small ones are legitimate in fine-tuning
) -> Iterator[Finding]:
    """The steps are out of proportion to the weights.

    nbdebug trains a copy for a short while, or watches your own training, and measures for each weight matrix how much
    one step changes it. Biases, norms and the first steps are left out.

    Why it matters: a healthy step changes a weight by about a thousandth. Far more overwrites what was learned, far
    less learns nothing.

    What to try: change the learning rate by the same factor, or look at why this layer's gradients differ from its
    neighbours'.
    """
    known = [(name, ratio) for name, ratio in run.ratios if math.isfinite(ratio)]
    # Where others move, what does not is frozen or nothing comes to it: no learning rate changes that.
    known = [(name, ratio) for name, ratio in known if ratio > 0] or known
    if not known:
        raise NotApplicable("no weight matrix was trained")
    middle = sorted(ratio for _, ratio in known)[len(known) // 2]
    learned = run.loss_after < 0.9 * run.loss_before
    if middle > too_large and not learned:
        what, severity = "a large part of the weights is overwritten in every step", "suspect"
    elif middle < too_small:
        what, severity = "the weights hardly move", "note"
    else:
        return
    yield Finding(
        f"One step changes the weights by {middle:.1e} of their size (median of {len(known)} matrices); about 1e-3 is "
        f"usual: {what}.",
        where=max(known, key=lambda item: abs(math.log10(max(item[1], 1e-12)) + 3))[0],
        severity=severity,  # type: ignore[arg-type]
        evidence={
            "update/weight": middle,
            "threshold": (too_small, too_large),
            "source": "37 reasons, 33; TheDeepChecker",
        },
        remedies=(_remedy(1e-3 / max(middle, 1e-12)),),
        exhibit=Bars(
            tuple(name for name, _ in known),
            tuple(ratio for _, ratio in known),
            title="Update / weight",
            log=True,
            band=(1e-4, 1e-1),
        ),
    )


def _remedy(factor: float) -> Remedy:
    if factor > MOST:
        return Remedy(
            "Look for the reason first: a rate or a schedule that came to nothing, clipping, gradients that hardly "
            "come through. No learning rate makes up for that."
        )
    return Remedy(
        f"Multiply the learning rate by about {factor:.0e}.",
        f'for group in optimizer.param_groups:\n    group["lr"] *= {factor:.0e}',
        Patch("multiply-learning-rate", {"factor": factor}),
    )
