"""A loss that falls as far without the inputs as with them."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import BlindRun, Curve
from nbdebug.exhibit import Lines
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["learns_without_inputs"]

KNOWS = 0.2  # of the way from chance to perfection: that much cannot come from the frequencies of the answers


@check
def learns_without_inputs(
    run: BlindRun,
    *,
    fell: float = 0.01,  # of the first loss: less is not yet learning
    close: float = 0.05,  # of what was removed; neural-net-checklist asks for 10 %
) -> Iterator[Finding]:
    """The loss falls as far without the inputs as with them.

    nbdebug trains a copy on one batch, and another on the same batch with one sample's inputs put in the place of
    everybody's. Without the inputs no more can be learned than how often each answer comes. A model whose loss rises
    when the inputs are exchanged between samples does use them.

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
        knows = sighted.fit is not None and sighted.fit.above_chance > KNOWS
        if run.told or knows or not (_settled(sighted) and _settled(blind)):
            return
        if gain < fell * abs(sighted.first) or gain_blind < (1 - close) * gain:
            return
        if run.swapped is not None and run.swapped - sighted.last > close * gain:
            return  # what was learned does lean on the inputs, though a rich output can learn a few answers without
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


def _settled(curve: Curve) -> bool:
    """Whether next to nothing of what was removed from the loss was removed in the last quarter."""
    late = curve.losses[3 * len(curve.losses) // 4]
    return late - curve.last < 0.1 * (curve.first - curve.last)
