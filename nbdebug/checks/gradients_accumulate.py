"""Gradients that are never cleared."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import LoopFacts
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["gradients_accumulate"]


@check(
    explains=(
        "dead-units",
        "batch-not-memorised",
        "learning-rate-too-high",
        "update-ratio-off",
        "non-finite-loss",
        "loss-diverges",
        "loss-spikes",
        "weights-growing",
        "predictions-unstable",
    )
)
def gradients_accumulate(
    loop: LoopFacts,
    *,
    share: float = 0.1,  # of the steps; a pass that only measures something may leave a gradient now and then
) -> Iterator[Finding]:
    """Gradients that an optimizer step has used are still there when the next backward pass begins.

    nbdebug calls your training step on a copy, or watches your own loop, and looks at the gradients at the moment a
    backward pass begins.
    Accumulating gradients over several passes before one step is fine and is not reported.

    Why it matters: PyTorch adds new gradients to old ones. Without `zero_grad` every step follows the sum of all
    gradients since the beginning, which acts like a learning rate that grows without bound.

    What to try: call `optimizer.zero_grad()` once before each backward pass, or after each step.
    """
    loop.require()
    if loop.dirty == 0 or loop.dirty < share * loop.judged:
        return
    norm = f" (norm {loop.leftover:.3g})" if loop.leftover else ""
    yield Finding(
        f"In {loop.dirty} of {loop.judged} {loop.unit} the gradients of an earlier step were still there when backward "
        f"began{norm}; zero_grad is missing.",
        where=loop.place,
        evidence={
            "looked at": loop.judged,
            "with old gradients": loop.dirty,
            "threshold": share,
            "source": "PyTorch adds gradients up",
        },
        remedies=(
            Remedy(
                "Clear the gradients before each backward pass.",
                "optimizer.zero_grad()\nloss.backward()\noptimizer.step()",
                Patch("clear-gradients"),
            ),
        ),
        exhibit=Bars(
            tuple(f"call {i + 1}" for i in range(len(loop.used_norms))),
            loop.used_norms,
            title="Gradient norm at each step of the optimizer",
        )
        if loop.used_norms
        else None,
    )
