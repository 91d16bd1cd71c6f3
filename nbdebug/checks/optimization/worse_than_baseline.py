"""The trained model is no better than a constant baseline."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.short_run import ShortRun

__all__ = ["worse_than_baseline"]


@check(basis="statistic")
def worse_than_baseline(
    run: ShortRun,
    *,
    margin: float = 0.0,  # deepchecks requires a gain of 0.1 after a full training
) -> Iterator[Finding]:
    """After a short training run the model is no better than a constant baseline.

    nbdebug trains a copy for a short while and compares its predictions, on training samples, with always predicting
    the most frequent class or the mean.

    Why it matters: a constant baseline shows whether the model is learning anything at all.

    What to try: overfit a single batch first; then compare with a linear model on the same features.
    """
    fit = run.fit_after
    if fit is None:
        raise NotApplicable("no metric is defined for this kind of task")
    if not run.settled:
        raise NotApplicable("the short run has not converged, so it is too early to compare")
    if fit.value <= fit.chance + margin:
        yield Finding(
            f"After {len(run.losses)} steps the {fit.measure} on training samples is {fit.value:.1%}, no better than a "
            f"constant baseline ({fit.chance:.1%}), and the loss has stopped falling.",
            where="model",
            severity="suspect",
            evidence={
                fit.measure: fit.value,
                "baseline": fit.chance,
                "threshold": margin,
                "source": "Full Stack Deep Learning, lecture 7",
            },
            exhibit=Bars(("model", "constant baseline"), (fit.value, fit.chance), title=fit.measure),
        )
