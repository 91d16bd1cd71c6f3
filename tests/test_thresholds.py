"""Every threshold says where it comes from, and the page of all thresholds shows it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nbdebug.core.registry import registry

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
from thresholds_page import sources

ROOT = Path(__file__).parents[1]
CHECKS = registry.load().checks


@pytest.mark.parametrize("check", sorted(check for check, spec in CHECKS.items() if spec.thresholds))
def test_thresholds_have_a_source(check: str) -> None:
    """The comment at the end of the line of each threshold says more than a word."""
    found = sources(CHECKS[check].function)
    assert set(found) == set(CHECKS[check].thresholds)
    bare = [name for name, source in found.items() if len(source.split()) < 2]
    assert not bare, f"say beside each of {', '.join(bare)} where the number comes from"


def test_a_threshold_without_a_source_is_seen() -> None:
    """A comment on another line is that of another threshold."""

    def check(*, one: int = 1, two: int = 2) -> None: ...

    assert sources(check) == {"one": "", "two": ""}


def test_page_has_every_threshold() -> None:
    """One row for each, with its default."""
    page = (ROOT / "docs" / "thresholds.md").read_text(encoding="utf-8")
    for check, spec in CHECKS.items():
        for name, default in spec.thresholds.items():
            assert f"| [{check}](checks/{check}.md) | `{name}` | `{default!r}` | " in page
