"""What a model gets wrong: the worst samples, confusions, slices, and labels that may be wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from nbdebug.charts import Table
from nbdebug.core.finding import plain
from nbdebug.errors import BadInput, plainly
from nbdebug.improve.scoring import Metric, Scores, scored
from nbdebug.improve.slices import Slice, found_slices, given_slices
from nbdebug.report.progress import control_shown
from nbdebug.setup import Feed, Setup

__all__ = ["ErrorAnalysis", "analyse_errors"]


@dataclass(frozen=True)
class ErrorAnalysis:
    """The errors of a model on one loader, taken apart."""

    scores: Scores
    worst: Table
    confusion: Table | None
    slices: tuple[Slice, ...]
    found: tuple[Slice, ...]
    suspects: Table | None
    types: Table
    show: Callable[[Sequence[int]], Any] | None = field(default=None, repr=False, compare=False)

    def show_worst(self, count: int = 20) -> Any:
        """Show the worst samples in the batch viewer, as the network receives them, with its answers and losses."""
        if self.show is None:
            raise BadInput(
                "this loader does not index its samples",
                where="show_worst",
                expected="a DataLoader over a dataset with __getitem__",
                do="pass DataLoader(dataset, batch_size) to analyse_errors",
            )
        return self.show([int(row[0]) for row in self.worst.rows[:count]])

    @property
    def tables(self) -> tuple[Table, ...]:
        """Everything as tables."""
        every = (self.types, self.worst, self.confusion, self.suspects)
        return tuple(table for table in every if table is not None and table.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return everything that can be written down."""
        return {"error": self.scores.mean, "measure": self.scores.measure, "tables": plain(_dicts(self.tables))}

    def to_frame(self) -> Any:
        """Return one row for each judged sample, as pandas."""
        import pandas as pd

        columns = {"index": self.scores.indices, "error": self.scores.errors, "hardness": self.scores.hardness}
        more = {"answer": self.scores.answers, "target": self.scores.targets}
        return pd.DataFrame({**columns, **{name: values for name, values in more.items() if values is not None}})

    def __str__(self) -> str:
        """Return the tables as a terminal shows them."""
        lines = [f"{self.scores.measure} {self.scores.mean:.4g} over {len(self.scores.errors)} samples"]
        for table in self.tables:
            lines += ["", table.title, "  " + " | ".join(table.columns)]
            lines += ["  " + " | ".join(map(str, row)) for row in table.rows[:12]]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from nbdebug.views.page import page, table

        parts = [page(part.title, table(part.columns, part.rows[:30])) for part in self.tables]
        return page(f"{self.scores.measure} {self.scores.mean:.4g} over {len(self.scores.errors)} samples", *parts)


@plainly
def analyse_errors(
    model: Any,
    loader: Any,
    *,
    against: Any = None,
    slices: Any = None,
    metric: Metric | None = None,
    class_names: Sequence[str] | None = None,
    worst: int = 20,
    samples: int = 4096,
    seconds: float = 30.0,
    progress: bool = True,
) -> ErrorAnalysis:
    """Take the errors of a model apart: worst samples, confusions, slices, suspicious labels, and errors by type.

    `slices` are a pandas table whose rows are the samples of the data set, or names with a list of values or a function
    of a sample; the worst slices are searched for besides. `against` is another loader, such as the validation data
    of the training's kind, whose errors stand beside for comparison. The model runs on a copy in eval mode.

    Args:
        model: Your model.
        loader: The DataLoader, or any iterable of batches.
        against: Another loader whose errors stand beside for comparison.
        slices: A pandas table whose rows are the samples of the data set, or names with a list of values or a function
            of a sample.
        metric: `metric(output, target)` for each sample; by default the error rate or the squared error.
        class_names: Names of the classes, for labels and predictions.
        worst: The number of worst samples that are listed.
        samples: The most samples that are used.
        seconds: About the longest time that it takes, in seconds.
        progress: Whether a progress bar is shown.
    """
    setup = Setup(model, loader, class_names=class_names)
    with control_shown(progress, "evaluating samples") as control:
        judge = partial(scored, setup, metric=metric, samples=samples, seconds=seconds, control=control)
        scores = judge(setup.feed, split="loader")
        beside_feed = Feed(against, "against") if against is not None else None
        other = judge(beside_feed, split="against") if beside_feed is not None else None
    named = _named(slices)
    dataset = setup.feed.dataset
    sample = None if dataset is None else dataset.__getitem__
    given = given_slices(scores, named, sample)
    found = found_slices(scores, {name: values for name, values in named.items() if not callable(values)})
    beside = _beside(found, named, other, beside_feed) if other is not None and beside_feed is not None else {}
    return ErrorAnalysis(
        scores,
        _worst(scores, setup, worst),
        _confusion(scores, setup),
        tuple(given),
        tuple(found),
        _suspects(scores, setup, worst),
        _types(scores, other, (*given, *found), beside, setup),
        None if sample is None else partial(_shown, setup),
    )


def _shown(setup: Setup, indices: Sequence[int]) -> Any:
    """Open the batch viewer on these samples, collated as the loader does."""
    from torch.utils.data import DataLoader, Subset

    from nbdebug.views.batch import show_batch

    chosen = Subset(setup.feed.dataset, list(indices))
    loader: Any = DataLoader(chosen, max(1, len(indices)), collate_fn=setup.feed.loader.collate_fn)
    return show_batch(loader, setup.model, class_names=setup.class_names, samples=max(1, len(indices)))


def _beside(found: Sequence[Slice], named: Mapping[str, Any], other: Scores, feed: Feed) -> dict[str, float]:
    """Return the error of the same slices in the other data, where a rule says which samples are in them."""
    sample = None if feed.dataset is None else feed.dataset.__getitem__
    rules = {name: values for name, values in named.items() if callable(values) and sample is not None}
    errors = {part.name: part.error for part in given_slices(other, rules, sample)}
    for part in found:
        members = part.rule(other) if part.rule is not None else None
        if members is not None and members.any():
            errors[part.name] = float(other.errors[members].mean())
    return errors


def _named(slices: Any) -> Mapping[str, Any]:
    if slices is None:
        return {}
    return {str(name): slices[name] for name in slices}


def _worst(scores: Scores, setup: Setup, most: int) -> Table:
    order = np.argsort(-scores.hardness, kind="stable")[:most]
    rows = tuple(
        (int(scores.indices[i]), *_answer(scores, setup, i), round(float(scores.hardness[i]), 4)) for i in order
    )
    answered = ("is", "called") if scores.targets is not None else ()
    return Table(("sample", *answered, "hardness"), rows, "Samples with the highest loss")


def _answer(scores: Scores, setup: Setup, place: int) -> tuple[str, ...]:
    if scores.targets is None or scores.answers is None:
        return ()
    return tuple(setup.name_of_class(int(values[place])) for values in (scores.targets, scores.answers))


def _confusion(scores: Scores, setup: Setup) -> Table | None:
    """List who is taken for whom, the commonest first."""
    if scores.targets is None or scores.answers is None:
        return None
    wrong = scores.targets != scores.answers
    pairs, counts = np.unique(np.stack([scores.targets, scores.answers], 1)[wrong], axis=0, return_counts=True)
    rows = []
    for place in np.argsort(-counts, kind="stable")[:30]:
        is_, called = (int(label) for label in pairs[place])
        total = int((scores.targets == is_).sum())
        names = (setup.name_of_class(is_), setup.name_of_class(called))
        rows.append((*names, int(counts[place]), f"{counts[place] / total:.1%}"))
    return Table(("is", "called", "samples", "of this class"), tuple(rows), "Confusion of classes")


def _suspects(scores: Scores, setup: Setup, most: int) -> Table | None:
    """List labels that the model contradicts with more confidence than it usually has: confident learning."""
    if scores.probabilities is None or scores.targets is None:
        return None
    order = _cleanlab_order(scores)
    if order is None:
        order = _confident_order(scores.probabilities, scores.targets)
    best = scores.probabilities.argmax(1)
    names = setup.name_of_class
    rows = tuple(
        (
            int(scores.indices[i]),
            names(int(scores.targets[i])),
            names(int(best[i])),
            round(float(scores.probabilities[i, best[i]]), 4),
        )
        for i in order[:most]
    )
    return Table(("sample", "labeled", "looks like", "confidence"), rows, "Possibly wrong labels")


def _cleanlab_order(scores: Scores) -> np.ndarray | None:
    try:
        from cleanlab.filter import find_label_issues
    except ImportError:
        return None
    try:
        order: np.ndarray = find_label_issues(
            scores.targets, scores.probabilities, return_indices_ranked_by="self_confidence", n_jobs=1
        )
    except (ValueError, TypeError, AssertionError):  # classes that were not drawn, for example
        return None
    return order


def _confident_order(chances: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Rank the samples that are surer of another class than samples of that class usually are."""
    usual = np.array([chances[labels == c, c].mean() if (labels == c).any() else 2.0 for c in range(chances.shape[1])])
    others = np.where(np.arange(chances.shape[1]) == labels[:, None], -1.0, chances - usual)
    suspicious = np.flatnonzero((others.max(1) >= 0) & (chances.argmax(1) != labels))
    return suspicious[np.argsort(chances[suspicious, labels[suspicious]], kind="stable")]


def _types(
    scores: Scores, other: Scores | None, slices: Sequence[Slice], known: Mapping[str, float], setup: Setup
) -> Table:
    """Return the kinds of error with their share of all errors, and the same kinds in the other data."""
    rows: list[tuple[Any, ...]] = []
    for part in slices:
        there = f"{known[part.name]:.4g}" if part.name in known else ""
        rows.append((part.name, part.size, f"{part.error:.4g}", f"{part.share:.0%}", there))
    if scores.targets is not None:
        for label in np.unique(scores.targets):
            mine = scores.errors[scores.targets == label]
            beside = ""
            if other is not None and other.targets is not None and (other.targets == label).any():
                beside = f"{other.errors[other.targets == label].mean():.4g}"
            share = float(mine.sum() / scores.errors.sum()) if scores.errors.sum() else 0.0
            name = f"class {setup.name_of_class(int(label))}"
            rows.append((name, len(mine), f"{mine.mean():.4g}", f"{share:.0%}", beside))
    rows.append(("everything", len(scores.errors), f"{scores.mean:.4g}", "100%", f"{other.mean:.4g}" if other else ""))
    return Table(("kind", "samples", "error", "fraction of errors", "error in against"), tuple(rows), "Errors by slice")


def _dicts(tables: Sequence[Table]) -> list[dict[str, Any]]:
    return [table.to_dict() for table in tables]
