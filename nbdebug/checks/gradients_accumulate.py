"""Gradients that are never cleared."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import Loop
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["gradients_accumulate"]


@check(explains=("batch-not-memorised", "learning-rate-too-high"))
def gradients_accumulate(loop: Loop) -> Iterator[Finding]:
    """Gradients that an optimizer step has used are still there when the next backward pass begins.

    nbdebug calls your training step on a copy and looks at the gradients at the moment a backward pass begins.
    Accumulating gradients over several passes before one step is fine and is not reported.

    Why it matters: PyTorch adds new gradients to old ones. Without `zero_grad` every step follows the sum of all
    gradients since the beginning, which acts like a learning rate that grows without bound.

    What to try: call `optimizer.zero_grad()` once before each backward pass, or after each step.
    """
    loop.require()
    dirty = [index for index, call in enumerate(loop.calls) if call.leftover > 0]
    if not dirty:
        return
    yield Finding(
        f"In {len(dirty)} of {len(loop.calls)} calls of your training step the gradients of an earlier step were still "
        f"there when backward began (norm {loop.calls[dirty[-1]].leftover:.3g}); zero_grad is missing.",
        where="train_step",
        evidence={
            "calls": len(loop.calls),
            "calls with old gradients": len(dirty),
            "threshold": 0,
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
            tuple(f"call {i + 1}" for i in range(len(loop.calls))),
            tuple(call.used_norm for call in loop.calls),
            title="Gradient norm at each step of the optimizer",
        ),
    )
