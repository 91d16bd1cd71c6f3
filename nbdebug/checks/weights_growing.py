"""Weights that grow and grow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nbdebug.errors import NotApplicable
from nbdebug.evidence import LossCourse, WeightGrowth
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["weights_growing"]

LEARNED = 0.9  # of the first loss


@check
def weights_growing(
    growth: WeightGrowth,
    course: LossCourse | None,
    *,
    factor: float = 10.0,  # healthy trainings from a usual start stay below 5
    recent: float = 1.05,  # over the last quarter: it goes on
    least: int = 100,  # steps: at first, weights may have a long way to go
) -> Iterator[Finding]:
    """The weights of a layer have grown many times over, and still grow.

    nbdebug watches your training and compares the norm of every weight matrix with its first one, and with what is a
    usual beginning for a matrix of its shape, because some begin near zero on purpose. Where the loss falls towards
    zero and the growth slows down, as where a single layer learns to be sure of its answers, it is a note.

    Why it matters: with the weights grow activations and gradients, until one of them overflows; what the optimizer
    does in one step matters less and less.

    What to try: a lower learning rate, weight decay, normalisation between the layers; look at whether gradients are
    cleared in every step, and at a loss that can always be lowered by larger outputs.
    """
    if growth.steps < least:
        raise NotApplicable(f"{growth.steps} steps were recorded; {least} are needed")
    grown = [m for m in growth.matrices if m[2] > factor * m[1] and m[3] > recent and m[2] > factor * m[4]]
    if not grown:
        return
    name, first, last, late, _ = max(grown, key=lambda matrix: matrix[2] / matrix[1])
    yield Finding(
        f"The norm of {name} grew from {first:.3g} to {last:.3g} in {growth.steps} steps, and by {late - 1:.0%} in the "
        f"last quarter of them" + (f"; so did {len(grown) - 1} more." if len(grown) > 1 else "."),
        where=name,
        severity="note" if _is_tame(grown, course) else "suspect",
        evidence={
            "first norm": first,
            "last norm": last,
            "growth in the last quarter": late,
            "matrices": len(grown),
            "threshold": factor,
            "source": "compared with its own beginning",
        },
        remedies=(
            Remedy("Lower the learning rate tenfold.", 'for group in optimizer.param_groups:\n    group["lr"] /= 10'),
            Remedy("Let weights decay.", "torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=1e-2)"),
        ),
        exhibit=Bars(
            tuple(m[0] for m in growth.matrices),
            tuple(m[2] / m[1] for m in growth.matrices),
            title="Growth of the weight norms",
            log=True,
        ),
    )


def _is_tame(grown: Sequence[tuple[str, float, float, float, float]], course: LossCourse | None) -> bool:
    """Whether the loss falls towards zero and the weights grow ever less; what runs away keeps its factor."""
    if course is None or not 0 <= course.now < LEARNED * course.start:
        return False
    return all(late < (last / first) ** 0.25 for _, first, last, late, _ in grown)
