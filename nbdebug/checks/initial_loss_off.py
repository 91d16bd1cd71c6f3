"""The first loss against what guessing would give."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import FirstPass
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["initial_loss_off"]


@check
def initial_loss_off(
    first: FirstPass,
    *,
    too_high: float = 3.0,  # TheDeepChecker: 2 times ln C; a factor more, because wide heads start noisy
) -> Iterator[Finding]:
    """The first loss is far above what guessing would give.

    A model that knows nothing should say that nothing is known: all classes equally likely, or the mean of the
    targets. nbdebug hands exactly that to the loss and compares.

    Why it matters: a first loss far above chance means that the model begins by being confidently wrong. The first
    steps are spent on unlearning that, and with large inputs or weights they may never end.

    What to try: initialise the last layer small, normalise inputs and targets, and look for a missing scaling.
    """
    if first.chance_loss is None:
        raise NotApplicable(f"the loss has no known value at chance: {first.chance_reason}")
    if not math.isfinite(first.loss) or first.chance_loss <= 0:
        raise NotApplicable("the first loss is not a positive finite number")
    if first.loss > too_high * first.chance_loss:
        yield Finding(
            f"The first loss is {first.loss:.3g}; guessing ({first.chance_reason}) would give {first.chance_loss:.3g}.",
            where=first.head,
            severity="suspect",
            evidence={
                "first loss": first.loss,
                "loss at chance": first.chance_loss,
                "threshold": too_high,
                "source": "37 reasons, 17",
            },
            remedies=(
                Remedy(
                    "Start the last layer small.", "nn.init.normal_(head.weight, std=0.01); nn.init.zeros_(head.bias)"
                ),
            ),
            exhibit=Bars(("first loss", "chance"), (first.loss, first.chance_loss)),
        )
