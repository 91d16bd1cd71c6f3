"""Embeddings that several columns of ids read, and which rows each of them reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.capture import tapped
from nbdebug.sandbox import Sandbox
from nbdebug.setup.user_code import required_user_code

__all__ = ["FieldTable", "FieldTables", "field_tables"]


@dataclass(frozen=True)
class FieldTable:
    """An embedding of so many rows; `sizes` are the numbers of values of the columns, all of which begin at 0."""

    path: str
    rows: int
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class FieldTables:
    """The embeddings with a row for each value of each column, of which only those of the largest one are read."""

    tables: tuple[FieldTable, ...]


BATCHES = 16
MOST_COLUMNS = 64
USED = 0.75  # of the rows at most: two columns of which one is small leave little to see
EXACT = 0.03  # of the rows: a value of a column that did not come in these batches
DENSE = 0.8  # of the values up to the largest that are met


@probe
def field_tables(sandbox: Sandbox, trial: TrialRun) -> FieldTables:
    """Run a few batches and note the ids that each column gives to each embedding."""
    require_run(trial)
    tables = {path: m for path, m in sandbox.model.named_modules() if isinstance(m, nn.Embedding)}
    if not tables:
        raise NotApplicable("the model has no embedding")
    met: dict[str, list[torch.Tensor]] = {path: [] for path in tables}

    def before(path: str, module: nn.Module, inputs: Any) -> None:
        ids = inputs.args[0] if inputs.args else None
        if path in met and isinstance(ids, torch.Tensor):
            met[path].append(ids.detach().cpu())

    with torch.no_grad(), sandbox.mode(training=False), tapped(sandbox.model, before=before):
        for batch in sandbox.batches(BATCHES):
            with required_user_code("a later batch fails ({kind})", passing=()):
                sandbox.run(batch)
    found = (_judged(path, table.num_embeddings, met[path]) for path, table in tables.items())
    return FieldTables(tuple(table for table in found if table is not None))


def _judged(path: str, rows: int, met: list[torch.Tensor]) -> FieldTable | None:
    shapes = {tuple(ids.shape[1:]) for ids in met}
    if len(shapes) != 1 or len(shape := shapes.pop()) != 1 or not 2 <= shape[0] <= MOST_COLUMNS:
        return None
    columns = torch.cat(met).T
    sizes = tuple(int(column.max()) + 1 for column in columns)
    dense = all(len(column.unique()) >= DENSE * size for column, size in zip(columns, sizes, strict=True))
    is_sum = abs(rows - sum(sizes)) <= max(1, EXACT * rows)
    return FieldTable(path, rows, sizes) if dense and is_sum and max(sizes) <= USED * rows else None
