"""Accumulated gradients that are summed instead of averaged."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.step_events import StepEvents

__all__ = ["accumulation_not_averaged"]

LOOP = """for part in parts:
    (loss_fn(model(part.x), part.y) / len(parts)).backward()
optimizer.step()
optimizer.zero_grad()"""


@check(basis="statistic", explains=("learning-rate-too-high", "update-ratio-off"))
def accumulation_not_averaged(
    events: StepEvents,
    *,
    passes: int = 2,  # backward passes of one line of code per step: two are accumulation
    steps: int = 2,  # optimizer steps that have to agree; our choice
) -> Iterator[Finding]:
    """Several backward passes are accumulated for one step, and the loss is not divided by their number.

    nbdebug calls your training step on a copy and counts, for each optimizer step, the backward passes of the same line
    of code whose gradients it uses, and whether that loss, or its gradients before the step, are divided by anything.

    Why it matters: accumulation adds gradients. Without the division, a step over eight micro-batches is eight times
    as large as that over one batch of the same samples, and the learning rate no longer means what it did.

    What to try: divide the loss by the number of accumulation steps before `backward()`.
    """
    if not events.is_step:
        raise NotApplicable("no train_step was passed, so no accumulation was observed")
    for optimizer in events.optimizers:
        counts = optimizer.passes
        if len(counts) >= steps and min(counts) >= passes and min(counts) == max(counts) and not optimizer.divided:
            yield Finding(
                f"`{optimizer.name}` steps with the sum of {counts[0]} backward passes, and the loss is not divided "
                f"by {counts[0]}.",
                where=optimizer.name,
                severity="suspect",
                evidence={
                    "backward passes per step": counts[0],
                    "steps": len(counts),
                    "threshold": passes,
                    "source": "PyTorch adds gradients",
                },
                remedies=(
                    Remedy(
                        "Divide the loss by the number of accumulation steps.",
                        LOOP,
                        Patch("average-accumulation", {"passes": counts[0]}) if optimizer.is_main else None,
                    ),
                ),
            )
