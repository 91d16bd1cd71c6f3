"""Which of two short trainings came further, by measures that both have in common and by more than the noise."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nbdebug.evidence.training_run import Practice
from nbdebug.fixes import Judged

__all__ = ["Comparison", "comparisons"]

NOTABLE = 0.05  # TheDeepChecker: 5 % is a change
ERRORS = 2.0  # standard errors that a difference has to exceed


@dataclass(frozen=True)
class Comparison:
    """What both trainings came to by one measure, and whether the patched one is better, or worse, beyond the noise."""

    measure: str
    before: float
    after: float
    better: bool
    worse: bool


def comparisons(plain: Practice | None, patched: Practice, judged_by: Judged) -> list[Comparison]:
    """Compare the training as it is with the patched one, by each measure that tells; the best measure comes first.

    None stands for a training that could not even be run.
    """
    if judged_by == "clean":
        return [replace(_of_losses(plain, patched), better=_finite(patched.after), worse=not _finite(patched.after))]
    if plain is None or not _finite(plain.after):  # nothing was learned, by any measure
        return [_of_losses(None, patched)]
    if judged_by == "loss" or (judged_by == "check" and patched.fit_after is None):
        return [_of_losses(plain, patched)]
    found: list[Comparison] = []
    if judged_by == "classes" and patched.balanced is not None:
        return [_of_classes(plain, patched)]
    if patched.fit_after is not None:
        found.append(_of_answers(plain, patched))
    if judged_by == "shares" or not found:
        found.append(_of_shares_left(plain, patched))
    return found


def _of_losses(plain: Practice | None, patched: Practice) -> Comparison:
    """Compare the losses of the same batches."""
    return _less("loss", plain.after if plain is not None else (), patched.after, patched)


def _of_shares_left(plain: Practice | None, patched: Practice) -> Comparison:
    """Compare, of losses of two functions, which share of their first is left; more of it proves no harm."""
    measure = "remaining fraction of the initial loss"
    return replace(_less(measure, _left(plain) if plain else (), _left(patched), patched), worse=False)


def _less(measure: str, before: Sequence[float], after: Sequence[float], patched: Practice) -> Comparison:
    if not _finite(before):
        return Comparison(measure, math.inf, _mean(after), _finite(after) and _learns(patched), False)
    if not _finite(after):
        return Comparison(measure, _mean(before), math.inf, False, True)
    gains = [b - a for b, a in zip(before, after, strict=False)]
    gain, size = _mean(before) - _mean(after), max(abs(_mean(before)), 1e-12)
    error = statistics.stdev(gains) / math.sqrt(len(gains)) if len(gains) > 2 else 0.0
    least = max(NOTABLE * size, ERRORS * error)
    return Comparison(measure, _mean(before), _mean(after), gain > least and _learns(patched), -gain > least)


def _of_answers(plain: Practice | None, patched: Practice) -> Comparison:
    """Compare how well the same samples are answered, which does not depend on the scale of the loss."""
    fit = patched.fit_after
    assert fit is not None
    before = fit.chance
    if plain is not None and plain.fit_after is not None and plain.fit_after.measure == fit.measure:
        before = plain.fit_after.value
    return _more(fit.measure, before, fit.value, patched.samples, fit.chance)


def _of_classes(plain: Practice | None, patched: Practice) -> Comparison:
    assert patched.balanced is not None
    before = plain.balanced if plain is not None and plain.balanced is not None else 0.0
    return _more("balanced accuracy", before, patched.balanced, patched.samples, 0.0)


def _more(measure: str, before: float, after: float, samples: int, chance: float) -> Comparison:
    if not math.isfinite(after):
        return Comparison(measure, before, after, False, True)
    low = max(before, -1.0) if math.isfinite(before) else -1.0  # an explained variance has no bottom
    middle = min(max((low + after) / 2, 0.0), 1.0)
    error = math.sqrt(2 * middle * (1 - middle) / max(samples, 1))
    least = max(NOTABLE * (1 - low), ERRORS * error)  # of what is missing
    return Comparison(measure, before, after, after - low > least and after > chance, low - after > least)


def _left(run: Practice) -> list[float]:
    """Return the losses as shares of the first; of a loss that may be negative nothing can be said so."""
    if not _finite(run.before) or not _finite(run.after) or min(*run.before, *run.after) < 0 or run.first <= 0:
        return []
    return [loss / run.first for loss in run.after]


def _learns(run: Practice) -> bool:
    """Whether the loss came down at all: a training that stands still is better than one that explodes, but no cure."""
    return run.last < run.first - 0.01 * abs(run.first)


def _finite(values: Sequence[float]) -> bool:
    return bool(values) and all(math.isfinite(value) for value in values)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
