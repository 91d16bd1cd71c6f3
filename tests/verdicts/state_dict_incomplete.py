"""Verdicts about models that load their own checkpoint."""

from __future__ import annotations

from nbdebug.checks.passes.state_dict_incomplete import Reload
from tests.verdicts.table import Table, minimal


def loaded(difference: float, noise: float = 0.0) -> Reload:
    """Return how far a copy with the loaded state is from the one that was saved."""
    return minimal(Reload, difference=difference, noise=noise)


table = Table("state-dict-incomplete")
table.row("the same outputs", "silent", loaded(0.0))
table.row("rounding", "silent", loaded(1e-6))
table.pair("difference", loaded, {1.1e-3: "note", 0.9e-3: "silent"})
table.pair("noises", lambda times: loaded(0.01 * times, 0.01), {11.0: "note", 9.0: "silent"})
