"""An input column leaks the target."""

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
    alone: float = 0.98,  # score of one column, from chance (0) to perfect (1)
    gap: float = 0.1,  # by which the other columns together must score lower
) -> Iterator[Finding]:
    """One input column predicts the target almost alone, far better than all others together.

    nbdebug predicts the target from single columns with a small decision tree, and from all other columns together with
    nearest neighbors, a linear model and a random forest, always on held-out samples.

    Why it matters: a column that contains the target, or something that is known only after the target, makes training
    and validation look perfect. In deployment the column is missing or empty.

    What to try: find out when and how this column gets its value. Remove it and train again: the remaining performance
    is the real one.
    """
    if leak.others is None or leak.alone < alone or (leak.others > leak.alone - gap and not leak.exact):
        return
    carries = leak.others > 0.1 and leak.others_p < 1e-4  # a real table: other columns are predictive as well
    severity: Severity = "note" if not carries else "bug" if leak.exact else "suspect"
    names = ", ".join(f"`{name}`" for name in leak.columns[:3]) + (
        f" and {len(leak.columns) - 3} more" if len(leak.columns) > 3 else ""
    )
    what = "copies the target" if leak.exact else "predicts the target almost alone"
    yield Finding(
        f"{names} {what}: alone it closes {leak.alone:.1%} of the gap between chance and perfect prediction, the other "
        f"{leak.width - len(leak.columns)} columns together {max(leak.others, 0):.1%} ({leak.size} samples).",
        where=leak.columns[0],
        severity=severity,
        evidence={
            "alone": leak.alone,
            "all others together": leak.others,
            "next best column": leak.runner_up,
            "one to one": leak.exact,
            "threshold": alone,
            "source": "cross-validated trees and baselines; deepchecks' predictive power score warns from 0.7 on",
        },
        remedies=(Remedy("Remove the column from the inputs and train again.", "x = np.delete(x, column, axis=1)"),),
        exhibit=Bars(
            ("this column", "all other columns", "next best column"),
            (leak.alone, max(leak.others, 0.0), max(leak.runner_up, 0.0)),
        ),
    )
