"""The output bias does not start at the class frequencies or the target mean."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.initial_loss import FirstGuess, InitialLoss

__all__ = ["output_bias_ignores_prior"]


@check(basis="statistic")
def output_bias_ignores_prior(
    initial: InitialLoss,
    *,
    gap: float = 0.2,  # of the chance-level loss; less than that is learned within a few steps; our choice
    fewest: int = 5,  # samples per class; fewer give no reliable frequencies; our choice
    left: float = 0.5,  # of what the bias could save, still to be saved in the initial loss; our choice
) -> Iterator[Finding]:
    """The output bias ignores the class frequencies or the target mean.

    nbdebug compares the initial loss with that of the best constant prediction: the class frequencies, or the mean of
    the targets.

    Why it matters: with rare classes or large targets, the loss curve starts with a steep drop (a "hockey stick") in
    which the model learns nothing but its output bias. Starting there gives an informative curve and saves training
    steps.

    What to try: initialize the output bias with the log-frequencies of the classes, the log-odds, or the target mean.
    """
    if not initial.guesses:
        raise NotApplicable("no chance-level loss is known for this loss function")
    for first in initial.guesses:
        saved = first.guess - first.constant - first.sampling_gain
        judged = first.guess > 0 and not first.is_constant and first.rows >= fewest * first.classes
        if judged and saved > gap * first.guess and first.loss > first.constant + left * saved:
            yield Finding(
                f"The initial loss is {first.loss:.3g}, but a constant prediction reaches {first.constant:.3g}: the "
                f"output bias of `{first.place}` could start there.",
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
                remedies=(Remedy(_title(first), _code(first), _patch(first)),),
                exhibit=Bars(
                    ("initial loss", "chance level", "best constant"), (first.loss, first.guess, first.constant)
                ),
            )


def _title(first: FirstGuess) -> str:
    """Return the title of the fix for this kind of task."""
    what = {"classification": "the log-frequencies of the classes", "binary": "the log-odds"}
    return f"Initialize the output bias with {what.get(first.kind, 'the mean of the targets')}."


def _code(first: FirstGuess) -> str:
    values = ", ".join(f"{value:g}" for value in first.best)
    more = ", …" if len(first.best) == 12 else ""
    return f"with torch.no_grad():\n    head.bias.copy_(torch.tensor([{values}{more}]))"


def _patch(first: FirstGuess) -> Patch | None:
    return Patch("set-bias", {"values": list(first.best)}) if len(first.best) < 12 else None
