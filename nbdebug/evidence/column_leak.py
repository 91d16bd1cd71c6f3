"""The column, or the few columns, that predict the target best alone, against all the others together."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from nbdebug.core.control import Control
from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.baselines import class_scores, number_scores
from nbdebug.evidence.sample_table import Samples, SampleTable

__all__ = ["ColumnLeak", "column_leak"]


@dataclass(frozen=True)
class ColumnLeak:
    """The input column (or few columns) that predicts the target best alone, against all the others together.

    Scores count from 0 (chance) to 1 (perfect). `exact` says that the column is the target under another name: each
    value of one belongs to exactly one value of the other, or it is a straight line of it. `others` is None where no
    column goes so far alone that the comparison would be worth its time.
    """

    columns: tuple[str, ...]
    alone: float
    others: float | None
    others_p: float
    runner_up: float
    exact: bool
    width: int
    size: int
    kind: str


ROWS = 800
FEWEST = 60
TRIED = 12  # columns that are tried alone, chosen by a quick look at all
WORTH = 0.5  # of the way from chance to perfect: a column that goes less far alone gives nothing away


@probe(quick=False)
def column_leak(samples: Samples, control: Control) -> ColumnLeak:
    """Predict the target from each suspicious column alone, and from all others."""
    table = samples.train
    if table.labels is None or table.kind not in ("classes", "numbers"):
        raise NotApplicable("there is not exactly one target per sample")
    if table.target_is_input:
        raise NotApplicable("the target has the shape of the input")
    if len(table) < FEWEST or table.rows.shape[1] < 2:
        raise NotApplicable("there are too few samples, or only one input column")
    rows, labels = table.rows[:ROWS].astype(np.float64), table.labels[:ROWS]
    if table.kind == "classes":
        kept = np.flatnonzero(np.bincount(labels)[labels] >= 6)
        rows, labels = rows[kept], np.unique(labels[kept], return_inverse=True)[1]
    if len(labels) < FEWEST or len(np.unique(labels)) < 2:
        raise NotApplicable("too few samples with different targets")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _search(table, rows, labels, control)


def _search(table: SampleTable, rows: np.ndarray, labels: np.ndarray, control: Control) -> ColumnLeak:
    by_class = table.kind == "classes"
    promise = _by_class(rows, labels) if by_class else _by_rank(rows, labels)
    order = [int(i) for i in np.argsort(-promise)[:TRIED]]
    tried = [c for place, c in enumerate(order) if place < 2 or promise[c] >= WORTH or not by_class]
    alone = {}
    for number, column in enumerate(tried):
        control.progress(0.5 * number / TRIED, "predicting the target from single columns")
        alone[column] = _score_alone(rows[:, [column]], labels, by_class)
    best = max(alone, key=lambda column: alone[column])
    group = [best]
    if by_class and (indicators := _indicators(rows, labels)):
        score = _score_alone(rows[:, indicators], labels, by_class)
        if score > alone[best]:
            group, alone = indicators, {**alone, best: score}
    if alone[best] < WORTH:
        name = table.columns[best]
        return ColumnLeak((name,), alone[best], None, 1.0, 0.0, False, rows.shape[1], len(labels), table.kind)
    copies = [c for c in range(rows.shape[1]) if c in group or _is_same(rows[:, c], rows[:, best])]
    left = np.delete(rows, copies, 1)
    others, p = _together(left, labels, by_class, control) if left.shape[1] else (0.0, 1.0)
    runner_up = max((score for column, score in alone.items() if column not in copies), default=0.0)
    exact = len(group) > 1 or (_one_to_one(rows[:, best], labels) if by_class else _is_line(rows[:, best], labels))
    names = tuple(table.columns[c] for c in group)
    return ColumnLeak(names, alone[best], others, p, runner_up, exact, rows.shape[1], len(labels), table.kind)


def _by_class(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return how far each column in many small bins goes from chance to perfect; no tree on its own goes much
    further.
    """
    classes = int(labels.max()) + 1
    chance = np.bincount(labels).max() / len(labels)
    promise = np.zeros(rows.shape[1])
    for column in range(rows.shape[1]):
        bins = _coarse(rows[:, column], max(24, 3 * classes))
        table = np.bincount(bins * classes + labels, minlength=(int(bins.max()) + 1) * classes).reshape(-1, classes)
        promise[column] = (table.max(1).sum() - 0.1 * len(table)) / len(labels)
    shares: np.ndarray = (promise - chance) / (1 - chance)
    return shares


def _coarse(column: np.ndarray, most: int) -> np.ndarray:
    """Put the values into bins: one for each value where there are few, and else bins of about equal counts."""
    ordered = np.sort(column)
    new = np.concatenate(([True], ordered[1:] != ordered[:-1]))
    if int(new.sum()) <= most:
        return np.searchsorted(ordered[new], column)
    coarse: np.ndarray = np.searchsorted(ordered, column) * most // len(column)
    return coarse


def _by_rank(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    ranks, wanted = np.apply_along_axis(rankdata, 0, rows), rankdata(values)
    centered, wanted = ranks - ranks.mean(0), wanted - wanted.mean()
    size = np.sqrt((centered**2).sum(0) * (wanted**2).sum())
    promise: np.ndarray = np.abs(centered.T @ wanted) / np.maximum(size, 1e-12)
    return promise


def _indicators(rows: np.ndarray, labels: np.ndarray) -> list[int]:
    """Return the columns that are 1 for one class and 0 for all others, if they cover almost all classes."""
    classes = int(labels.max()) + 1
    if classes < 3:
        return []
    found: dict[int, int] = {}
    for column in range(rows.shape[1]):
        values = np.unique(rows[:, column])
        if len(values) == 2:
            owners = np.unique(labels[rows[:, column] == values[1]])
            if len(owners) == 1 and bool((rows[labels == owners[0], column] == values[1]).all()):
                found.setdefault(int(owners[0]), column)
    return sorted(found.values()) if len(found) >= classes - 1 else []


def _score_alone(rows: np.ndarray, labels: np.ndarray, by_class: bool) -> float:
    """Let a small tree predict from these columns; 0 is chance and 1 perfect."""
    if by_class:
        leaves = max(8, 3 * (int(labels.max()) + 1))
        tree = DecisionTreeClassifier(max_leaf_nodes=leaves, min_samples_leaf=2, random_state=0)
        answer = cross_val_predict(tree, rows, labels, cv=StratifiedKFold(3, shuffle=True, random_state=0))
        chance = np.bincount(labels).max() / len(labels)
        return float(((answer == labels).mean() - chance) / (1 - chance))
    tree = DecisionTreeRegressor(min_samples_leaf=2, random_state=0)
    guess = cross_val_predict(tree, rows, labels, cv=KFold(3, shuffle=True, random_state=0))
    line = np.polyval(np.polyfit(rows[:, 0], labels, 1), rows[:, 0]) if np.ptp(rows[:, 0]) else guess
    return max(_explained(guess, labels), _explained(line, labels))


def _together(rows: np.ndarray, labels: np.ndarray, by_class: bool, control: Control) -> tuple[float, float]:
    """Return the best score of simple models on these columns, and the probability of it by chance."""

    def tell(fraction: float) -> None:
        control.progress(0.5 + 0.5 * fraction, "predicting the target from all other columns")

    if not by_class:
        scores = [_explained(guess, labels) for guess in number_scores(rows, labels, tell).values()]
        best = max(scores)
        return best, float(np.exp(-len(labels) * max(best, 0.0) / 2))
    chance = float(np.bincount(labels).max() / len(labels))
    right = max(float((p.argmax(1) == labels).mean()) for p in class_scores(rows, labels, tell).values())
    error = np.sqrt(chance * (1 - chance) / len(labels))
    return (right - chance) / (1 - chance), float(np.exp(-0.5 * max(0.0, (right - chance) / error) ** 2))


def _explained(guess: np.ndarray, values: np.ndarray) -> float:
    return float(1 - ((values - guess) ** 2).sum() / max(((values - values.mean()) ** 2).sum(), 1e-12))


def _one_to_one(column: np.ndarray, labels: np.ndarray) -> bool:
    pairs = np.unique(np.stack([np.unique(column, return_inverse=True)[1], labels], 1), axis=0)
    return len(pairs) == len(np.unique(labels)) == len(np.unique(column))


def _is_line(column: np.ndarray, values: np.ndarray) -> bool:
    return bool(np.ptp(column) > 0 and abs(np.corrcoef(column, values)[0, 1]) > 0.99999)


def _is_same(column: np.ndarray, other: np.ndarray) -> bool:
    """Whether one column is a straight line of the other, so that leaving out one changes nothing."""
    if np.ptp(column) == 0:
        return False
    return abs(float(np.corrcoef(column, other)[0, 1])) > 0.9999
