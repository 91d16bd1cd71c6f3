"""A training step after which nothing has changed."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import LoopFacts
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["step_never_taken"]

NO_BACKWARD = (
    "no backward pass goes through the model: loss.backward() is never called, or the loss is cut off from the model "
    "(by .item(), .detach() or a new tensor)"
)
LOOP = "optimizer.zero_grad()\nloss = loss_fn(model(x), y)\nloss.backward()\noptimizer.step()"


@check(explains=("batch-not-memorised", "loss-flat"))
def step_never_taken(
    loop: LoopFacts,
    *,
    kept: float = 0.05,  # of a step; projections and slow weights that are meant leave more of it
) -> Iterator[Finding]:
    """The training step does not train: backward or step is missing, they stand in the wrong order, or it is undone.

    nbdebug calls your training step on a copy, or watches your own loop: forward, backward, the optimizer's step and
    the weights, right after it and when the call ends.

    Why it matters: the loop runs, the loss is printed, and nothing is ever learned.

    What to try: zero the gradients, run forward, compute the loss, call backward on it, then step, in this order.
    """
    if loop.error:
        yield _fails(loop)
        return
    reason = _reason(loop)
    if not reason and loop.kept < kept:
        yield _taken_back(loop, kept)
    if reason:
        yield Finding(
            f"In {loop.count} {loop.unit}, {reason} ({loop.backwards} backward passes, {loop.steps} steps, weights "
            f"changed {loop.moved} times).",
            where=loop.place,
            evidence={
                "looked at": loop.count,
                "backward passes": loop.backwards,
                "steps": loop.steps,
                "changes of the weights": loop.moved,
                "source": "what the loop did",
            },
            remedies=(Remedy("Write the loop in this order.", LOOP, Patch("plain-loop")),),
        )


def _taken_back(loop: LoopFacts, kept: float) -> Finding:
    return Finding(
        f"In {loop.count} {loop.unit}, no more than {loop.kept:.1%} of what the optimizer changed is left when the "
        "call ends: other weights are written over it.",
        where=loop.place,
        severity="suspect",
        evidence={"share of a step that is left": loop.kept, "threshold": kept, "source": "what the loop did"},
        remedies=(
            Remedy("Look for load_state_dict, copy_ or .data behind the step; an average is read, not written back."),
            Remedy("Write the loop in this order.", LOOP, Patch("plain-loop")),
        ),
    )


def _fails(loop: LoopFacts) -> Finding:
    order = " It steps before the backward pass, which needs the weights as they were." if loop.stepped_first else ""
    return Finding(
        f"Your training step fails in call {loop.count + 1}, though the model and its loss run without it: "
        f"{loop.error.split('. ')[0].rstrip('.')}.{order}",
        where="train_step",
        evidence={"calls that went through": loop.count, "error": loop.error, "source": "an exception"},
        remedies=(Remedy("Write the loop in this order.", LOOP, Patch("plain-loop")),),
    )


def _reason(loop: LoopFacts) -> str:
    if not loop.backwards:  # gradients may be written by hand
        return "" if loop.moved else NO_BACKWARD
    if not loop.steps:
        return "optimizer.step() is never called"
    if loop.idle >= loop.steps:
        return "each step finds no gradients: zero_grad stands between backward and step, or step comes before backward"
    if loop.late:
        return "step comes before backward, so each step uses the gradients of the batch before"
    return "" if loop.moved else "the optimizer steps, but no parameter that it holds changes"
