"""What the tests of trust share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trust.matrix import warm_up


@pytest.fixture(scope="session", autouse=True)
def _everything_imported(_private_temporary_folder: None) -> None:
    """Import everything first: what a first import leaves behind is no trace of a probe."""
    warm_up()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
