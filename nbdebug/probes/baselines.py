"""Let simple models predict the labels, by cross-validation."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nbdebug.control import Control
from nbdebug.errors import NotApplicable
from nbdebug.evidence import Baselines, Samples, Table
from nbdebug.registry import probe

__all__ = ["baselines", "class_scores", "number_scores"]

ROWS = 1200
FEWEST = 60
COMPONENTS = 40
SHUFFLES = 2000
RELATED = 0.01  # as labels-unrelated-to-inputs judges it


@probe
def baselines(samples: Samples, control: Control) -> Baselines:
    """Let nearest neighbours, a linear model and a forest predict the labels of samples they have not seen."""
    table = samples.train
    if table.kind not in ("classes", "numbers", "several") or table.labels is None:
        raise NotApplicable("the targets are not one answer for each sample")
    if table.target_is_input:
        raise NotApplicable("the target has the shape of the input, so that there are no labels to predict")
    if len(table) < FEWEST:
        raise NotApplicable(f"{len(table)} samples are too few for a test with simple models")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = _predicted(table, control)
        other = next((t for t in samples.others if t.kind == table.kind and len(t) >= FEWEST), None)
        if found.p < RELATED or other is None:
            return found
        try:
            return replace(found, held_out=_predicted(other, control).p)
        except NotApplicable:
            return found


def _predicted(table: Table, control: Control) -> Baselines:
    return _for_classes(table, control) if table.kind == "classes" else _for_numbers(table, control)


def class_scores(rows: np.ndarray, labels: np.ndarray, tell: Any) -> dict[str, np.ndarray]:
    """Give for each simple model the probabilities that it gives each class, for samples it was not fitted on."""
    width = max(1, min(COMPONENTS, rows.shape[1], len(rows) // 4))
    models = {
        "nearest neighbours": make_pipeline(StandardScaler(), PCA(width), KNeighborsClassifier(9)),
        "linear": make_pipeline(
            StandardScaler(), PCA(width), LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
        ),
        "forest": RandomForestClassifier(80, min_samples_leaf=2, random_state=0, n_jobs=1),
    }
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    found = {}
    for number, (name, model) in enumerate(models.items()):
        tell(number / len(models))
        found[name] = cross_val_predict(model, rows, labels, cv=folds, method="predict_proba")
    return found


def number_scores(rows: np.ndarray, values: np.ndarray, tell: Any) -> dict[str, np.ndarray]:
    """Give for each simple model its predictions for samples it was not fitted on."""
    width = max(1, min(COMPONENTS, rows.shape[1], len(rows) // 4))
    models = {
        "nearest neighbours": make_pipeline(StandardScaler(), PCA(width), KNeighborsRegressor(7)),
        "linear": make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 4, 7))),
        "forest": RandomForestRegressor(60, min_samples_leaf=3, max_features=0.5, random_state=0, n_jobs=1),
    }
    folds = KFold(3, shuffle=True, random_state=0)
    found = {}
    for number, (name, model) in enumerate(models.items()):
        tell(number / len(models))
        found[name] = cross_val_predict(model, rows, values, cv=folds)
    return found


def _for_classes(table: Table, control: Control) -> Baselines:
    assert table.labels is not None
    counts = np.bincount(table.labels)
    kept = np.flatnonzero(counts[table.labels] >= 6)[:ROWS]  # rarer classes cannot be in every fold
    if len(kept) < FEWEST or len(np.unique(table.labels[kept])) < 2:
        raise NotApplicable("too few samples of more than one class")
    used, labels = np.unique(table.labels[kept], return_inverse=True)
    scores = class_scores(table.rows[kept], labels, lambda f: control.progress(f, "fitting simple models"))
    answers = {name: table_of.argmax(1) for name, table_of in scores.items()}
    right = {name: float((answer == labels).mean()) for name, answer in answers.items()}
    tests = {name: _by_shuffling(_hits(answer, labels), answer, labels) for name, answer in answers.items()}
    best = max(right, key=lambda name: right[name])
    order = np.arange(len(labels))
    return Baselines(
        kind="classes",
        size=len(kept),
        scores=right,
        best=best,
        chance=float(np.bincount(labels).max() / len(labels)),
        p=min(1.0, len(tests) * min(tests.values())),
        indices=tuple(table.indices[i] for i in kept),
        classes=tuple(table.classes[i] for i in used),
        labels=labels,
        predicted=answers[best],
        sure=scores[best].max(1),
        given=scores[best][order, labels],
    )


def _hits(answer: np.ndarray, labels: np.ndarray) -> float:
    """Give the mean share of right answers over the classes, so that a common class does not hide the rest."""
    return float(np.mean([(answer[labels == c] == c).mean() for c in np.unique(labels)]))


def _by_shuffling(observed: float, answer: np.ndarray, labels: np.ndarray) -> float:
    """Give how often shuffled labels fit the same predictions as well."""
    chance = np.random.default_rng(0)
    counts = np.bincount(labels).astype(float)
    better = 0
    for _ in range(SHUFFLES):
        other = chance.permutation(labels)
        hits = np.bincount(other[answer == other], minlength=len(counts)) / counts
        better += float(hits.mean()) >= observed
    return (better + 1) / (SHUFFLES + 1)


@dataclass(frozen=True)
class _Fit:
    explained: float
    p: float


def _for_numbers(table: Table, control: Control) -> Baselines:
    assert table.labels is not None
    columns = table.labels[:ROWS].reshape(min(len(table), ROWS), -1)
    varied = [i for i in range(columns.shape[1]) if columns[:, i].std() > 0][:3]
    if not varied:
        raise NotApplicable("all targets are equal")
    fits: dict[str, _Fit] = {}
    for number, column in enumerate(varied):
        values = columns[:, column]

        def tell(fraction: float, done: float = number / len(varied)) -> None:
            control.progress(done + fraction / len(varied), "fitting simple models")

        for name, guess in number_scores(table.rows[: len(values)], values, tell).items():
            fit = _explained(guess, values)
            if name not in fits or fit.p < fits[name].p or fit.explained > fits[name].explained:
                fits[name] = fit
    best = max(fits, key=lambda name: fits[name].explained)
    p = min(fit.p for fit in fits.values()) * len(fits) * len(varied)
    return Baselines("numbers", len(columns), {n: f.explained for n, f in fits.items()}, best, 0.0, min(1.0, p))


def _explained(guess: np.ndarray, values: np.ndarray) -> _Fit:
    """Give the share of the variance explained, and a rank test, which outliers cannot fool."""
    from scipy.stats import spearmanr

    left = float(((values - guess) ** 2).sum() / ((values - values.mean()) ** 2).sum())
    if np.ptp(guess) == 0:
        return _Fit(0.0, 1.0)
    return _Fit(1 - left, float(spearmanr(guess, values, alternative="greater").pvalue))
