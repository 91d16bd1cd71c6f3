"""Indices into a table that a recorded run draws at random, and those that it takes from the batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nbdebug.experiments.tape import Taint
from nbdebug.experiments.tape.ops import Op, Recording, Use
from nbdebug.experiments.tape.walk import given_by_name, source_of, tensor_of

__all__ = ["DrawnIndices", "drawn_indices"]

_DRAWS = ("randint", "randint_like", "random_")


@dataclass(frozen=True)
class DrawnIndices:
    """How many rows of a table the draws can reach, and the highest row that the batch looks up."""

    rows: int
    drawn: int  # indices
    highest: int
    of_batch: int
    module: str


def drawn_indices(recording: Recording) -> Iterator[DrawnIndices]:
    """Yield the tables that are looked up by uniform draws as well as by indices of the batch."""
    lookups: dict[int, list[tuple[Op, int]]] = {}
    for op in recording.ops:
        given = given_by_name(op, ("input", "weight")) if op.name == "embedding" else {}
        index, table = given.get("input"), given.get("weight")
        if index is not None and table is not None:
            lookups.setdefault(table.number, []).append((op, index.number))
    for table, found in lookups.items():
        drawn = [(op, n) for op, n in found if _is_uniform(recording, n)]
        given_rows = [n for _, n in found if recording.values[n].taint == Taint.BATCH]
        highest, of_batch = _highest(recording, [n for _, n in drawn]), _highest(recording, given_rows)
        if drawn and given_rows and highest is not None and of_batch is not None:
            count = sum(recording.values[n].numel for _, n in drawn)
            yield DrawnIndices(recording.values[table].shape[0], count, highest, of_batch, drawn[0][0].module)


def _is_uniform(recording: Recording, number: int) -> bool:
    value = recording.values[number]
    op = recording.producer(source_of(recording, number))
    return value.taint == Taint.RANDOM and op is not None and op.name in _DRAWS


def _highest(recording: Recording, numbers: list[int]) -> int | None:
    kept = [tensor_of(recording, Use(n)) for n in numbers]
    found = [int(t.max()) for t in kept if t is not None and t.numel()]
    return max(found) if found else None
