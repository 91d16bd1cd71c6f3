"""A loss that falls as far without the inputs as with them."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import BlindRun
from nbdebug.exhibit import Lines
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["learns_without_inputs"]


@check
def learns_without_inputs(run: BlindRun, *, fell: float = 0.1, close: float = 0.05) -> Iterator[Finding]:
    """The loss falls as far without the inputs as with them.

    nbdebug trains a copy on one batch, and another on the same batch with one sample's inputs put in the place of
    everybody's. Without the inputs no more can be learned than how often each answer comes.

    Why it matters: either the model turns its inputs into garbage on the way, or it sees the answers by another way.

    What to try: look at the data where the first layer receives it, and at what the loss is given besides outputs and
    targets.
    """
    blind, sighted = run.blind, run.sighted
    if blind.fit is not None and blind.fit.is_perfect and blind.fit.above_chance > 0.5:
        what = (
            f"With the same inputs for all {run.samples} samples the model still reaches {blind.fit.value:.0%} "
            f"{blind.fit.measure}, so it knows the answers by another way than the inputs."
        )
    else:
        gain, gain_blind = sighted.first - sighted.last, blind.first - blind.last
        settled = sighted.outcome == "plateaus" and blind.outcome in ("plateaus", "falling")
        if not settled or gain < fell * abs(sighted.first) or gain_blind < (1 - close) * gain:
            return
        what = (
            f"On one batch the loss falls from {sighted.first:.3g} to {sighted.last:.3g}, and just as far, to "
            f"{blind.last:.3g}, with the same inputs for all samples: the inputs are not used."
        )
    yield Finding(
        what,
        where="model",
        severity="suspect",
        evidence={
            "last loss": sighted.last,
            "last loss without inputs": blind.last,
            "threshold": close,
            "source": "37 reasons, 2; neural-net-checklist",
        },
        remedies=(Remedy("See what the first layer receives.", "print(next(iter(loader)))"),),
        exhibit=Lines.of_losses(
            [("with inputs", sighted.losses), ("same inputs for all", blind.losses)], "Loss on one batch"
        ),
    )
