"""Tables of a recorded run of which one row is added to a whole sequence, by the number of its positions."""

from __future__ import annotations

from typing import Any

from nbdebug.experiments.tape import Taint
from nbdebug.experiments.tape.ops import Op, Recording, Use

__all__ = ["adds_row_of_length"]

_SHAPES = ("view", "reshape", "unsqueeze", "squeeze", "expand", "to", "type_as", "detach")
SHORTEST = 4  # positions
_ADDED = ("add", "add_", "radd")


def adds_row_of_length(recording: Recording) -> bool:
    """Whether a single row of a table of positions is added to all of them: the one whose number is their count.

    `table[:, x.shape[1]]` where `table[:, : x.shape[1]]` was meant; or that of one number for all of them, although the
    table has a row for each. A table that is read at several rows, as one that
    counts layers or steps is, has another meaning.
    """
    read: dict[int, list[tuple[int, int]]] = {}
    for op in recording.ops:
        found = _row(recording, op)
        if found is not None:
            read.setdefault(found[0], []).append((found[1], op.outputs[0]))
    for rows in read.values():
        if len({row for row, _ in rows}) == 1 and any(_is_added(recording, made, row) for row, made in rows):
            return True
    return any(_is_constant_lookup(recording, op) or _is_only_row(recording, op) for op in recording.ops)


def _is_constant_lookup(recording: Recording, op: Op) -> bool:
    """Whether one row is looked up for all positions, as `positions(zeros)` does, of a table with a row for each."""
    given: dict[str, Any] = dict(zip(("input", "weight"), op.args, strict=False)) | op.kwargs
    uses = given.get("input"), given.get("weight")
    if op.name != "embedding" or len(op.outputs) != 1 or not all(isinstance(use, Use) for use in uses):
        return False
    index, table = (recording.values[use.number] for use in uses)  # type: ignore[union-attr]
    places = index.tensor
    if (
        places is None
        or index.taint & Taint.BATCH
        or not places.dim()
        or not SHORTEST <= places.shape[-1] <= table.shape[0]
    ):
        return False
    shape = recording.values[op.outputs[0]].shape
    return bool((places == places.flatten()[0]).all()) and _meets(recording, op.outputs[0], shape[-2:])


def _is_only_row(recording: Recording, op: Op) -> bool:
    """Whether a slice of one row, the only part of a table that is read, is added to several positions."""
    if op.name != "__getitem__" or len(op.outputs) != 1 or not isinstance(op.args[0], Use):
        return False
    table, made = recording.values[op.args[0].number], recording.values[op.outputs[0]]
    added = len(made.shape) - len(table.shape)  # dimensions of length 1 in front
    if table.taint & Taint.BATCH or added < 0 or len(table.shape) < 2 or any(n != 1 for n in made.shape[:added]):
        return False
    cut = [a for a, (n, m) in enumerate(zip(table.shape, made.shape[added:], strict=True)) if m == 1 and n >= SHORTEST]
    if cut != [len(table.shape) - 2] or sum(table.number in other.inputs for other in recording.ops) > 1:
        return False
    lengths = range(SHORTEST, table.shape[-2] + 1)
    return any(_meets(recording, op.outputs[0], (length, made.shape[-1])) for length in lengths)


def _meets(recording: Recording, number: int, shape: tuple[int, ...]) -> bool:
    """Whether a value is added to one of the batch that ends in these sizes."""
    for op in recording.ops:
        others = [recording.values[n] for n in op.inputs if n != number and recording.values[n].taint & Taint.BATCH]
        if number in op.inputs and op.name in _ADDED and any(other.shape[-2:] == shape for other in others):
            return True
    return False


def _row(recording: Recording, op: Op) -> tuple[int, int] | None:
    """Return the table and the number of the one row that an op reads of it."""
    if len(op.outputs) != 1 or not op.inputs:
        return None
    if op.name == "__getitem__" and isinstance(op.args[0], Use):
        table = recording.values[op.args[0].number]
        index = op.args[1] if isinstance(op.args[1], tuple) else (op.args[1],)
        whole = [part for part in index if isinstance(part, int) and not isinstance(part, bool) and part > 1]
        plain = all(part is None or part is Ellipsis or isinstance(part, (int, slice)) for part in index)
        return (table.number, whole[0]) if len(whole) == 1 and plain and not table.taint & Taint.BATCH else None
    if op.name == "embedding":
        given: dict[str, Any] = dict(zip(("input", "weight"), op.args, strict=False)) | op.kwargs
        position, weight = given.get("input"), given.get("weight")
        row = _told(recording, position.number) if isinstance(position, Use) else None
        return (weight.number, row) if row is not None and isinstance(weight, Use) else None
    return None


def _told(recording: Recording, number: int) -> int | None:
    """Return the one number that a tensor was made of, as in `torch.tensor([x.shape[1]])`."""
    op = recording.producer(number)
    given = op.args[0] if op is not None and op.name in ("tensor", "as_tensor") and op.args else None
    given = given[0] if isinstance(given, (list, tuple)) and len(given) == 1 else given
    return given if isinstance(given, int) and not isinstance(given, bool) else None


def _is_added(recording: Recording, number: int, row: int) -> bool:
    """Whether a row is added to a sequence of so many positions."""
    size = recording.values[number].numel
    for op in recording.ops:
        if number not in op.inputs:
            continue
        if op.name in _SHAPES and len(op.outputs) == 1 and _is_added(recording, op.outputs[0], row):
            return True
        if op.name not in _ADDED:
            continue
        others = [recording.values[n] for n in op.inputs if n != number and recording.values[n].taint & Taint.BATCH]
        if any(row in other.shape[:-1] and other.shape[-1:] == (size,) for other in others):
            return True
    return False
