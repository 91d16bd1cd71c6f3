"""Failing examples whose random indices reach a part of a table only."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.checks.families import alarms_of
from tests.checks.objective_programs import Program, ranked
from tests.examples import failing_example

CHECK = "indices-drawn-from-part"


@failing_example("indices-drawn-from-part", where="compute_loss")
def count_of_the_wrong_dimension() -> Program:
    """The number of items is read from the width of their table."""
    return ranked(lambda table, like: torch.randint(0, table.weight.shape[1], like.shape))
    # fixed: return ranked(lambda table, like: torch.randint(0, table.weight.shape[0], like.shape))


@failing_example("indices-drawn-from-part", where="compute_loss")
def number_that_is_written_down() -> Program:
    """The table has grown, and the number has not."""
    return ranked(lambda table, like: torch.empty_like(like).random_(0, 30))


SOUND: dict[str, Callable[[], Program]] = {
    "all": lambda: ranked(lambda table, like: torch.randint(0, table.num_embeddings, like.shape)),
    "of-the-batch": lambda: ranked(lambda table, like: like[torch.randperm(len(like))]),
    "by-frequency": lambda: ranked(lambda table, like: torch.multinomial(0.9 ** torch.arange(90.0), len(like), True)),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_programs_are_silent(name: str) -> None:
    assert not alarms_of(SOUND[name], CHECK)
