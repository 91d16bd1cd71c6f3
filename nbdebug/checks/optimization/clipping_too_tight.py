"""Gradient clipping that removes almost the whole gradient."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.recorded.loss_course import LossCourse
from nbdebug.evidence.training_loop import Clipping

__all__ = ["clipping_too_tight"]


@check(basis="statistic", explains=("cannot-overfit-batch", "loss-flat", "update-ratio-off"))
def clipping_too_tight(
    clipping: Clipping,
    course: LossCourse | None,
    *,
    kept: float = 1e-3,  # max_norm=1.0 usually keeps more than 1 %
    learned: float = 0.9,  # of the initial loss, where the gradients are only scaled; our choice
    early: int = 100,  # steps that the loss may take to fall that far; our choice
    even: float = 1.01,  # largest over smallest share kept: one factor for all steps; our choice
    varied: float = 1.05,  # largest over smallest norm: clipping would not keep one share of these; our choice
) -> Iterator[Finding]:
    """Gradient clipping removes almost all of every gradient.

    nbdebug compares the gradient after backward() with the gradient that the optimizer receives, in your own training
    step or in a training run that it watches. A constant factor, as used to unscale a scaled loss, is not clipping
    while the loss falls.

    Why it matters: clipping is meant for rare large gradients. When it shrinks all of them to almost nothing, an
    optimizer that does not normalize gradients, such as SGD, hardly moves.

    What to try: print the gradient norm that clip_grad_norm_ returns, and clip at a few times its typical value.
    """
    pairs = clipping.pairs
    if not pairs:
        raise NotApplicable("no optimizer step with a gradient was observed")
    shares = sorted(used / raw for raw, used in pairs)
    is_learning = course is not None and (course.count < early or course.now < learned * course.start)
    if shares[-1] < kept and not (is_learning and _is_scaling(pairs, even, varied)):
        raw, used = pairs[-1]
        yield Finding(
            f"Clipping reduces every gradient to at most {shares[-1]:.1e} of its norm before the optimizer step (last "
            f"step: {raw:.3g} to {used:.3g}).",
            where=clipping.place,
            severity="suspect",
            evidence={"share kept": shares[-1], "threshold": kept, "source": "37 reasons, 35", "steps": len(pairs)},
            remedies=(
                Remedy(
                    "Clip at the typical gradient norm.",
                    f"torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm={raw:.1g})",
                    Patch("plain-loop", {"clip": raw}),
                ),
            ),
            exhibit=Bars(("after backward", "at the step"), (raw, used), title="Gradient norm", log=True),
        )


def _is_scaling(pairs: Sequence[tuple[float, float]], even: float, varied: float) -> bool:
    """Return whether every gradient was multiplied by the same factor, whatever its norm."""
    shares = [used / raw for raw, used in pairs]
    norms = [raw for raw, _ in pairs]
    return max(shares) < even * min(shares) and max(norms) > varied * min(norms)
