"""Weight norms keep growing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.recorded.loss_course import LossCourse
from nbdebug.evidence.recorded.weights import WeightGrowth

__all__ = ["weights_growing"]


@check
def weights_growing(
    growth: WeightGrowth,
    course: LossCourse | None,
    *,
    factor: float = 10.0,  # normal runs from a usual initialization stay below 5
    recent: float = 1.05,  # over the last quarter: still growing; our choice
    least: int = 100,  # steps: weights may grow a lot early in training; our choice
    learned: float = 0.9,  # of the initial loss: below it, and growing ever more slowly, it is a note; our choice
) -> Iterator[Finding]:
    """The weights of a layer have grown many times over, and still grow.

    nbdebug watches your training and compares the norm of every weight matrix with its initial norm, and with a usual
    initialization for its shape, because some start near zero on purpose. Where the loss falls toward zero and the
    growth slows down, as where a single layer becomes confident in its predictions, it is a note.

    Why it matters: activations and gradients grow with the weights, until one of them overflows; each optimizer step
    matters less and less.

    What to try: a lower learning rate, weight decay, normalization between the layers; check whether gradients are
    zeroed in every step, and whether the loss can always be lowered by larger outputs.
    """
    if growth.steps < least:
        raise NotApplicable(f"{growth.steps} steps were recorded; {least} are needed")
    grown = [m for m in growth.matrices if m[2] > factor * m[1] and m[3] > recent and m[2] > factor * m[4]]
    if not grown:
        return
    name, first, last, late, _ = max(grown, key=lambda matrix: matrix[2] / matrix[1])
    yield Finding(
        f"The norm of `{name}` grew from {first:.3g} to {last:.3g} in {growth.steps} steps, by {late - 1:.0%} in the "
        f"last quarter"
        + (f"; {len(grown) - 1} more weight{'s' * (len(grown) > 2)} grew as well." if len(grown) > 1 else "."),
        where=name,
        severity="note" if _slows_down(grown, course, learned) else "suspect",
        evidence={
            "first norm": first,
            "last norm": last,
            "growth in the last quarter": late,
            "matrices": len(grown),
            "threshold": factor,
            "source": "compared with its initial norm",
        },
        remedies=(
            Remedy("Divide the learning rate by 10.", 'for group in optimizer.param_groups:\n    group["lr"] /= 10'),
            Remedy("Use weight decay.", "torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=1e-2)"),
        ),
        exhibit=Bars(
            tuple(m[0] for m in growth.matrices),
            tuple(m[2] / m[1] for m in growth.matrices),
            title="Weight norm growth",
            log=True,
        ),
    )


def _slows_down(
    grown: Sequence[tuple[str, float, float, float, float]], course: LossCourse | None, learned: float
) -> bool:
    """Return whether the loss falls toward zero and the growth slows down; divergence keeps its rate."""
    if course is None or not 0 <= course.now < learned * course.start:
        return False
    return all(late < (last / first) ** 0.25 for _, first, last, late, _ in grown)
