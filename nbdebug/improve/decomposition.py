"""Where the error of a model that learns comes from: bias, variance, distribution shift, an overused validation set."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nbdebug.charts import Bars, Table
from nbdebug.core.control import Control
from nbdebug.core.finding import plain
from nbdebug.errors import BadInput, plainly
from nbdebug.improve.advice import ADVICE, Advice, Fact, facts_about, fitted
from nbdebug.improve.scoring import Metric, Scores, scored
from nbdebug.report.progress import control_shown
from nbdebug.setup import Feed, Setup

__all__ = ["Decomposition", "Part", "decompose", "decomposed"]

RESAMPLES = 2000


@dataclass(frozen=True)
class Part:
    """One share of the test error with the interval in which it lies with 95 % confidence."""

    name: str
    value: float
    low: float
    high: float
    says: str

    @property
    def is_sure(self) -> bool:
        """Whether the share is larger than chance would make it."""
        return self.low > 0


@dataclass(frozen=True)
class Decomposition:
    """The error split by split, the shares that it is made of, and what to do about them, in order."""

    measure: str
    errors: dict[str, float]
    counts: dict[str, int]
    parts: tuple[Part, ...]
    advice: tuple[Advice, ...]
    notes: tuple[str, ...] = field(default=())

    def part(self, name: str) -> Part:
        """Return one share by its name."""
        for part in self.parts:
            if part.name == name:
                return part
        raise BadInput(
            f"there is no part called {name!r}",
            where="Decomposition.part",
            expected=f"one of {', '.join(part.name for part in self.parts)}",
            do="some parts require a loader: shift requires val_shifted, validation overfitting requires test",
        )

    @property
    def table(self) -> Table:
        """The shares as a table."""
        rows = tuple((p.name, f"{p.value:.4g}", f"{p.low:.4g} to {p.high:.4g}", p.says) for p in self.parts)
        return Table(("share", self.measure, "95 % interval", "meaning"), rows, "Error decomposition")

    @property
    def bar(self) -> Bars:
        """The shares as bars."""
        names, values = (p.name for p in self.parts), (p.value for p in self.parts)
        return Bars(tuple(names), tuple(values), "Error decomposition", unit=self.measure)

    def to_dict(self) -> dict[str, Any]:
        """Return everything that can be written down."""
        return {
            "measure": self.measure,
            "errors": plain(self.errors),
            "counts": plain(self.counts),
            "parts": [vars(part) for part in self.parts],
            "advice": [vars(advice) for advice in self.advice],
            "notes": list(self.notes),
        }

    def to_frame(self) -> Any:
        """Return the shares as a pandas table."""
        import pandas as pd

        return pd.DataFrame([vars(part) for part in self.parts]).set_index("name")

    @property
    def _errors(self) -> str:
        return f"{self.measure}: " + ", ".join(f"{name} {value:.4g}" for name, value in self.errors.items())

    def __str__(self) -> str:
        """Return the table, the most likely share first in the advice, as a terminal shows it."""
        widest = max(len(part.name) for part in self.parts)
        lines = [self._errors]
        lines += [f"  {p.name:<{widest}}  {p.value:8.4g}  [{p.low:.4g}, {p.high:.4g}]" for p in self.parts]
        for advice in self.advice:
            lines += [advice.says, *(f"  {i}. {step}" for i, step in enumerate(advice.steps, 1))]
        return "\n".join([*lines, *(f"Note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        from nbdebug.views.page import drawn, lines, page, table

        advice = [text for one in self.advice for text in (lines([one.says]), lines(one.steps, numbered=True))]
        shares = table(self.table.columns, self.table.rows)
        return page(self._errors, drawn(self.bar, str(self)), shares, *advice, lines(self.notes))


@plainly
def decompose(
    model: Any,
    train: Any,
    val: Any,
    test: Any = None,
    *,
    val_shifted: Any = None,
    target_error: float | None = None,
    metric: Metric | None = None,
    samples: int = 4096,
    seconds: float = 30.0,
    seed: int = 0,
    progress: bool = True,
) -> Decomposition:
    """Split the test error into irreducible error, avoidable bias, variance, shift and validation overfitting.

    `val` comes from the distribution of `train`, `val_shifted` from that of `test`. `target_error` is what a person or
    the best known model reaches; without it the irreducible error counts as 0. The errors are misclassified shares or
    squared errors, or what `metric(output, target)` gives for each sample. The model runs on a copy in eval mode.

    Args:
        model: Your model.
        train: The training data, as a loader.
        val: Validation data of the distribution of `train`.
        test: Test data.
        val_shifted: Validation data of the distribution of `test`.
        target_error: What a person or the best known model reaches; 0 by default.
        metric: `metric(output, target)` for each sample; by default the error rate or the squared error.
        samples: The most samples that are used.
        seconds: About the longest time that it takes, in seconds.
        seed: The seed of the experiments.
        progress: Whether a progress bar is shown.
    """
    _checked(target_error, metric)
    setup = Setup(model, train, val_loader=val, test_loader=test)
    shifted = Feed(val_shifted, "val_shifted") if val_shifted is not None else None
    with control_shown(progress, "evaluating samples") as control:
        return decomposed(
            setup,
            shifted,
            target_error=target_error,
            metric=metric,
            samples=samples,
            seconds=seconds,
            seed=seed,
            control=control,
        )


def decomposed(
    setup: Setup,
    shifted: Feed | None = None,
    *,
    target_error: float | None = None,
    metric: Metric | None = None,
    samples: int = 4096,
    seconds: float = 30.0,
    seed: int = 0,
    control: Control | None = None,
) -> Decomposition:
    """Split the error as `decompose` does, for a setup that has validation data, under a control."""
    feeds = {"train": setup.feed, "val": setup.val_feed, "val_shifted": shifted, "test": setup.test_feed}
    scores = {
        name: scored(setup, feed, split=name, metric=metric, samples=samples, seconds=seconds, control=control)
        for name, feed in feeds.items()
        if feed is not None
    }
    return _decomposed(scores, target_error, facts_about(setup), np.random.default_rng(seed))


def _decomposed(
    scores: dict[str, Scores], target_error: float | None, facts: Mapping[str, Fact], rng: np.random.Generator
) -> Decomposition:
    means = {name: _resampled(score.errors, rng) for name, score in scores.items()}
    errors = {name: score.mean for name, score in scores.items()}
    floor = target_error or 0.0
    known = "given by you" if target_error is not None else "not given, assumed to be 0"
    parts = [Part("irreducible error", floor, floor, floor, known)]
    for name, share, says in _shares(scores, floor):
        low, high = np.quantile(share(means), (0.025, 0.975))
        parts.append(Part(name, float(share(errors)), float(low), float(high), says))
    return Decomposition(
        next(iter(scores.values())).measure,
        errors,
        {name: len(score.errors) for name, score in scores.items()},
        tuple(parts),
        _advice(parts, facts),
        _notes(scores, target_error),
    )


def _shares(scores: Collection[str], floor: float) -> list[tuple[str, Callable[[dict[str, Any]], Any], str]]:
    """Say for each share how it follows from the errors of the splits that there are."""
    last = "val_shifted" if "val_shifted" in scores else "val"
    shares: list[tuple[str, Callable[[dict[str, Any]], Any], str]] = [
        ("avoidable bias", lambda m: m["train"] - floor, "training error minus irreducible error: underfitting"),
        ("variance", lambda m: m["val"] - m["train"], "validation error minus training error: overfitting"),
    ]
    if "val_shifted" in scores:
        shift = "error on the target distribution minus error on the training distribution"
        shares.append(("distribution shift", lambda m: m["val_shifted"] - m["val"], shift))
    if "test" in scores:
        used = "test error minus validation error" + ("" if last == "val_shifted" else "; includes shift")
        shares.append(("validation overfitting", lambda m: m["test"] - m[last], used))
    return shares


def _resampled(errors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the means of many resamples of the same size: the bootstrap."""
    size = len(errors)
    return np.array([errors[rng.integers(0, size, size)].mean() for _ in range(RESAMPLES)])


def _advice(parts: list[Part], facts: Mapping[str, Fact]) -> tuple[Advice, ...]:
    """Return the advice for every share that is surely there, the largest first, as it fits this model."""
    sure = sorted((part for part in parts if part.name in ADVICE and part.is_sure), key=lambda part: -part.value)
    return tuple(fitted(ADVICE[part.name], facts) for part in sure)


def _notes(scores: dict[str, Scores], target_error: float | None) -> tuple[str, ...]:
    notes = [
        f"{score.split}: {len(score.errors)} of {score.total} samples were evaluated, chosen at random."
        for score in scores.values()
        if score.total is not None and len(score.errors) < score.total
    ]
    if target_error is None:
        notes.append("No target_error was given: part of the avoidable bias may be irreducible.")
    if "test" in scores and "val_shifted" not in scores:
        notes.append("Without val_shifted, shift and validation overfitting cannot be separated.")
    return tuple(notes)


def _checked(target_error: float | None, metric: Metric | None) -> None:
    if target_error is not None and not (isinstance(target_error, (int, float)) and target_error >= 0):
        raise BadInput(
            f"target_error is {target_error!r}",
            where="decompose",
            expected="an error >= 0, in the same metric as the others",
            do="for an accuracy of 95 % write target_error=0.05",
        )
    if metric is not None and not callable(metric):
        raise BadInput(
            f"metric is {metric!r}",
            where="decompose",
            expected="a function metric(output, target) that returns one error per sample, or None",
            do="omit it for error rates and squared errors",
        )
