"""An optimizer whose steps change nothing, or that never steps."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy, Severity
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.step_events import OptimizerSteps, StepEvents

__all__ = ["optimizer_without_effect"]


@check
def optimizer_without_effect(
    events: StepEvents,
    *,
    steps: int = 3,  # a first step may come before the first gradient, as with LBFGS and delayed updates; our choice
) -> Iterator[Finding]:
    """One of several optimizers never steps, or holds parameters that never receive a gradient.

    nbdebug finds every optimizer that your training step uses (in its closure, its globals or its object), calls the
    step on a copy, and follows each gradient from its backward pass to the optimizer step that uses it. The optimizer
    that you passed is judged by step-never-taken.

    Why it matters: the other network trains on and the loss moves, so nothing shows that this one stands still. It
    happens when the second optimizer was created from the wrong model's parameters, before a network was replaced, or
    when its `step()` was forgotten.

    What to try: create each optimizer from the parameters of the network that the step really calls, and call its
    `step()` after the backward pass of its own loss.
    """
    if not events.is_step:
        raise NotApplicable("no train_step was passed, so only one optimizer is known")
    for optimizer in events.optimizers:
        if optimizer.is_main or not optimizer.parameters:
            continue
        if optimizer.steps >= steps and not optimizer.with_gradient:
            whose = _whose(optimizer)
            says = (
                f"`{optimizer.name}` took {optimizer.steps} steps, but no gradient ever reached its "
                f"{optimizer.parameters} parameters{whose}."
            )
            yield _finding(says, optimizer, events, "bug")
        elif not optimizer.steps and optimizer.graded and _others_step(events):
            says = (
                f"`{optimizer.name}.step()` was never called in {events.calls} calls, although {optimizer.graded} of "
                f"its {optimizer.parameters} parameters receive gradients."
            )
            yield _finding(says, optimizer, events, "suspect")


def _others_step(events: StepEvents) -> bool:
    return any(optimizer.steps for optimizer in events.optimizers)


def _whose(optimizer: OptimizerSteps) -> str:
    if optimizer.strays == optimizer.parameters:
        return ", which belong to no network that the step uses"
    return f" (of `{optimizer.networks[0]}`)" if optimizer.networks else ""


def _finding(says: str, optimizer: OptimizerSteps, events: StepEvents, severity: Severity) -> Finding:
    network = optimizer.networks[0] if optimizer.networks else "network"
    code = (
        f"{optimizer.name} = torch.optim.Adam({network}.parameters())"
        if optimizer.steps
        else f"loss.backward()\n{optimizer.name}.step()"
    )
    return Finding(
        says,
        where=optimizer.name,
        severity=severity,
        evidence={
            "steps": optimizer.steps,
            "calls": events.calls,
            "parameters": optimizer.parameters,
            "with a gradient": optimizer.graded,
            "of no network": optimizer.strays,
            "threshold": "every optimizer steps with gradients",
            "source": "observed calls",
        },
        remedies=(
            Remedy(
                "Create the optimizer from the network that the loss trains, and detach nothing between them."
                if optimizer.steps
                else "Call its step after the backward pass of its loss.",
                code,
            ),
        ),
    )
