"""What the tests of copies share."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def fresh_accelerate() -> Iterator[None]:
    """Let no test inherit the precision that accelerate keeps for the whole process, nor leave it to another."""
    _reset()
    yield
    _reset()


def _reset() -> None:
    if "accelerate" in sys.modules:
        from accelerate.state import AcceleratorState

        AcceleratorState._reset_state(reset_partial_state=True)
