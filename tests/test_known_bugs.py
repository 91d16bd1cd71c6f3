"""The table of well-known bugs in README.md shows what nbdebug says today."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
from known_bugs import KNOWN_BUGS, said, stored

NUMBER = re.compile(r"\d+(?:[.,]\d+)*(?:e[-+]?\d+)?")


def test_every_bug_has_its_sentence() -> None:
    assert list(stored()) == list(KNOWN_BUGS)
    assert len(KNOWN_BUGS) == 12


@pytest.mark.timeout(600)  # a whole diagnosis, which a busy machine may take minutes for
@pytest.mark.parametrize("check", KNOWN_BUGS)
def test_the_sentence_is_current(check: str) -> None:
    """Every word is the same; the last digits of a measured number differ between machines."""
    assert NUMBER.sub("#", said(check)) == NUMBER.sub("#", stored()[check])
