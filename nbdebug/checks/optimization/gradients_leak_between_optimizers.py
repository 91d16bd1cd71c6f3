"""Gradients of one network's loss that another network's optimizer steps with."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.step_events import StepEvents

__all__ = ["gradients_leak_between_optimizers"]

ALTERNATE = """opt_d.zero_grad()
d_loss(discriminator, generator(z).detach()).backward()
opt_d.step()
opt_g.zero_grad()
g_loss(discriminator, generator(z)).backward()
opt_g.step()"""


@check(explains=("cannot-overfit-batch", "loss-diverges"))
def gradients_leak_between_optimizers(
    events: StepEvents,
    *,
    share: float = 0.5,  # of the steps; one may begin with what a first call left behind; our choice
) -> Iterator[Finding]:
    """An optimizer steps with the gradients of another network's loss added to its own.

    nbdebug calls your training step on a copy and notes for each gradient which backward pass it comes from. It
    reports gradients of almost all parameters of an optimizer that come from an earlier, different loss, with which
    another optimizer has stepped already. One loss for several optimizers, and gradient accumulation, are fine.

    Why it matters: in a GAN or an actor-critic the two losses want opposite things. A discriminator that also steps
    with the generator's gradient learns to accept what the generator makes.

    What to try: detach the other network's output, or call `zero_grad()` on an optimizer right before the backward
    pass of its own loss.
    """
    if not events.is_step:
        raise NotApplicable("no train_step was passed, so only one optimizer is known")
    for optimizer in events.optimizers:
        if optimizer.foreign and optimizer.foreign >= share * optimizer.steps:
            yield Finding(
                f"`{optimizer.name}` also steps with gradients of the loss that `{optimizer.foreign_of}` minimizes: "
                f"they are not cleared in {optimizer.foreign} of {optimizer.steps} steps.",
                where=optimizer.name,
                evidence={
                    "steps": optimizer.steps,
                    "with gradients of another loss": optimizer.foreign,
                    "that loss belongs to": optimizer.foreign_of,
                    "threshold": share,
                    "source": "observed gradients",
                },
                remedies=(Remedy("Clear the gradients before each network's own backward pass.", ALTERNATE),),
            )
