"""An input column leaks the target."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy, Severity
from nbdebug.core.registry import check
from nbdebug.evidence.column_drop import ColumnDrop, ColumnDrops
from nbdebug.evidence.column_leak import ColumnLeak

__all__ = ["target_leaks_into_inputs"]


@check(explains=("initial-loss-off",))
def target_leaks_into_inputs(
    leak: ColumnLeak,
    drops: ColumnDrops | None,
    *,
    alone: float = 0.98,  # score of one column, from chance (0) to perfect (1); our choice
    gap: float = 0.1,  # by which the other columns together must score lower; our choice
    others: float = 0.1,  # score of the other columns together: less is hardly a table to learn from; our choice
    others_p: float = 1e-4,  # of such a score by chance; our choice
    lost: float = 0.5,  # of a column's score in training, which a split has at most; our choice
    lost_p: float = 1e-6,  # of that by chance; our choice
    kept: float = 0.6,  # of the score of the other columns, which the split has at least; our choice
) -> Iterator[Finding]:
    """One input column predicts the target almost alone, or in the training data only.

    nbdebug predicts the target from single columns with a small decision tree, and from all other columns together with
    nearest neighbors, a linear model and a random forest, always on held-out samples. Where there are validation data,
    it also looks for a column that predicts held-out training samples and not these, while all others do both.

    Why it matters: a column that contains the target, or something that is known only after the target, makes training
    and validation look perfect. In deployment the column is missing or empty. A mean of the targets that includes the
    sample itself (target encoding) gives the target away in training, and only there.

    What to try: find out when and how this column gets its value. Remove it and train again: the remaining performance
    is the real one.
    """
    for drop in drops.columns if drops is not None else ():
        is_lost = drop.held_out <= lost * drop.train and drop.p <= lost_p
        if is_lost and drop.others_train > others and drop.others_held_out >= kept * drop.others_train:
            yield _in_training_only(drop, lost)
    if leak.others is None or leak.alone < alone or (leak.others > leak.alone - gap and not leak.exact):
        return
    carries = leak.others > others and leak.others_p < others_p  # a real table: other columns are predictive as well
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
        remedies=(
            Remedy(
                "Remove the column from the inputs and train again.",
                "x = np.delete(x, column, axis=1)",
                Patch("remove-columns", {"columns": list(leak.columns)}),
            ),
        ),
        exhibit=Bars(
            ("this column", "all other columns", "next best column"),
            (leak.alone, max(leak.others, 0.0), max(leak.runner_up, 0.0)),
        ),
    )


def _in_training_only(drop: ColumnDrop, limit: float) -> Finding:
    return Finding(
        f"`{drop.name}` predicts the target in the training data only: alone it closes {drop.train:.0%} of the gap "
        f"between chance and perfect prediction there (held-out samples) and {max(drop.held_out, 0):.0%} in "
        f"`{drop.split}`.",
        where=drop.name,
        severity="suspect",
        evidence={
            "alone, held-out training samples": drop.train,
            "alone, the split": drop.held_out,
            "p": drop.p,
            "others, held-out training samples": drop.others_train,
            "others, the split": drop.others_held_out,
            "threshold": limit,
            "source": "trees fitted to half of the training samples; Fisher's test of two correlations",
        },
        remedies=(
            Remedy(
                "Compute what is made of targets without the sample itself, in folds, for the training data.",
                "for fit, rest in KFold(5, shuffle=True).split(table):\n"
                "    means = table.iloc[fit].groupby(key)[target].mean()\n"
                "    encoded.iloc[rest] = table.iloc[rest][key].map(means)",
            ),
        ),
        exhibit=Bars(("training", drop.split), (drop.train, max(drop.held_out, 0.0)), "Score of this column alone"),
    )
