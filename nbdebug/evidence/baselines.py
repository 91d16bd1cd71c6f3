"""Let simple models predict the labels, by cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nbdebug.core.control import Control
from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.sample_table import Samples, SampleTable

__all__ = ["Baselines", "baselines", "class_scores", "number_scores"]


@dataclass(frozen=True)
class Baselines:
    """What simple models make of the inputs by cross-validation, against the same labels shuffled.

    `scores` are accuracies or shares of variance explained; `p` is the probability of the best score if inputs and
    labels had nothing to do with each other, corrected for the number of models. Arrays have one entry a sample: the
    label, the label that the best model predicts, and how sure it is of either. `held_out` is the same probability for
    the validation data, where there are enough of them and the training data show no relation.
    """

    kind: str
    size: int
    scores: dict[str, float]
    best: str
    chance: float
    p: float
    indices: tuple[int, ...] = ()
    classes: tuple[float, ...] = ()
    labels: np.ndarray = field(default_factory=lambda: np.zeros(0))
    predicted: np.ndarray = field(default_factory=lambda: np.zeros(0))
    sure: np.ndarray = field(default_factory=lambda: np.zeros(0))
    given: np.ndarray = field(default_factory=lambda: np.zeros(0))
    held_out: float | None = None

    @property
    def score(self) -> float:
        """The best score."""
        return self.scores[self.best]

    @property
    def gain(self) -> float:
        """How far the best score is on the way from chance to perfect."""
        return (self.score - self.chance) / max(1 - self.chance, 1e-9)


ROWS = 1200
FEWEST = 60
COMPONENTS = 40
SHUFFLES = 1000
RELATED = 0.01  # as labels-unrelated-to-inputs judges it
CLEAR = 0.6  # of the way from chance to perfect: twice what any check asks of a task that simple models can judge
RARE = 0.02  # errors of the surest third; wrong labels would show there as everywhere else
MODELS = ("nearest neighbors", "linear", "forest")

Tell = Callable[[float], None]


@probe(quick=False)
def baselines(samples: Samples, control: Control) -> Baselines:
    """Cross-validate baselines: nearest neighbors, a linear model and a random forest."""
    table = samples.train
    if table.kind not in ("classes", "numbers", "several") or table.labels is None:
        raise NotApplicable("the targets are not one value per sample")
    if table.target_is_input:
        raise NotApplicable("the target has the shape of the input, so there are no labels to predict")
    if len(table) < FEWEST:
        raise NotApplicable(f"{len(table)} samples are too few to evaluate simple models")
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


def _predicted(table: SampleTable, control: Control) -> Baselines:
    return _for_classes(table, control) if table.kind == "classes" else _for_numbers(table, control)


def class_scores(
    rows: np.ndarray, labels: np.ndarray, tell: Tell, is_clear: Callable[[np.ndarray], bool] = lambda _: False
) -> dict[str, np.ndarray]:
    """Return for each simple model the probabilities that it gives each class, for samples it was not fitted on.

    The forest is by far the slowest, and is left out where another model's answer is clear.
    """
    short = _main_directions(rows)
    models = {
        "nearest neighbors": (KNeighborsClassifier(9), short),
        "linear": (LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"), short),
        "forest": (RandomForestClassifier(80, min_samples_leaf=2, random_state=0, n_jobs=1), rows),
    }
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    found: dict[str, np.ndarray] = {}
    for number, (name, (model, given)) in enumerate(models.items()):
        tell(number / len(models))
        if name == "forest" and any(is_clear(scores) for scores in found.values()):
            break
        found[name] = cross_val_predict(model, given, labels, cv=folds, method="predict_proba")
    return found


def number_scores(
    rows: np.ndarray, values: np.ndarray, tell: Tell, is_clear: Callable[[np.ndarray], bool] = lambda _: False
) -> dict[str, np.ndarray]:
    """Return for each simple model its predictions for samples it was not fitted on; the forest only where needed."""
    models = {
        "nearest neighbors": (KNeighborsRegressor(7), _main_directions(rows)),
        "linear": (make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 4, 7))), rows),
        "forest": (
            RandomForestRegressor(60, min_samples_leaf=3, max_features=0.5, random_state=0, n_jobs=1), rows
        ),
    }  # fmt: skip
    folds = KFold(3, shuffle=True, random_state=0)
    found: dict[str, np.ndarray] = {}
    for number, (name, (model, given)) in enumerate(models.items()):
        tell(number / len(models))
        if name == "forest" and any(is_clear(guess) for guess in found.values()):
            break
        found[name] = cross_val_predict(model, given, values, cv=folds)
    return found


def _main_directions(rows: np.ndarray) -> np.ndarray:
    """Shorten the rows to their main directions, once for all folds: no label is looked at, so none can leak."""
    width = max(1, min(COMPONENTS, rows.shape[1], len(rows) // 4))
    short: np.ndarray = make_pipeline(StandardScaler(), PCA(width, random_state=0)).fit_transform(rows)
    return short


def _for_classes(table: SampleTable, control: Control) -> Baselines:
    assert table.labels is not None
    counts = np.bincount(table.labels)
    kept = np.flatnonzero(counts[table.labels] >= 6)[:ROWS]  # rarer classes cannot be in every fold
    if len(kept) < FEWEST or len(np.unique(table.labels[kept])) < 2:
        raise NotApplicable("too few samples, or only one class")
    used, labels = np.unique(table.labels[kept], return_inverse=True)
    scores = class_scores(
        table.rows[kept],
        labels,
        lambda f: control.progress(f, "fitting baselines"),
        lambda found: _are_predicted(found, labels),
    )
    answers = {name: table_of.argmax(1) for name, table_of in scores.items()}
    right = {name: float((answer == labels).mean()) for name, answer in answers.items()}
    best = max(right, key=lambda name: right[name])
    order = np.arange(len(labels))
    return Baselines(
        kind="classes",
        size=len(kept),
        scores=right,
        best=best,
        chance=float(np.bincount(labels).max() / len(labels)),
        p=_least_p([answers[best], *answers.values()], labels, len(MODELS)),
        indices=tuple(table.indices[i] for i in kept),
        classes=tuple(table.classes[i] for i in used),
        labels=labels,
        predicted=answers[best],
        sure=scores[best].max(1),
        given=scores[best][order, labels],
    )


def _are_predicted(scores: np.ndarray, labels: np.ndarray) -> bool:
    """Whether a model predicts so much, and errs so rarely where it is sure, that a better one could add nothing."""
    wrong = scores.argmax(1) != labels
    chance = np.bincount(labels).max() / len(labels)
    surest = np.argsort(-scores.max(1), kind="stable")[: len(wrong) // 3]
    return bool(1 - wrong.mean() > chance + CLEAR * (1 - chance) and wrong[surest].mean() < RARE)


def _least_p(answers: list[np.ndarray], labels: np.ndarray, models: int) -> float:
    """Return the smallest p of these answers, corrected for the number of models; none can be below the first bound."""
    least = 1.0
    for answer in answers:
        least = min(least, _by_shuffling(_hits(answer, labels), answer, labels))
        if least <= 1 / (SHUFFLES + 1):
            break
    return min(1.0, models * least)


def _hits(answer: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean share of right answers over the classes, so that a common class does not hide the rest."""
    return float(np.mean([(answer[labels == c] == c).mean() for c in np.unique(labels)]))


def _by_shuffling(observed: float, answer: np.ndarray, labels: np.ndarray) -> float:
    """Return how often shuffled labels fit the same predictions as well."""
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


def _for_numbers(table: SampleTable, control: Control) -> Baselines:
    assert table.labels is not None
    columns = table.labels[:ROWS].reshape(min(len(table), ROWS), -1)
    varied = [i for i in range(columns.shape[1]) if columns[:, i].std() > 0][:3]
    if not varied:
        raise NotApplicable("all targets are identical")
    fits: dict[str, _Fit] = {}
    for number, column in enumerate(varied):
        values = columns[:, column]

        def tell(fraction: float, done: float = number / len(varied)) -> None:
            control.progress(done + fraction / len(varied), "fitting baselines")

        def is_clear(guess: np.ndarray, values: np.ndarray = values) -> bool:
            fit = _explained(guess, values)
            return fit.p < 1e-6 and fit.explained > 0

        for name, guess in number_scores(table.rows[: len(values)], values, tell, is_clear).items():
            fit = _explained(guess, values)
            if name not in fits or fit.p < fits[name].p or fit.explained > fits[name].explained:
                fits[name] = fit
    best = max(fits, key=lambda name: fits[name].explained)
    p = min(fit.p for fit in fits.values()) * len(MODELS) * len(varied)
    return Baselines("numbers", len(columns), {n: f.explained for n, f in fits.items()}, best, 0.0, min(1.0, p))


def _explained(guess: np.ndarray, values: np.ndarray) -> _Fit:
    """Return the share of the variance explained, and a rank test, which outliers cannot fool."""
    from scipy.stats import spearmanr

    left = float(((values - guess) ** 2).sum() / ((values - values.mean()) ** 2).sum())
    if np.ptp(guess) == 0:
        return _Fit(0.0, 1.0)
    return _Fit(1 - left, float(spearmanr(guess, values, alternative="greater").pvalue))
