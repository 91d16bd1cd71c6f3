"""A model that cannot overfit a single batch."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.charts import Lines
from nbdebug.core.finding import Finding
from nbdebug.core.registry import check
from nbdebug.evidence.overfit_one_batch import Overfit

__all__ = ["cannot_overfit_batch"]

CAUSES = {
    "rises": "a flipped loss sign, a learning rate that is too high, or a softmax over the wrong dimension",
    "explodes": "numerical overflow or a learning rate that is too high",
    "not-finite": "numerical overflow or a learning rate that is too high",
    "oscillates": "a learning rate that is too high, or shuffled or wrong labels",
    "plateaus": "gradients that do not reach every layer, a learning rate that is too low, too much regularization, or "
    "the wrong kind of loss input",
}
VERBS = {"not-finite": "becomes NaN or Inf"}


@check(basis="statistic")
def cannot_overfit_batch(overfit: Overfit) -> Iterator[Finding]:
    """The model cannot overfit a single batch.

    nbdebug trains a copy with your optimizer on one small batch only; if that fails, on two samples, because a small
    model may lack the capacity for more.

    Why it matters: a model that cannot drive the loss on a handful of samples to zero has a bug; more data or longer
    training will not help.

    What to try: if the loss rises, look for a flipped sign or a learning rate that is too high; if it explodes, for
    numerical overflow; if it oscillates, lower the learning rate and check the labels; if it plateaus, raise the
    learning rate, remove regularization, and check the loss and the data.
    """
    curve = overfit.curve
    if curve.outcome not in CAUSES:
        return
    enough_for_two = overfit.pair is not None and overfit.pair.learned
    fit = f", {curve.fit.measure} {curve.fit.value:.0%}" if curve.fit else ""
    curves = [("one batch", curve.losses)] + ([("two samples", overfit.pair.losses)] if overfit.pair else [])
    yield Finding(
        f"The model cannot overfit a single batch of {overfit.batch_size} samples: in {len(curve.losses)} steps the "
        f"loss {VERBS.get(curve.outcome, curve.outcome)} ({curve.first:.3g} to {curve.last:.3g}, best "
        f"{curve.best:.3g}{fit})"
        + (", though it overfits two samples. " if enough_for_two else ". ")
        + f"Typical causes: {CAUSES[curve.outcome]}.",
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
        exhibit=Lines.of_losses(curves, "Loss on a single batch"),
        outcome=curve.outcome,
    )
