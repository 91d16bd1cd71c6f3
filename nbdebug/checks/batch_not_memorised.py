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


@check
def batch_not_memorised(overfit: Overfit) -> Iterator[Finding]:
    """The model cannot learn one small batch by heart.

    nbdebug trains a copy with your optimizer on a single small batch and on nothing else.

    Why it matters: a model that cannot drive the error on a handful of samples to zero has a bug; more data and more
    time will not help.

    What to try: if the error rises, look for a flipped sign or a learning rate that is too high; if it explodes, for
    overflow; if it oscillates, lower the learning rate and look at the labels; if it stays flat, raise the learning
    rate, remove regularisation, and look at the loss and the data.
    """
    if overfit.outcome in CAUSES:
        yield Finding(
            f"After {overfit.steps} steps on one batch of {overfit.batch_size} samples the loss {overfit.outcome} "
            f"(from {overfit.first:.3g} to {overfit.last:.3g}, best {overfit.best:.3g}). The usual causes are "
            f"{CAUSES[overfit.outcome]}.",
            where="model",
            evidence={
                "outcome": overfit.outcome,
                "first loss": overfit.first,
                "last loss": overfit.last,
                "steps": overfit.steps,
                "optimizer": f"{overfit.optimizer}, learning rate {overfit.learning_rate:g}",
                "source": "Full Stack Deep Learning, lecture 7; 37 reasons, 27",
            },
            exhibit=Lines((("one batch", tuple(range(overfit.steps)), overfit.losses),), title="Loss on one batch"),
        )
