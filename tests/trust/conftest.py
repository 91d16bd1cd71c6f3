"""What the tests of trust share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trust.matrix import warm_up


@pytest.fixture(scope="session", autouse=True)
def _private_temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Look for temporary files where nobody else makes any, after everything is imported."""
    warm_up()
    before, tempfile.tempdir = tempfile.tempdir, str(tmp_path_factory.mktemp("temporary"))
    yield
    tempfile.tempdir = before


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
