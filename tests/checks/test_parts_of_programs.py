"""Models of which a program uses a part on purpose or by mistake, and columns that are broadcast to squares."""

from __future__ import annotations

import pytest

from tests.checks.families import alarms_of
from tests.checks.part_programs import PART_FORGOTTEN, PART_USED, SAME_SHAPE, SQUARE


@pytest.mark.parametrize("name", PART_USED)
def test_parts_that_are_used_are_enough(name: str) -> None:
    assert not alarms_of(PART_USED[name], "untrained-parameters")


@pytest.mark.parametrize("name", PART_FORGOTTEN)
def test_layers_that_are_left_out_are_found(name: str) -> None:
    assert alarms_of(PART_FORGOTTEN[name], "untrained-parameters") == ["suspect"]


@pytest.mark.parametrize("name", SAME_SHAPE)
def test_columns_of_one_shape_and_pairs_on_purpose_are_silent(name: str) -> None:
    assert not alarms_of(SAME_SHAPE[name], "incompatible-target-shape")


@pytest.mark.parametrize("name", SQUARE)
def test_squares_of_two_columns_are_found(name: str) -> None:
    assert alarms_of(SQUARE[name], "incompatible-target-shape") in (["suspect"], ["bug"])
