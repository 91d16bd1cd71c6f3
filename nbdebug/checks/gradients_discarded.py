"""Gradients that are cleared before anybody uses them."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import LostPasses
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["gradients_discarded"]

LOOP = """optimizer.zero_grad()
for part in parts:
    (loss_fn(model(part.x), part.y) / len(parts)).backward()
optimizer.step()"""


@check
def gradients_discarded(
    passes: LostPasses,
    *,
    habit: float = 0.8,  # of the steps; a step may be skipped now and then because its gradients are not finite
) -> Iterator[Finding]:
    """Of several backward passes before a step, all but the last are cleared before the optimizer sees them.

    nbdebug watches your training: it counts backward passes whose gradients are gone when the next one begins though no
    optimizer has stepped. Passes that serve another end are left out: attacks on the inputs, losses looked at with
    moved weights (SAM), and gradients that are put together by hand before the step.

    Why it matters: the work for these passes is wasted. A loop that adds the gradients of several small batches up
    trains on the last of them alone, as if the rest of the data did not exist.

    What to try: call `zero_grad` once for each step, before the first backward pass and not before each of them.
    """
    if passes.with_loss < habit * passes.judged:
        return
    yield Finding(
        f"In {passes.with_loss} of {passes.judged} steps that were looked at, the gradients of {passes.usual} of "
        f"{passes.usual + 1} backward passes were cleared before the optimizer stepped: only the last one counts.",
        where="your loop",
        severity="bug" if passes.usual > 1 else "suspect",
        evidence={
            "steps looked at": passes.judged,
            "steps with such passes": passes.with_loss,
            "passes in vain a step": passes.usual,
            "threshold": habit,
            "source": "what the loop did",
        },
        remedies=(Remedy("Clear the gradients once for each step.", LOOP),),
    )
