"""The training step does not change the weights."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.step_calls import StepCalls
from nbdebug.evidence.training_loop import LoopFacts

__all__ = ["step_never_taken"]

NO_BACKWARD = "no backward pass reaches the model: `loss.backward()` is never called, or the loss is detached"
LOOP = "optimizer.zero_grad()\nloss = loss_fn(model(x), y)\nloss.backward()\noptimizer.step()"


@check(explains=("cannot-overfit-batch", "loss-flat"))
def step_never_taken(
    loop: LoopFacts,
    step: StepCalls | None,
    *,
    own: int = 3,  # calls with an optimizer of their own; a single one may be the first of all; our choice
    kept: float = 0.05,  # fraction of the update; intended projections and slow weights keep more of it; our choice
) -> Iterator[Finding]:
    """The training step does not train with your optimizer: backward or step is missing, out of order, or undone.

    nbdebug calls your training step on a copy, or watches your own loop, and records forward, backward,
    `optimizer.step()` and the weights, right after the step and at the end of the call. A call that makes an optimizer
    of its own begins with empty moments each time.

    Why it matters: the loop runs, the loss is printed, and nothing is ever learned.

    What to try: zero the gradients, run forward, compute the loss, call `backward()` on it, then `step()`, in this
    order.
    """
    if loop.error:
        yield _fails(loop)
        return
    if step is not None and step.made >= own:
        yield _made_anew(step, own)
        return
    reason = _reason(loop)
    if not reason and loop.kept < kept:
        yield _undone(loop, kept)
    if reason:
        yield Finding(
            f"In {loop.count} {loop.unit}, {reason} ({loop.backwards} backward passes, {loop.steps} optimizer steps, "
            f"{loop.moved} weight changes).",
            where=loop.place,
            evidence={
                "looked at": loop.count,
                "backward passes": loop.backwards,
                "steps": loop.steps,
                "changes of the weights": loop.moved,
                "source": "observed calls",
            },
            remedies=(Remedy("Write the training step in this order.", LOOP, Patch("plain-loop")),),
        )


def _made_anew(step: StepCalls, limit: int) -> Finding:
    return Finding(
        f"`train_step` makes a new {step.made_kind} in every call ({step.made} of {step.calls}): its moments and "
        "counts begin anew in each step, and the optimizer that it is given is never used.",
        where="train_step",
        evidence={"optimizers": step.made, "calls": step.calls, "threshold": limit, "source": "observed calls"},
        remedies=(Remedy("Make the optimizer once, before the loop.", LOOP, Patch("plain-loop")),),
    )


def _undone(loop: LoopFacts, kept: float) -> Finding:
    return Finding(
        f"In {loop.count} {loop.unit}, at most {loop.kept:.1%} of the optimizer's update remains at the end of the "
        "call: the weights are overwritten after `step()`.",
        where=loop.place,
        severity="suspect",
        evidence={"share of a step that is left": loop.kept, "threshold": kept, "source": "observed calls"},
        remedies=(
            Remedy("Look for load_state_dict, copy_ or .data after the step; do not write averaged weights back."),
            Remedy("Write the training step in this order.", LOOP, Patch("plain-loop")),
        ),
    )


def _fails(loop: LoopFacts) -> Finding:
    order = " It calls `optimizer.step()` before `backward()`." if loop.stepped_first else ""
    return Finding(
        f"Your training step fails in call {loop.count + 1}, although the forward and backward pass run without it: "
        f"{loop.error.split('. ')[0].rstrip('.')}.{order}",
        where="train_step",
        evidence={"calls that went through": loop.count, "error": loop.error, "source": "an exception"},
        remedies=(Remedy("Write the training step in this order.", LOOP, Patch("plain-loop")),),
    )


def _reason(loop: LoopFacts) -> str:
    if not loop.backwards:  # gradients may be assigned directly
        return "" if loop.moved else NO_BACKWARD
    if not loop.steps:
        return "`optimizer.step()` is never called"
    if loop.idle >= loop.steps:
        return "no step has gradients: `zero_grad()` runs between `backward()` and `step()`, or `step()` comes first"
    if loop.late:
        return "`step()` runs before `backward()`, so each step uses the gradients of the previous batch"
    return "" if loop.moved else "the optimizer steps, but none of its parameters changes"
