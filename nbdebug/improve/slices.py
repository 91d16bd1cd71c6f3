"""Parts of the data on which a model is worse: named by the user, or found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from nbdebug.errors import BadInput
from nbdebug.improve.scoring import Scores

__all__ = ["Slice", "found_slices", "given_slices"]

LEAST = 20  # samples: fewer say too little about an error rate
SHARE = 0.02  # of all samples: what is smaller matters little


@dataclass(frozen=True)
class Feature:
    """A column that slices can be made of; `is_level` where it is 1 for one level of something and else 0."""

    name: str
    is_level: bool = False


@dataclass(frozen=True)
class Slice:
    """One part of the data: its size, its error, its share of all errors, and how likely chance alone gives that."""

    name: str
    members: np.ndarray
    error: float
    share: float
    p_value: float
    rule: Callable[[Scores], np.ndarray | None] | None = field(default=None, repr=False, compare=False)

    @property
    def size(self) -> int:
        """The number of samples in it."""
        return int(self.members.sum())


def given_slices(scores: Scores, slices: Mapping[str, Any], sample: Callable[[int], Any] | None) -> list[Slice]:
    """Judge the user's own slices: values by index of the data set (a pandas column, a list), or a function."""
    found: list[Slice] = []
    for name, values in slices.items():
        keys = _keys(name, values, scores, sample)
        levels = _levels(keys)
        found += [_slice(f"{name} {label}", members, scores.errors) for label, members in levels if members.any()]
    return sorted(found, key=lambda part: -part.error)


def _keys(name: str, values: Any, scores: Scores, sample: Callable[[int], Any] | None) -> np.ndarray:
    if callable(values):
        if sample is None:
            raise BadInput(
                "this loader does not index its samples",
                where=f"slices[{name!r}]",
                expected="a DataLoader over a dataset with __getitem__, for a slice that is a function",
                do="pass the values as a list in the order of the dataset instead",
            )
        return np.asarray([values(sample(int(index))) for index in scores.indices])
    column = np.asarray(values)
    if len(column) <= int(scores.indices.max()):
        raise BadInput(
            f"it has {len(column)} values, and sample {int(scores.indices.max())} was drawn",
            where=f"slices[{name!r}]",
            expected="one value per sample of the dataset, in its order",
            do="pass a column of the table that the dataset was created from",
        )
    chosen: np.ndarray = column[scores.indices]
    return chosen


def _levels(keys: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Split by value where there are few, else numbers into quarters and the rest by the commonest."""
    values, counts = np.unique(keys.astype(str) if keys.dtype == object else keys, return_counts=True)
    keys = keys.astype(values.dtype)
    if len(values) <= 12:
        return [(f"= {value}", keys == value) for value in values]
    if np.issubdtype(values.dtype, np.number):
        edges = np.quantile(keys, (0.25, 0.5, 0.75))
        place = np.searchsorted(edges, keys, side="right")
        names = (f"< {edges[0]:.4g}", f"{edges[0]:.4g} to {edges[1]:.4g}", f"{edges[1]:.4g} to {edges[2]:.4g}")
        return [(label, place == i) for i, label in enumerate((*names, f"≥ {edges[2]:.4g}"))]
    commonest = values[np.argsort(-counts)][:12]
    return [(f"= {value}", keys == value) for value in commonest]


def found_slices(scores: Scores, more: Mapping[str, Any] | None = None, most: int = 5) -> list[Slice]:
    """Find the slices with the worst error: a small tree on one half of the samples, judged on the other half."""
    rows, features = _features(scores, more or {})
    count = len(scores.errors)
    if rows.shape[1] == 0 or count < 4 * LEAST:
        return []
    from sklearn.tree import DecisionTreeRegressor

    order = np.random.default_rng(0).permutation(count)
    fit, judge = order[: count // 2], order[count // 2 :]
    least = max(LEAST, int(SHARE * count))
    tree = DecisionTreeRegressor(max_leaf_nodes=8, min_samples_leaf=max(LEAST // 2, least // 2), random_state=0)
    tree.fit(rows[fit], scores.errors[fit])
    leaves = tree.apply(rows[judge])
    found = []
    for leaf in np.unique(leaves):
        held = _slice("", leaves == leaf, scores.errors[judge])
        if held.size >= LEAST // 2 and held.p_value < 0.01 / len(np.unique(leaves)) and held.error > scores.mean:
            members = tree.apply(rows) == leaf
            whole = _slice(_path(tree.tree_, int(leaf), features), members, scores.errors)
            rule = partial(_in_leaf, tree, int(leaf), features)
            found.append(Slice(whole.name, members, held.error, whole.share, held.p_value, rule))
    return sorted(found, key=lambda part: -part.error)[:most]


def _in_leaf(tree: Any, leaf: int, features: Sequence[Feature], scores: Scores) -> np.ndarray | None:
    """Say which samples of other data are in a slice that was found; None where they have other columns."""
    rows, others = _features(scores, {})
    members: np.ndarray | None = tree.apply(rows) == leaf if list(others) == list(features) else None
    return members


def _features(scores: Scores, more: Mapping[str, Any]) -> tuple[np.ndarray, list[Feature]]:
    """Return what slices can be made of: the inputs' columns, summaries of wide inputs, the label, the user's
    columns.
    """
    blocks: list[np.ndarray] = []
    features: list[Feature] = []
    if scores.rows is not None and scores.rows.shape[1]:
        if scores.rows.shape[1] <= 100:
            blocks.append(scores.rows)
            features += [Feature(name) for name in scores.columns]
        else:
            blocks.append(np.stack([scores.rows.mean(1), scores.rows.std(1), scores.rows.max(1)], 1))
            features += [
                Feature("mean of the input"),
                Feature("standard deviation of the input"),
                Feature("maximum of the input"),
            ]
    if scores.targets is not None:
        classes = np.unique(scores.targets)[:50]
        blocks.append((scores.targets[:, None] == classes[None]).astype(float))
        features += [Feature(f"label {label}", is_level=True) for label in classes]
    for name, values in more.items():
        column = np.asarray(values)[scores.indices]
        if np.issubdtype(column.dtype, np.number) or column.dtype == bool:
            blocks.append(column.astype(float)[:, None])
            features.append(Feature(name))
        else:
            levels = np.unique(column.astype(str))[:20]
            blocks.append((column.astype(str)[:, None] == levels[None]).astype(float))
            features += [Feature(f"{name} = {level}", is_level=True) for level in levels]
    return (np.concatenate(blocks, 1) if blocks else np.zeros((len(scores.errors), 0))), features


def _path(tree: Any, leaf: int, features: Sequence[Feature]) -> str:
    """Say in words which conditions lead to a leaf."""
    words: list[str] = []
    node = leaf
    while node:
        left = np.flatnonzero(tree.children_left == node)
        parent = int(left[0]) if len(left) else int(np.flatnonzero(tree.children_right == node)[0])
        feature, edge = features[tree.feature[parent]], tree.threshold[parent]
        if feature.is_level:
            words.append(f"not {feature.name}" if len(left) else feature.name)
        else:
            words.append(f"{feature.name} {'≤' if len(left) else '>'} {edge:.4g}")
        node = parent
    return " and ".join(reversed(words))


def _slice(name: str, members: np.ndarray, errors: np.ndarray) -> Slice:
    inside, outside = errors[members], errors[~members]
    share = float(inside.sum() / errors.sum()) if errors.sum() > 0 else 0.0
    return Slice(name, members, float(inside.mean()), share, _p_value(inside, outside))


def _p_value(inside: np.ndarray, outside: np.ndarray) -> float:
    """Say how likely so much more error inside than outside is by chance."""
    if len(inside) < 2 or len(outside) < 2 or (np.ptp(inside) == 0 and np.ptp(outside) == 0):
        return 1.0
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(inside, outside, alternative="greater").pvalue)
