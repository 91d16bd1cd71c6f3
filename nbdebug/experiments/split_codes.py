"""Whether another numbering of the categories of a split brings back what a trained copy knows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from scipy.optimize import linear_sum_assignment

from nbdebug.experiments.skill import Pairs, predictions_of
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch

__all__ = ["CodeColumn", "Recoding", "code_columns", "column_codes_changed", "recoded"]

MOST_COLUMNS = 16  # of one input; longer rows are sequences, whose ids have a common vocabulary
MOST_CODES = 64  # of one column
MOST_PASSES = 256
FEWEST_CODES = 3
ROUNDS = 2  # over the columns: the codes of one are chosen while the others may still be wrong
PER_CODE = 4  # samples of a code, on the average, to choose its number from

Skill = Callable[[str, Pairs], float]


@dataclass(frozen=True)
class CodeColumn:
    """A column of whole numbers; `index` is None where the input is that column alone."""

    input: str
    index: int | None
    codes: tuple[int, ...]

    @property
    def name(self) -> str:
        """The column as the user would index it."""
        return self.input if self.index is None else f"{self.input}[:, {self.index}]"


@dataclass(frozen=True)
class Recoding:
    """The skill with these columns renumbered: (input, index, ((number in the split, number in training), …))."""

    skill: float
    columns: tuple[tuple[str, int | None, tuple[tuple[int, int], ...]], ...]


def code_columns(batches: Sequence[Batch]) -> list[CodeColumn]:
    """Return the columns of categories: few whole numbers from 0 on, of one input with few columns."""
    found = []
    for name, first in batches[0].inputs.items():
        width = 1 if first.dim() == 1 else first.shape[1] if first.dim() == 2 else 0
        if not 1 <= width <= MOST_COLUMNS or first.is_complex() or first.dtype == torch.bool:
            continue
        parts = [batch.inputs[name] for batch in batches if name in batch.inputs]
        if any(part.shape[1:] != first.shape[1:] for part in parts):
            continue
        values = torch.cat(parts).detach().cpu().double().reshape(-1, width)
        for index in range(width):
            codes = values[:, index].unique()
            is_codes = bool((codes == codes.round()).all()) and FEWEST_CODES <= len(codes) <= MOST_CODES
            if is_codes and float(codes.min()) >= 0 and float(codes.max()) < 4 * MOST_CODES:
                found.append(CodeColumn(name, index if first.dim() == 2 else None, tuple(int(c) for c in codes)))
    return found


def recoded(
    sandbox: Sandbox, known: Sequence[Batch], batches: Sequence[Batch], kind: str, skill: Skill
) -> Recoding | None:
    """Choose the number of each category on every second sample, and measure the others with it."""
    train = {(c.input, c.index): c for c in code_columns(known)}
    columns = [(c, train[c.input, c.index]) for c in code_columns(batches) if (c.input, c.index) in train]
    samples = sum(batch.size for batch in batches)
    columns = [(own, other) for own, other in columns if samples >= 2 * PER_CODE * len(own.codes)]
    if not columns or sum(len(other.codes) for _, other in columns) > MOST_PASSES:
        return None
    now, chosen, best = list(batches), dict[CodeColumn, dict[int, int]](), _halves(sandbox, batches, kind, skill)[0]
    for _ in range(ROUNDS):
        for own, other in columns:
            codes = _assigned(sandbox, now, own, other, kind)
            changed = [batch.map_inputs(partial(_renumbered, own, codes)) for batch in now] if codes else now
            gained = _halves(sandbox, changed, kind, skill)[0] if codes else -1.0
            if gained > best:
                before = chosen.get(own, {c: c for c in own.codes})
                chosen[own] = {c: codes.get(n, n) for c, n in before.items()}
                now, best = changed, gained
    if not chosen:
        return None
    maps = tuple((c.input, c.index, tuple((a, b) for a, b in m.items() if a != b)) for c, m in chosen.items())
    return Recoding(_halves(sandbox, now, kind, skill)[1], tuple(part for part in maps if part[2]))


def _halves(sandbox: Sandbox, batches: Sequence[Batch], kind: str, skill: Skill) -> tuple[float, float]:
    """Return the skill on every second sample, and on the others."""
    sandbox.control.poll()
    found = predictions_of(sandbox, batches)
    if found is None or found[0] != kind:
        return math.nan, math.nan
    got, wanted = (torch.cat(parts) for parts in zip(*found[1], strict=True))
    return skill(kind, [(got[::2], wanted[::2])]), skill(kind, [(got[1::2], wanted[1::2])])


def _assigned(
    sandbox: Sandbox, batches: Sequence[Batch], own: CodeColumn, other: CodeColumn, kind: str
) -> dict[int, int]:
    """Return for each code of the split the code of the training data with the smallest error, each only once."""
    held = torch.cat([_column(batch, own) for batch in batches]).round().long()
    present = held.unique().tolist()
    if len(present) > len(other.codes):
        return {}
    costs = torch.zeros(len(present), len(other.codes), dtype=torch.float64)
    for place, code in enumerate(other.codes):
        sandbox.control.poll()
        found = predictions_of(sandbox, [batch.map_inputs(partial(_filled, own, code)) for batch in batches])
        if found is None or found[0] != kind:
            return {}
        got, wanted = (torch.cat(parts) for parts in zip(*found[1], strict=True))
        if len(got) != len(held):
            return {}
        errors = (got != wanted).double() if kind == "classes" else (got - wanted).double().square().flatten(1).sum(1)
        for row, value in enumerate(present):
            costs[row, place] = errors.cpu()[::2][held[::2] == value].sum()
    rows, places = linear_sum_assignment(costs.numpy())
    codes = {present[row]: other.codes[place] for row, place in zip(rows, places, strict=True)}
    return codes if any(a != b for a, b in codes.items()) else {}


def _column(batch: Batch, column: CodeColumn) -> torch.Tensor:
    values = batch.inputs[column.input].detach().cpu().double()
    return values if column.index is None else values[:, column.index]


def _filled(column: CodeColumn, code: int, name: str, x: torch.Tensor) -> torch.Tensor:
    if name != column.input:
        return x
    x = x.clone()
    x[... if column.index is None else (slice(None), column.index)] = code
    return x


def _renumbered(column: CodeColumn, codes: dict[int, int], name: str, x: torch.Tensor) -> torch.Tensor:
    return x if name != column.input else column_codes_changed(x, column.index, codes)


def column_codes_changed(x: torch.Tensor, index: int | None, codes: dict[int, int]) -> torch.Tensor:
    """Return an input with the codes of one column renumbered; codes that are not named stay."""
    x = x.clone()
    values = x if index is None else x[:, index]
    new = values.clone()
    for old, number in codes.items():
        new[values == old] = number
    if index is None:
        return new
    x[:, index] = new
    return x
