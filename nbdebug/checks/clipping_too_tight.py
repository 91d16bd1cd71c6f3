"""Clipping that leaves nothing of the gradient."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nbdebug.errors import NotApplicable
from nbdebug.evidence import Clipping, LossCourse
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["clipping_too_tight"]

LEARNED, EARLY = 0.9, 100  # of the first loss, and steps before which it may not have fallen so far


@check(explains=("batch-not-memorised", "loss-flat", "update-ratio-off"))
def clipping_too_tight(
    clipping: Clipping,
    course: LossCourse | None,
    *,
    kept: float = 1e-3,  # clipping at 1.0 keeps more than 1 %
) -> Iterator[Finding]:
    """Gradient clipping cuts nearly all of every gradient away.

    nbdebug compares the gradient after backward with what the optimizer is given, in your own training step or in a
    training that it watches. A constant factor, with which a loss that was scaled is put right, is no clipping where
    the loss falls.

    Why it matters: clipping is meant for rare large gradients. When it cuts every one to almost nothing, an optimizer
    without normalisation of its own hardly moves.

    What to try: print the gradient norm that clip_grad_norm_ returns, and clip at a few times its usual value.
    """
    pairs = clipping.pairs
    if not pairs:
        raise NotApplicable("no optimizer step with a gradient was seen")
    shares = sorted(used / raw for raw, used in pairs)
    is_well = course is not None and (course.count < EARLY or course.now < LEARNED * course.start)
    if shares[-1] < kept and not (is_well and _is_scaling(pairs)):
        raw, used = pairs[-1]
        yield Finding(
            f"Every gradient is cut to at most {shares[-1]:.1e} of its norm before the step (the last from {raw:.3g} "
            f"to {used:.3g}).",
            where=clipping.place,
            severity="suspect",
            evidence={"share kept": shares[-1], "threshold": kept, "source": "37 reasons, 35", "steps": len(pairs)},
            remedies=(
                Remedy(
                    "Clip at the size that gradients usually have.",
                    f"torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm={raw:.1g})",
                    Patch("plain-loop", {"clip": raw}),
                ),
            ),
            exhibit=Bars(("after backward", "used by the step"), (raw, used), title="Gradient norm", log=True),
        )


def _is_scaling(pairs: Sequence[tuple[float, float]]) -> bool:
    """Whether each gradient was multiplied by the same number, whatever its norm."""
    shares = [used / raw for raw, used in pairs]
    norms = [raw for raw, _ in pairs]
    return max(shares) < 1.01 * min(shares) and max(norms) > 1.05 * min(norms)
