"""Gradients that are never cleared."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.step_events import OptimizerSteps, StepEvents
from nbdebug.evidence.training_loop import LoopFacts

__all__ = ["accumulated_gradients"]


@check(
    explains=(
        "dead-units",
        "cannot-overfit-batch",
        "learning-rate-too-high",
        "update-ratio-off",
        "non-finite-loss",
        "loss-diverges",
        "loss-spikes",
        "weights-growing",
        "predictions-unstable",
    )
)
def accumulated_gradients(
    loop: LoopFacts,
    events: StepEvents | None,
    *,
    share: float = 0.1,  # of the steps; an occasional pass for measurement may leave a gradient; our choice
) -> Iterator[Finding]:
    """Gradients from the previous optimizer step are still there when the next backward pass starts.

    nbdebug calls your training step on a copy, or watches your own loop, and inspects the gradients when a backward
    pass starts. Gradient accumulation over several passes before one step is fine and is not reported, unless an
    earlier pass was made for the gradient of an input, and the loss that the step returns is that of the last alone.

    Why it matters: PyTorch adds new gradients to old ones. Without `zero_grad` every step follows the sum of all
    gradients so far, which acts like a learning rate that grows without bound.

    What to try: call `optimizer.zero_grad()` once before each backward pass, or after each step.
    """
    loop.require()
    for optimizer in events.optimizers if events is not None else ():
        if optimizer.probed > share * optimizer.steps:
            yield _of_input(optimizer)
        if not optimizer.is_main and optimizer.stale > share * optimizer.steps:
            yield _of_other(optimizer)
    if loop.dirty == 0 or loop.dirty < share * loop.judged:
        return
    norm = f" (norm {loop.leftover:.3g})" if loop.leftover else ""
    yield Finding(
        f"`zero_grad` is missing: in {loop.dirty} of {loop.judged} {loop.unit}, backward started with the gradients "
        f"of an earlier step{norm}.",
        where=loop.place,
        evidence={
            "looked at": loop.judged,
            "with old gradients": loop.dirty,
            "threshold": share,
            "source": "PyTorch accumulates gradients",
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
            title="Gradient norm at each optimizer step",
        )
        if loop.used_norms
        else None,
    )


def _of_other(optimizer: OptimizerSteps) -> Finding:
    return Finding(
        f"`{optimizer.name}.zero_grad()` is missing: {optimizer.stale} of its {optimizer.steps} steps use gradients of "
        "an earlier step again.",
        where=optimizer.name,
        evidence={
            "steps": optimizer.steps,
            "with old gradients": optimizer.stale,
            "threshold": 0,
            "source": "PyTorch accumulates gradients",
        },
        remedies=(Remedy("Clear its gradients before its backward pass.", f"{optimizer.name}.zero_grad()"),),
    )


def _of_input(optimizer: OptimizerSteps) -> Finding:
    return Finding(
        f"{optimizer.probed} of {optimizer.steps} steps of `{optimizer.name}` use the gradients of a backward pass for "
        "an input (an attack, a saliency map) as well: they are not cleared before the backward pass of the loss.",
        where="train_step",
        severity="suspect",
        is_contradiction=True,  # a loss that is not the one that the step returns is minimized as well
        evidence={
            "steps": optimizer.steps,
            "with gradients of another pass": optimizer.probed,
            "threshold": 0,
            "source": "backward() adds to the gradients of all leaves, weights too",
        },
        remedies=(
            Remedy("Compute the gradient of the input alone.", "(gradient,) = torch.autograd.grad(loss, [images])"),
            Remedy(
                "Clear the gradients after the attack.", "optimizer.zero_grad()\nloss = loss_fn(model(adversarial), y)"
            ),
        ),
    )
