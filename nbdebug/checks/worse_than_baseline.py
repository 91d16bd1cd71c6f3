"""A trained model that guessing beats."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import ShortRun
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding
from nbdebug.registry import check

__all__ = ["worse_than_baseline"]


@check
def worse_than_baseline(
    run: ShortRun,
    *,
    margin: float = 0.0,  # deepchecks asks for a gain of 0.1 after a whole training
) -> Iterator[Finding]:
    """After a short training the model is no better than the best guess that does not look at the inputs.

    nbdebug trains a copy for a short while and compares its answers, on samples it was trained on, with always saying
    the commonest class or the mean.

    Why it matters: a simple baseline shows whether the model is learning anything at all.

    What to try: overfit one batch first; then compare with a linear model on the same features.
    """
    fit = run.fit_after
    if fit is None:
        raise NotApplicable("there is no measure of quality for this kind of task")
    if not run.settled:
        raise NotApplicable("the short training had not settled, so it would be too early to compare")
    if fit.value <= fit.chance + margin:
        yield Finding(
            f"After {len(run.losses)} steps the {fit.measure} on training samples is {fit.value:.1%}; the best guess "
            f"without inputs reaches {fit.chance:.1%}, and the loss has stopped falling.",
            where="model",
            severity="suspect",
            evidence={
                fit.measure: fit.value,
                "baseline": fit.chance,
                "threshold": margin,
                "source": "Full Stack Deep Learning, lecture 7",
            },
            exhibit=Bars(("model", "best guess"), (fit.value, fit.chance), title=fit.measure),
        )
