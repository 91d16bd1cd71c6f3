"""How well a trained copy predicts the other splits, as they are and with their labels or inputs treated otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import torch
from scipy.optimize import linear_sum_assignment

from nbdebug.errors import Cancelled, OutOfTime
from nbdebug.experiments.skill import Pairs, predictions_of
from nbdebug.experiments.split_codes import Recoding, recoded
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch

__all__ = ["SplitFit", "split_fits"]

BATCHES = 8
FEWEST = 40  # samples of a split
ENOUGH = 600
REORDERED = "columns in another order"
MOST_COLUMNS = 32  # of a table, whose columns may stand in another order
MOST_TRIED = 1500  # orders of columns
LEAST = 0.005  # of skill: a pair of columns that is worth exchanging
GAP = 0.5  # of the skill on held-out training samples; a split above it needs no explanation


@dataclass(frozen=True)
class SplitFit:
    """The skill of a trained copy on one split, and on training samples that it was not trained on either.

    `renamed` is the skill with the classes of the split renamed, `rescaled` with its targets on another scale (both
    chosen on one half of the samples and measured on the other), and `moved` that with the inputs changed as
    `moved_how` says; nan where that was not tried. `names` lists (class of the split, class that is predicted for it).
    """

    name: str
    samples: int
    classes: int
    held_out: float
    skill: float
    renamed: float = math.nan
    names: tuple[tuple[int, int], ...] = ()
    rescaled: float = math.nan
    moved: float = math.nan
    moved_how: str = ""
    order: tuple[int, ...] = ()  # of the columns of a table, where they were exchanged
    recoding: Recoding | None = None  # the skill with categories of the inputs renumbered


MOVES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "rows and columns exchanged": lambda x: x.transpose(-1, -2).contiguous(),
    "flipped upside down": lambda x: x.flip(-2),
    "flipped left to right": lambda x: x.flip(-1),
    "channels in reversed order": lambda x: x.flip(1),
}


def split_fits(sandbox: Sandbox, held_out: Sequence[Batch]) -> tuple[SplitFit, ...]:
    """Measure a trained copy on the validation and test samples; none where predictions and targets are unknown."""
    try:
        known = predictions_of(sandbox, held_out)
        if known is None or (own := _skill(*known)) <= 0:
            return ()
        found = [_of_feed(sandbox, feed, held_out, *known, own) for feed in sandbox.setup.feeds[1:]]
    except (Cancelled, OutOfTime):
        raise
    except Exception:  # a split may look different; that is for other checks to say
        return ()
    return tuple(fit for fit in found if fit is not None)


def _of_feed(
    sandbox: Sandbox, feed: object, held_out: Sequence[Batch], kind: str, known: Pairs, own: float
) -> SplitFit | None:
    batches, samples = list[Batch](), 0
    for batch in sandbox.setup.batches(BATCHES, feed, sandbox.control.poll):  # type: ignore[arg-type]
        batches.append(batch.to(sandbox.device))
        samples += batch.size
        if samples >= ENOUGH:
            break
    found = predictions_of(sandbox, batches)
    if found is None or found[0] != kind or samples < FEWEST:
        return None
    skill = _skill(kind, found[1])
    classes = int(torch.cat([wanted for _, wanted in (*known, *found[1])]).max()) + 1 if kind == "classes" else 0
    fit = SplitFit(getattr(feed, "name", ""), samples, classes, own, skill)
    if skill >= GAP * own:
        return fit
    renamed, names = _renamed(found[1], classes) if kind == "classes" else (math.nan, ())
    rescaled = _rescaled(found[1]) if kind == "numbers" else math.nan
    moved, how = _moved(sandbox, batches, kind)
    order: tuple[int, ...] = ()
    if not moved >= GAP * own:
        moved, how, order = _reordered(sandbox, batches, kind)
    recoding = None
    if max((v for v in (renamed, rescaled, moved) if not math.isnan(v)), default=-1.0) < GAP * own:
        recoding = recoded(sandbox, held_out, batches, kind, _skill)
    return SplitFit(fit.name, samples, classes, own, skill, renamed, names, rescaled, moved, how, order, recoding)


def _skill(kind: str, pairs: Pairs) -> float:
    got, wanted = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    if kind == "classes":
        chance = float(wanted.bincount().max()) / len(wanted)
        return (float((got == wanted).double().mean()) - chance) / max(1 - chance, 1e-9)
    variance = float((wanted - wanted.mean(0)).square().sum())
    return max(-1.0, 1 - float((wanted - got).square().sum()) / variance) if variance > 0 else -1.0


def _renamed(pairs: Pairs, classes: int) -> tuple[float, tuple[tuple[int, int], ...]]:
    """Choose the best names of the classes on every second sample, and measure the others under them."""
    got, wanted = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    counts = torch.zeros(classes, classes)
    counts.index_put_((wanted[::2], got[::2].clamp(0, classes - 1)), torch.ones(len(wanted[::2])), accumulate=True)
    rows, columns = linear_sum_assignment(-counts.numpy())
    name = torch.empty(classes, dtype=torch.long)
    name[torch.as_tensor(rows)] = torch.as_tensor(columns)
    present = {int(label) for label in wanted.unique()}
    other = tuple((int(a), int(b)) for a, b in zip(rows, columns, strict=True) if a != b and int(a) in present)
    return _skill("classes", [(got[1::2], name[wanted[1::2]])]), other


def _rescaled(pairs: Pairs) -> float:
    """Fit a line from targets to predictions on every second sample, and measure the others under it."""
    got, wanted = (torch.cat(parts).double() for parts in zip(*pairs, strict=True))
    if got.shape[1] != 1 or float(wanted[::2].std()) == 0:
        return math.nan
    a = torch.cat([wanted[::2], torch.ones_like(wanted[::2])], 1)
    line = torch.linalg.lstsq(a, got[::2]).solution
    return _skill("numbers", [(got[1::2], torch.cat([wanted[1::2], torch.ones_like(wanted[1::2])], 1) @ line)])


def _moved(sandbox: Sandbox, batches: Sequence[Batch], kind: str) -> tuple[float, str]:
    """Measure the split with its images turned; return the best."""
    best = (math.nan, "")
    for how, move in MOVES.items():
        sandbox.control.poll()
        turned = partial(_turned, move)
        found = predictions_of(sandbox, [batch.map_inputs(turned) for batch in batches])
        skill = _skill(kind, found[1]) if found is not None and found[0] == kind else math.nan
        if not skill <= best[0] and not math.isnan(skill):
            best = (skill, how)
    return best


def _turned(move: Callable[[torch.Tensor], torch.Tensor], _: str, x: torch.Tensor) -> torch.Tensor:
    turned = move(x) if x.dim() == 4 and x.is_floating_point() else x
    return turned if turned.shape == x.shape else x


def _reordered(sandbox: Sandbox, batches: Sequence[Batch], kind: str) -> tuple[float, str, tuple[int, ...]]:
    """Exchange pairs of columns of a table as long as half of the batches gets better, and measure the others."""
    tables = [x for x in batches[0].inputs.values() if x.dim() == 2 and x.is_floating_point()]
    if len(batches) < 2 or len(tables) != 1 or not 2 <= tables[0].shape[1] <= MOST_COLUMNS:
        return math.nan, "", ()
    halves, columns = (batches[::2], batches[1::2]), tables[0].shape[1]

    def skill(order: Sequence[int], part: Sequence[Batch]) -> float:
        sandbox.control.poll()
        try:  # ids of one table may be out of range in another
            found = predictions_of(sandbox, [batch.map_inputs(partial(_ordered, order)) for batch in part])
        except (RuntimeError, IndexError, ValueError):
            return -1.0
        return _skill(kind, found[1]) if found is not None and found[0] == kind else -1.0

    order = _climbed(list(range(columns)), lambda order: skill(order, halves[0]))
    moved = sum(place != column for place, column in enumerate(order))
    return (skill(order, halves[1]), f"{moved} {REORDERED}", tuple(order)) if moved else (math.nan, "", ())


def _climbed(order: list[int], skill: Callable[[list[int]], float]) -> list[int]:
    """Exchange the pair that helps, again and again, until none does."""
    best, tried, is_better = skill(order), 0, True
    while is_better:
        is_better = False
        for a, b in combinations(range(len(order)), 2):
            other = list(order)
            other[a], other[b] = order[b], order[a]
            tried += 1
            if (gained := skill(other)) > best + LEAST:
                order, best, is_better = other, gained, True
            if tried >= MOST_TRIED:
                return order
    return order


def _ordered(order: Sequence[int], _: str, x: torch.Tensor) -> torch.Tensor:
    return x[:, list(order)] if x.dim() == 2 and x.shape[1] == len(order) and x.is_floating_point() else x
