"""The last bias could start at what is known before any input is seen."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import FirstGuess, InitialLoss
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["output_bias_ignores_prior"]


@check
def output_bias_ignores_prior(
    initial: InitialLoss,
    *,
    gap: float = 0.2,  # of the loss of guessing; less than that is learned within a few steps
    fewest: int = 5,  # samples for each class; fewer say little about frequencies
) -> Iterator[Finding]:
    """The first steps will be spent on learning how frequent the classes are, or how large the targets.

    nbdebug compares the first loss with that of the best answer which is the same for all samples: the frequencies of
    the classes, or the mean of the targets.

    Why it matters: with rare classes or large targets, the curve begins with a steep fall (a "hockey stick") in which
    the model learns only its last bias. Starting there makes the curve honest and the training shorter.

    What to try: set the last bias to the log-frequencies of the classes, to the log-odds, or to the mean.
    """
    if not initial.guesses:
        raise NotApplicable("nobody can guess what this loss compares the outputs with")
    for first in initial.guesses:
        won = first.guess - first.constant - first.luck
        judged = first.guess > 0 and not first.is_constant and first.rows >= fewest * first.classes
        if judged and won > gap * first.guess and first.loss > first.constant + 0.5 * won:
            yield Finding(
                f"The first loss is {first.loss:.3g}; the best answer that is the same for every sample has "
                f"{first.constant:.3g}, and the last bias could give it from the start.",
                where=first.place,
                severity="note",
                evidence={
                    "first loss": first.loss,
                    "loss of guessing": first.guess,
                    "loss of the best constant answer": first.constant,
                    "best bias": str(first.best),
                    "threshold": gap,
                    "source": "Karpathy's recipe: init well",
                },
                remedies=(Remedy(_why(first), _code(first), _patch(first)),),
                exhibit=Bars(("first loss", "guessing", "best constant"), (first.loss, first.guess, first.constant)),
            )


def _why(first: FirstGuess) -> str:
    what = {"classification": "the log-frequencies of the classes", "binary": "the log-odds"}
    return f"Start the last bias at {what.get(first.kind, 'the mean of the targets')}."


def _code(first: FirstGuess) -> str:
    values = ", ".join(f"{value:g}" for value in first.best)
    more = ", …" if len(first.best) == 12 else ""
    return f"with torch.no_grad():\n    head.bias.copy_(torch.tensor([{values}{more}]))"


def _patch(first: FirstGuess) -> Patch | None:
    return Patch("set-bias", {"values": list(first.best)}) if len(first.best) < 12 else None
