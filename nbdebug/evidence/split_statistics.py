"""Compare the samples of two splits: columns, channels, targets and labels, each with a test."""

from __future__ import annotations

import numpy as np
from scipy import stats
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from nbdebug.evidence.sample_table import SampleTable

__all__ = [
    "channels_swapped",
    "label_difference",
    "moved_columns",
    "quantile_derivatives",
    "target_difference",
    "tell_apart",
]

ALPHA = 1e-6  # of a test after correction for all columns: data sets are large and alarms have to be rare
MOST_COLUMNS = 256  # for the forest
FINEST = 1e-4  # of a column's spread: a forest would tell x / 255 from x * (1 / 255) by their last bits


def moved_columns(train: SampleTable, other: SampleTable) -> tuple[tuple[str, float, float], ...]:
    """List the columns whose mean or scale differs beyond chance, the most different first."""
    a, b = train.rows.astype(np.float64), other.rows.astype(np.float64)
    sa, sb = a.std(0), b.std(0)
    pooled = np.sqrt((sa**2 + sb**2) / 2)
    live = pooled > 1e-12
    level = ALPHA / max(1, 2 * int(live.sum()))
    difference = np.divide(b.mean(0) - a.mean(0), pooled, out=np.zeros_like(pooled), where=live)
    error = np.sqrt(sa**2 / len(a) + sb**2 / len(b)) + 1e-300
    p_mean = 2 * stats.norm.sf(np.abs(b.mean(0) - a.mean(0)) / error)
    ratio = np.divide(sb, sa, out=np.ones_like(sa), where=(sa > 1e-12))
    safe = np.where(_mostly_one_value(a) | _mostly_one_value(b), 1.0, np.clip(ratio, 1e-12, 1e12))
    tails = np.maximum(_kurtosis(a, sa), _kurtosis(b, sb))
    error = np.sqrt((tails - 0.98) / 4 * (1 / len(a) + 1 / len(b)))  # of the logarithm of a ratio of scales
    p_scale = 2 * stats.norm.sf(np.abs(np.log(safe)) / error)
    ratio = safe
    found = live & ((p_mean < level) | (p_scale < level))
    size = np.maximum(np.abs(difference), np.abs(np.log(safe)))
    order = [int(i) for i in np.argsort(-size) if found[i]]
    return tuple((train.columns[i], float(difference[i]), float(ratio[i])) for i in order)


def target_difference(train: SampleTable, other: SampleTable) -> tuple[float, float] | None:
    """Compare targets that are numbers: the difference of the means, and the ratio of the scales, if beyond chance."""
    if train.kind != "numbers" or other.kind != "numbers" or train.labels is None or other.labels is None:
        return None
    a, b = train.labels.astype(np.float64), other.labels.astype(np.float64)
    if not (a.std() > 0 and b.std() > 0):
        return None
    p_mean = float(stats.ttest_ind(a, b, equal_var=False).pvalue)
    p_scale = float(stats.levene(a, b).pvalue)
    if min(p_mean, p_scale) > ALPHA:
        return None
    return float((b.mean() - a.mean()) / a.std()), float(b.std() / a.std())


def _mostly_one_value(values: np.ndarray) -> np.ndarray:
    """Whether a column is constant but for a few samples, so that its scale hangs on those."""
    share: np.ndarray = (values == np.median(values, 0)).mean(0) > 0.7
    return share


def _kurtosis(values: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return how heavy the tails are: 3 for a normal distribution, never below 1."""
    centered = (values - values.mean(0)) / np.maximum(scale, 1e-12)
    tails: np.ndarray = np.maximum((centered**4).mean(0), 1.0)
    return tails


def quantile_derivatives(train: SampleTable, other: SampleTable) -> tuple[tuple[str, float, float, float], ...]:
    """For each input, give factor and offset between the quantiles of its values, and how straight that line is.

    Both are medians over all pairs of quantiles: exact where most of the quantiles are, as those of pixels.
    """
    found = []
    for group in dict.fromkeys(train.groups):
        used = np.asarray(
            [g == group and " (counts)" not in c for g, c in zip(train.groups, train.columns, strict=True)]
        )
        levels = np.linspace(0.02, 0.98, 49)
        a, b = np.quantile(train.rows[:, used], levels), np.quantile(other.rows[:, used], levels)
        if np.ptp(a) < 1e-12 or np.ptp(b) < 1e-12:
            continue
        fit, median = stats.linregress(a, b), stats.theilslopes(b, a)
        line = median if median.slope > 0 else fit  # most pairs may tie
        found.append((group, float(line.slope), float(line.intercept), float(fit.rvalue**2)))
    return tuple(found)


def tell_apart(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Let a forest guess the split of each sample, and give the area under its curve with a p-value."""
    chance = np.random.default_rng(0)
    size = min(len(a), len(b), 600)
    rows = np.concatenate([a[chance.permutation(len(a))[:size]], b[chance.permutation(len(b))[:size]]])
    if rows.shape[1] > MOST_COLUMNS:
        rows = rows[:, chance.permutation(rows.shape[1])[:MOST_COLUMNS]]
    rows = rows + FINEST * rows.std(0) * chance.standard_normal(rows.shape)  # hides what other rounding leaves
    side = np.repeat([0, 1], size)
    forest = RandomForestClassifier(60, min_samples_leaf=3, random_state=0, n_jobs=1)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    guess = cross_val_predict(forest, rows, side, cv=folds, method="predict_proba")[:, 1]
    auc = float(roc_auc_score(side, guess))
    p = float(stats.mannwhitneyu(guess[side == 1], guess[side == 0], alternative="greater").pvalue)
    return auc, p


def channels_swapped(train: SampleTable, other: SampleTable) -> bool:
    """Whether the color channels of one split fit those of the other only in reversed order."""
    if train.images is None or train.images[0] != 3 or train.images != other.images:
        return False
    first = train.groups.index(train.groups[0])
    width = sum(group == train.groups[0] for group in train.groups) // 3
    if width * 3 != sum(group == train.groups[0] for group in train.groups):
        return False
    a, b = (t.rows[:, first : first + 3 * width].reshape(len(t), 3, width).mean(2) for t in (train, other))
    straight, reverse = _fit_of_means(a, b), _fit_of_means(a, b[:, ::-1])
    return bool(straight > stats.chi2.isf(ALPHA, 3) and reverse < stats.chi2.isf(0.01, 3))


def _fit_of_means(a: np.ndarray, b: np.ndarray) -> float:
    """Hotelling's statistic for equal means of two samples with three columns."""
    spread = np.cov(a.T) / len(a) + np.cov(b.T) / len(b) + 1e-12 * np.eye(3)
    difference = a.mean(0) - b.mean(0)
    return float(difference @ np.linalg.solve(spread, difference))


def label_difference(
    train: SampleTable, other: SampleTable
) -> tuple[float | None, float, tuple[str, ...], float, tuple[tuple[str, float, float], ...]]:
    """Compare how often each label comes; half the sum of the differences is 0 for equal and 1 for disjoint labels."""
    if train.kind != "classes" or other.kind != "classes" or train.labels is None or other.labels is None:
        return None, 1.0, (), 0.0, ()
    known = sorted(c for c in {*train.classes, *other.classes} if c >= 0)  # negative ids mark samples without a label
    a = np.asarray([np.sum(np.asarray(train.classes)[train.labels] == c) for c in known], dtype=float)
    b = np.asarray([np.sum(np.asarray(other.classes)[other.labels] == c) for c in known], dtype=float)
    if not (a.any() and b.any()):
        return None, 1.0, (), 0.0, ()
    kept = (a + b) > 0
    p = float(stats.chi2_contingency(np.stack([a, b])[:, kept] + 0.5).pvalue) if kept.sum() > 1 else 1.0
    pa, pb = a / a.sum(), b / b.sum()
    unseen = (a == 0) & (b >= 3)
    table = tuple((f"{c:g}", float(x), float(y)) for c, x, y in zip(known, pa, pb, strict=True))
    names = tuple(f"{c:g}" for c, new in zip(known, unseen, strict=True) if new)
    return float(np.abs(pa - pb).sum() / 2), p, names, float(pb[unseen].sum()), table[:30]
