"""Gradients that are cleared before they are used."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.recorded.loop import LostPasses

__all__ = ["gradients_discarded"]

LOOP = """optimizer.zero_grad()
for part in parts:
    (loss_fn(model(part.x), part.y) / len(parts)).backward()
optimizer.step()"""


@check
def gradients_discarded(
    passes: LostPasses,
    *,
    habit: float = 0.8,  # of the steps; one may be skipped because its gradients are not finite; our choice
) -> Iterator[Finding]:
    """Of several backward passes per step, all but the last are cleared before the optimizer uses them.

    nbdebug watches your training run and counts backward passes whose gradients are gone when the next one starts
    although no optimizer has stepped. Passes with another purpose are excluded: adversarial attacks on the inputs,
    losses at perturbed weights (SAM), and gradients that custom code combines before the step.

    Why it matters: the work for these passes is wasted. A loop for gradient accumulation trains on the last micro-batch
    alone, as if the rest of the data did not exist.

    What to try: call `zero_grad` once per step, before the first backward pass and not before each of them.
    """
    if passes.with_loss < habit * passes.judged:
        return
    yield Finding(
        f"Only the last of {passes.usual + 1} backward passes per step is used: the gradients of the others are "
        f"cleared before the optimizer step ({passes.with_loss} of {passes.judged} steps).",
        where="your loop",
        severity="bug" if passes.usual > 1 else "suspect",
        evidence={
            "steps looked at": passes.judged,
            "steps with such passes": passes.with_loss,
            "passes in vain a step": passes.usual,
            "threshold": habit,
            "source": "observed in the loop",
        },
        remedies=(Remedy("Clear the gradients once per step.", LOOP),),
    )
