"""A training step after which nothing has changed."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import Loop
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["step_never_taken"]

LOOP = "optimizer.zero_grad()\nloss = loss_fn(model(x), y)\nloss.backward()\noptimizer.step()"


@check(explains=("batch-not-memorised",))
def step_never_taken(loop: Loop) -> Iterator[Finding]:
    """The training step does not train: backward or step is missing, or they stand in the wrong order.

    nbdebug calls your training step on a copy and watches forward, backward, the optimizer's step and the weights.

    Why it matters: the loop runs, the loss is printed, and nothing is ever learned.

    What to try: zero the gradients, run forward, compute the loss, call backward on it, then step, in this order.
    """
    calls = loop.calls
    if loop.error:
        yield _fails(loop)
        return
    backwards, steps = sum(c.backwards for c in calls), sum(c.steps for c in calls)
    moved = sum(c.change > 0 for c in calls)
    reason = ""
    if not backwards:
        reason = "loss.backward() is never called, so there are no gradients"
    elif not steps:
        reason = "optimizer.step() is never called"
    elif all(c.step_without_gradient for c in calls if c.steps):
        reason = (
            "each step finds no gradients: zero_grad stands between backward and step, or step comes before backward"
        )
    elif not moved:
        reason = "the optimizer steps, but no parameter that it holds changes"
    elif calls[0].step_without_gradient and calls[0].backwards and all(c.steps == 1 == c.backwards for c in calls):
        reason = "step comes before backward, so each step uses the gradients of the batch before"
    if reason:
        yield Finding(
            f"In {len(calls)} calls of your training step, {reason} ({backwards} backward passes, {steps} steps, "
            f"weights changed {moved} times).",
            where="train_step",
            evidence={
                "calls": len(calls),
                "backward passes": backwards,
                "steps": steps,
                "calls that changed weights": moved,
                "source": "what the loop did",
            },
            remedies=(Remedy("Write the loop in this order.", LOOP, Patch("plain-loop")),),
        )


def _fails(loop: Loop) -> Finding:
    order = " It steps before the backward pass, which needs the weights as they were." if loop.stepped_first else ""
    return Finding(
        f"Your training step fails in call {len(loop.calls) + 1}, though the model and its loss run without it: "
        f"{loop.error.split('. ')[0].rstrip('.')}.{order}",
        where="train_step",
        evidence={"calls that went through": len(loop.calls), "error": loop.error, "source": "an exception"},
        remedies=(Remedy("Write the loop in this order.", LOOP, Patch("plain-loop")),),
    )
