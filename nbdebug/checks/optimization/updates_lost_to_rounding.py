"""Updates too small for the precision of the weights."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.step_events import OptimizerSteps, StepEvents

__all__ = ["updates_lost_to_rounding"]

SURELY = 0.9  # of the values: a fault whatever the training comes to; our choice


@check(basis="statistic", explains=("cannot-overfit-batch", "learning-rate-too-low", "loss-flat"))
def updates_lost_to_rounding(
    events: StepEvents,
    *,
    share: float = 0.5,  # of the values that have a gradient; a few percent are lost in any training; our choice
    steps: int = 3,  # of the optimizer; our choice
) -> Iterator[Finding]:
    """Weights stored in half precision do not change, because the update is smaller than their rounding.

    nbdebug takes training steps on a copy and counts the values that have a gradient and are bit for bit the same
    after `optimizer.step()`. Optimizers that keep a copy of the weights in full precision are left out.

    Why it matters: bfloat16 has three significant digits. An update below 0.2 % of a weight is rounded away, in every
    step, whatever the gradient says.

    What to try: keep the weights in float32 and use autocast for the computation, or raise the learning rate.
    """
    for optimizer in events.optimizers:
        lost = sorted(optimizer.lost)
        if len(lost) >= steps and optimizer.rate > 0 and lost[len(lost) // 2] >= share:
            yield _finding(optimizer, lost[len(lost) // 2], share)


def _finding(optimizer: OptimizerSteps, lost: float, share: float) -> Finding:
    return Finding(
        f"{lost:.0%} of the {optimizer.precision} weights with a gradient do not change in a step of "
        f"`{optimizer.name}`: at lr {optimizer.rate:g} the updates are smaller than the rounding.",
        where=optimizer.name,
        severity="suspect",
        is_contradiction=lost >= SURELY,  # a step that changes next to nothing, at any loss
        evidence={
            "share unchanged": lost,
            "learning rate": optimizer.rate,
            "precision": optimizer.precision,
            "threshold": share,
            "source": "rounding to 8 (bfloat16) or 11 (float16) bits",
        },
        remedies=(
            Remedy(
                "Keep the weights in float32 and compute under autocast.",
                'model.float()\nwith torch.autocast("cuda", torch.bfloat16):\n    loss = loss_fn(model(x), y)',
                Patch("full-precision-updates") if optimizer.is_main else None,
            ),
        ),
    )
