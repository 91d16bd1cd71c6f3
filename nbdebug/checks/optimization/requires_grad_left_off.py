"""Parameters that the training step freezes and never unfreezes."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.step_events import StepEvents

__all__ = ["requires_grad_left_off"]


@check(explains=("cannot-overfit-batch", "untrained-parameters"))
def requires_grad_left_off(
    events: StepEvents,
    *,
    calls: int = 4,  # of the step; with fewer, a network may take turns; our choice
) -> Iterator[Finding]:
    """The training step sets requires_grad to False and never back to True.

    nbdebug calls your training step several times on a copy and looks for parameters of an optimizer that receive a
    gradient in the first call only, because they do not require one afterwards.

    Why it matters: GAN loops freeze the discriminator while the generator trains. If nothing unfreezes it, it is
    trained by the first batch alone, and no error is raised.

    What to try: set `requires_grad_(True)` on the network again before its own backward pass.
    """
    if not events.is_step:
        raise NotApplicable("no train_step was passed, so no change of requires_grad was observed")
    for network in events.networks:
        left = [p.name for p in network.parameters if p.left_frozen and p.held]
        if not left or events.calls < calls:
            continue
        yield Finding(
            f"`train_step` freezes {len(left)} of the {len(network.parameters)} parameters of `{network.name}` and "
            f"never unfreezes them: no gradient comes after the first of {events.calls} calls.",
            where=network.name,
            evidence={
                "parameters": left[:50],
                "calls": events.calls,
                "threshold": "a gradient after the first call",
                "source": "observed gradients",
            },
            remedies=(Remedy("Unfreeze it before its own backward pass.", f"{network.name}.requires_grad_(True)"),),
        )
