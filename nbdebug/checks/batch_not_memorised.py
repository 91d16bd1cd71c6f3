"""The simplest thing that training must be able to do."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import Overfit
from nbdebug.exhibit import Lines
from nbdebug.finding import Finding
from nbdebug.registry import check

__all__ = ["batch_not_memorised"]

CAUSES = {
    "rises": "a loss with its sign flipped, a learning rate that is too high, or a softmax over the wrong dimension",
    "explodes": "numbers that overflow, or a learning rate that is too high",
    "not-finite": "numbers that overflow, or a learning rate that is too high",
    "oscillates": "a learning rate that is too high, or labels that are shuffled or wrong",
    "plateaus": "gradients that do not reach every layer, a learning rate that is too low, too much regularisation, or "
    "a loss that gets the wrong kind of input",
}
WORDS = {"not-finite": "stops being a finite number"}


@check
def batch_not_memorised(overfit: Overfit) -> Iterator[Finding]:
    """The model cannot learn one small batch by heart.

    nbdebug trains a copy with your optimizer on a single small batch and on nothing else; where that fails, on two
    samples alone, because a small model may lack the room for more.

    Why it matters: a model that cannot drive the error on a handful of samples to zero has a bug; more data and more
    time will not help.

    What to try: if the error rises, look for a flipped sign or a learning rate that is too high; if it explodes, for
    overflow; if it oscillates, lower the learning rate and look at the labels; if it stays flat, raise the learning
    rate, remove regularisation, and look at the loss and the data.
    """
    curve = overfit.curve
    if curve.outcome not in CAUSES:
        return
    enough_for_two = overfit.pair is not None and overfit.pair.learned
    fit = f", {curve.fit.measure} {curve.fit.value:.0%}" if curve.fit else ""
    curves = [("one batch", curve.losses)] + ([("two samples", overfit.pair.losses)] if overfit.pair else [])
    yield Finding(
        f"After {len(curve.losses)} steps on one batch of {overfit.batch_size} samples the loss "
        f"{WORDS.get(curve.outcome, curve.outcome)} (from {curve.first:.3g} to {curve.last:.3g}, best "
        f"{curve.best:.3g}{fit})"
        + (", though two samples alone are learned. " if enough_for_two else ". ")
        + f"The usual causes are {CAUSES[curve.outcome]}.",
        where="model",
        severity="note" if enough_for_two and curve.outcome == "plateaus" else "bug",
        evidence={
            "outcome": curve.outcome,
            "first loss": curve.first,
            "last loss": curve.last,
            "best loss": curve.best,
            "steps": len(curve.losses),
            "optimizer": f"{overfit.optimizer}, learning rate {curve.learning_rate:g}",
            "source": "Full Stack Deep Learning, lecture 7; 37 reasons, 27",
        },
        exhibit=Lines.of_losses(curves, "Loss on one batch"),
        outcome=curve.outcome,
    )
