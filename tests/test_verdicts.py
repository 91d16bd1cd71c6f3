"""Every check reaches the verdict of its table, and each of its thresholds decides one."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from nbdebug.core.registry import registry
from tests import verdicts
from tests.verdicts.table import TABLES, Pair, Row, near, verdict

CHECKS = registry.load().checks
for module in pkgutil.iter_modules(verdicts.__path__, f"{verdicts.__name__}."):
    importlib.import_module(module.name)
ROWS = [row for table in TABLES.values() for row in table.rows]
PAIRS = [pair for table in TABLES.values() for pair in table.pairs]
PAIRED = {(pair.rows[0].check, pair.threshold) for pair in PAIRS}
THRESHOLDS = [(check, name) for check, spec in CHECKS.items() for name in spec.thresholds]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_verdict(row: Row) -> None:
    """The check says about this evidence what the table says."""
    assert verdict(row) == row.expected


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_threshold_decides(pair: Pair) -> None:
    """The two rows differ in their verdicts, and the threshold, moved a little, gives one of them that of the other."""
    one, two = pair.rows
    assert one.expected != two.expected
    used = {**CHECKS[one.check].thresholds, **one.thresholds}[pair.threshold]
    moved = [{pair.threshold: value} for value in near(used)]
    assert any(verdict(one, **to) == two.expected or verdict(two, **to) == one.expected for to in moved)


@pytest.mark.parametrize("check", sorted(CHECKS))
def test_finds_and_is_silent(check: str) -> None:
    """A table has evidence of the problem and evidence of its absence, each under a name of its own."""
    assert check in TABLES, f"add a table of {check} to tests/verdicts/"
    rows = TABLES[check].rows
    said = {row.expected for row in rows}
    assert said & {"bug", "suspect", "note"} and "silent" in said
    assert len({str(row) for row in rows}) == len(rows)


@pytest.mark.parametrize(("check", "threshold"), THRESHOLDS)
def test_threshold_has_a_pair(check: str, threshold: str) -> None:
    """Each threshold of a check has evidence on both sides of it."""
    assert (check, threshold) in PAIRED
