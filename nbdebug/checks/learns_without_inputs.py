"""A model that ignores its inputs."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import BlindRun, Curve
from nbdebug.exhibit import Lines
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["learns_without_inputs"]

PREDICTS = 0.2  # of the gap between chance and perfect: more than the frequencies of the targets can give


@check
def learns_without_inputs(
    run: BlindRun,
    *,
    fell: float = 0.01,  # of the initial loss: less does not count as learning
    close: float = 0.05,  # of the loss reduction; neural-net-checklist uses 10 %
) -> Iterator[Finding]:
    """The loss falls as far without the inputs as with them.

    nbdebug trains a copy on one batch, and another on the same batch with the inputs of all samples replaced by those
    of one. Without the inputs only the frequencies of the targets can be learned. A model whose loss rises when the
    inputs are permuted across samples does use them.

    Why it matters: either the model destroys its inputs on the way, or the targets reach it by another path.

    What to try: inspect the data at the input of the first layer, and what the loss receives besides outputs and
    targets.
    """
    blind, sighted = run.blind, run.sighted
    if blind.fit is not None and blind.fit.is_perfect and blind.fit.above_chance > 0.5:
        says = (
            f"With identical inputs for all {run.samples} samples the model still reaches {blind.fit.value:.0%} "
            f"{blind.fit.measure}: the targets reach it by another path."
        )
    else:
        gain, gain_blind = sighted.first - sighted.last, blind.first - blind.last
        predicts = sighted.fit is not None and sighted.fit.above_chance > PREDICTS
        if run.told or predicts or not (_has_converged(sighted) and _has_converged(blind)):
            return
        if gain < fell * abs(sighted.first) or gain_blind < (1 - close) * gain:
            return
        if run.swapped is not None and run.swapped - sighted.last > close * gain:
            return  # the model does use the inputs, though a large output can fit a few targets without them
        says = (
            f"The model ignores its inputs: on one batch the loss falls from {sighted.first:.3g} to "
            f"{sighted.last:.3g}, and to {blind.last:.3g} with identical inputs for all samples."
        )
    yield Finding(
        says,
        where="model",
        severity="suspect",
        evidence={
            "last loss": sighted.last,
            "last loss without inputs": blind.last,
            "threshold": close,
            "source": "37 reasons, 2; neural-net-checklist",
        },
        remedies=(Remedy("Print a batch as the model receives it.", "print(next(iter(loader)))"),),
        exhibit=Lines.of_losses(
            [("own inputs", sighted.losses), ("identical inputs", blind.losses)], "Loss on one batch"
        ),
    )


def _has_converged(curve: Curve) -> bool:
    """Return whether the last quarter contributed almost nothing to the loss reduction."""
    late = curve.losses[3 * len(curve.losses) // 4]
    return late - curve.last < 0.1 * (curve.first - curve.last)
