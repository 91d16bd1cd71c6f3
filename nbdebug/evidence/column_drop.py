"""Columns that predict the target in the training data, and not in a held-out split, while the others do in both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from nbdebug.core.control import Control
from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.sample_table import Samples, SampleTable

__all__ = ["ColumnDrop", "ColumnDrops", "column_drops"]

MOST_COLUMNS = 64
FEWEST = 80  # samples of the split, and of each half of the training data
LEAF = 10  # samples in a leaf: a tree of one column is to be smooth
WORTH = 0.3  # from chance to perfect: a column that predicts less has little to lose


@dataclass(frozen=True)
class ColumnDrop:
    """How well one column alone predicts held-out training samples and a split, and all others together do.

    Scores count from 0 (chance) to 1 (perfect); `p` is the probability of such a difference by chance, for any column.
    """

    name: str
    split: str
    train: float
    held_out: float
    p: float
    others_train: float
    others_held_out: float


@dataclass(frozen=True)
class ColumnDrops:
    """For each split the column whose score falls most."""

    columns: tuple[ColumnDrop, ...]


@probe(quick=False)
def column_drops(samples: Samples, control: Control) -> ColumnDrops:
    """Predict the target from each column alone, on held-out training samples and on each split."""
    train = samples.clean
    if train.kind not in ("classes", "numbers") or train.target_is_input or train.labels is None:
        raise NotApplicable("there is not exactly one target per sample")
    width = train.rows.shape[1]
    usable = [t for t in samples.others if t.columns == train.columns and t.kind == train.kind and len(t) >= FEWEST]
    if not usable or len(train) < 2 * FEWEST or not 2 <= width <= MOST_COLUMNS:
        raise NotApplicable("there is no table with a few columns and a held-out split of enough samples")
    order = np.random.default_rng(0).permutation(len(train))
    half = len(order) // 2
    found = []
    for split in usable:
        control.progress(0.0, f"comparing what the columns say in {split.name}")
        drop = _largest(train, order[:half], order[half:], split, control)
        if drop is not None:
            found.append(drop)
    return ColumnDrops(tuple(found))


def _largest(
    train: SampleTable, fit: np.ndarray, test: np.ndarray, split: SampleTable, control: Control
) -> ColumnDrop | None:
    wanted, held = _targets(train), _targets(split)
    best: tuple[float, int, float, float, float] | None = None
    for column in range(train.rows.shape[1]):
        control.poll()
        low, high = np.quantile(train.rows[fit, column], (0.005, 0.995))
        inside = (split.rows[:, column] >= low) & (split.rows[:, column] <= high)
        if inside.mean() < 0.6 or inside.sum() < FEWEST or low == high:
            continue  # a tree says nothing about values that it has not met
        one = [column]
        model = _tree(train.kind).fit(train.rows[fit][:, one], wanted[fit])
        scores = (
            _score(model.predict(train.rows[test][:, one]), wanted[test], train.kind),
            _score(model.predict(split.rows[inside][:, one]), held[inside], train.kind),
        )
        p = _p_value(*scores, wanted[test], held[inside], train.kind) * train.rows.shape[1]
        if scores[0] >= WORTH and (best is None or scores[0] - scores[1] > best[0]):
            best = scores[0] - scores[1], column, *scores, min(1.0, p)
    if best is None:
        return None
    rest = [c for c in range(train.rows.shape[1]) if c != best[1]]
    forest = _forest(train.kind).fit(train.rows[fit][:, rest], wanted[fit])
    others = (
        _score(forest.predict(train.rows[test][:, rest]), wanted[test], train.kind),
        _score(forest.predict(split.rows[:, rest]), held, train.kind),
    )
    return ColumnDrop(train.columns[best[1]], split.name, best[2], best[3], best[4], *others)


def _targets(table: SampleTable) -> np.ndarray:
    """Return the targets in numbers that all splits share."""
    assert table.labels is not None
    return np.asarray(table.classes)[table.labels] if table.kind == "classes" else table.labels.astype(np.float64)


def _tree(kind: str) -> DecisionTreeClassifier | DecisionTreeRegressor:
    if kind == "classes":
        return DecisionTreeClassifier(min_samples_leaf=LEAF, max_leaf_nodes=32, class_weight="balanced", random_state=0)
    return DecisionTreeRegressor(min_samples_leaf=LEAF, max_leaf_nodes=32, random_state=0)


def _forest(kind: str) -> RandomForestClassifier | RandomForestRegressor:
    if kind == "classes":
        return RandomForestClassifier(60, min_samples_leaf=3, class_weight="balanced", random_state=0, n_jobs=1)
    return RandomForestRegressor(60, min_samples_leaf=3, random_state=0, n_jobs=1)


def _score(guess: np.ndarray, wanted: np.ndarray, kind: str) -> float:
    """Return the explained variance, or the balanced accuracy: splits may have other shares of the classes."""
    if kind == "classes":
        classes = np.unique(wanted)
        each = float(np.mean([(guess[wanted == c] == c).mean() for c in classes]))
        return (each - 1 / len(classes)) / (1 - 1 / len(classes)) if len(classes) > 1 else 0.0
    return float(1 - ((wanted - guess) ** 2).sum() / max(((wanted - wanted.mean()) ** 2).sum(), 1e-12))


def _p_value(one: float, other: float, wanted: np.ndarray, held: np.ndarray, kind: str) -> float:
    """Compare two scores: as correlations by Fisher's transformation, or as means of the classes' accuracies."""
    if kind == "classes":
        errors = []
        for labels in (wanted, held):
            _, counts = np.unique(labels, return_counts=True)
            errors.append((0.25 / counts).sum() / len(counts) ** 2)
        distance = (one - other) * (1 - 1 / len(np.unique(wanted)))
        return float(norm.sf(distance / np.sqrt(sum(errors))))
    a, b = (np.arctanh(min(max(score, 0.0) ** 0.5, 0.999)) for score in (one, other))
    return float(norm.sf((a - b) / np.sqrt(1 / (len(wanted) - 3) + 1 / (len(held) - 3))))
