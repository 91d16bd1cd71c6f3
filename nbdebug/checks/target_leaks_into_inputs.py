"""An input that gives the answer away."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import ColumnLeak
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Remedy, Severity
from nbdebug.registry import check

__all__ = ["target_leaks_into_inputs"]


@check(explains=("initial-loss-off",))
def target_leaks_into_inputs(
    leak: ColumnLeak,
    *,
    alone: float = 0.98,  # of the way from chance to perfect, by one column
    gap: float = 0.1,  # how much the other columns together have to stay behind
) -> Iterator[Finding]:
    """One input column predicts the target almost alone, far better than all the others together.

    nbdebug lets single columns predict the target with a small tree, and all other columns together with nearest
    neighbours, a linear model and a forest, always on samples that were not fitted on.

    Why it matters: a column that holds the answer, or something that is known only after the answer, makes training
    and validation look perfect. In use the column is not there, or holds nothing.

    What to try: ask when and how the column named gets its value. Take it out and train again: what is left is what the
    model really knows.
    """
    if leak.others is None or leak.alone < alone or (leak.others > leak.alone - gap and not leak.exact):
        return
    carries = leak.others > 0.1 and leak.others_p < 1e-4  # a real table: other columns know something as well
    severity: Severity = "note" if not carries else "bug" if leak.exact else "suspect"
    names = ", ".join(leak.columns[:3]) + (f" and {len(leak.columns) - 3} more" if len(leak.columns) > 3 else "")
    what = "is the target under another name" if leak.exact else "predicts the target almost alone"
    yield Finding(
        f"{names} {what}: alone it goes {leak.alone:.1%} of the way from chance to perfect, the other "
        f"{leak.width - len(leak.columns)} columns together {max(leak.others, 0):.1%} ({leak.size} samples).",
        where=leak.columns[0],
        severity=severity,
        evidence={
            "alone": leak.alone,
            "all others together": leak.others,
            "next best column": leak.runner_up,
            "one to one": leak.exact,
            "threshold": alone,
            "source": "cross-validated trees and baselines; deepchecks' predictive power score begins to warn at 0.7",
        },
        remedies=(Remedy("Take the column out of the inputs and train again.", "x = np.delete(x, column, axis=1)"),),
        exhibit=Bars(
            ("this column alone", "all others together", "next best column"),
            (leak.alone, max(leak.others, 0.0), max(leak.runner_up, 0.0)),
        ),
    )
