"""`print(report)` fits on a screen whatever was found, and what matters most is on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from IPython.core.formatters import PlainTextFormatter

from nbdebug.core.finding import Finding, Remedy
from nbdebug.report import Report
from tests.report.hostile import hostile
from tests.report.payloads import PAYLOADS
from tests.report.samples import healthy, small


def with_findings(count: int, **parts: Any) -> Report:
    finding = Finding("The loss is " + "far " * 60 + "too high.", where="layer." * 30 + "weight", check="dead-units")
    return replace(small(), findings=[replace(finding, **parts) for _ in range(count)])


LONG_FIX = (Remedy("Change the line. " * 40, "x = 1\n" * 60),)


@pytest.mark.parametrize(
    "report",
    [
        small(),
        healthy(),
        hostile([payload for payload in PAYLOADS if len(payload) < 1000]),
        *(with_findings(count) for count in (1, 2, 5, 200)),
        *(with_findings(count, remedies=LONG_FIX) for count in (1, 2, 8, 200)),
        replace(small(), notes=["a note " * 100] * 50),
    ],
)
def test_it_fits_on_a_screen(report: Report) -> None:
    lines = str(report).splitlines()
    assert 1 <= len(lines) <= 24
    assert max(map(len, lines)) <= 100


def test_the_cause_comes_with_its_fix_and_the_way_to_the_rest() -> None:
    text = str(small())
    for part in ("The most likely cause is softmax-before-cross-entropy at head.1", "fix: ", "report.show()"):
        assert part in text


def test_findings_without_room_are_counted() -> None:
    shown = str(with_findings(200)).count("dead-units at")
    text = str(with_findings(200))
    listed = sum(line.startswith(("bug dead-units", "suspect dead-units")) for line in text.splitlines())
    assert f"and {200 - listed} more findings" in text, shown


def test_a_terminal_shows_the_screen_and_a_notebook_the_page() -> None:
    forms = small()._repr_mimebundle_()
    assert len(forms["text/plain"].splitlines()) <= 24
    assert "<" in forms["text/html"] and len(forms["text/html"]) > len(forms["text/plain"])
    assert "\n" not in repr(small())
    assert PlainTextFormatter()(small()) is not None


def test_code_keeps_its_blanks() -> None:
    """The changed lines of a diff stand as far to the right as those around them."""
    fix = (Remedy("Pass the flag.", "def forward(self, x):\n    -  x\n\treturn F.dropout(x,  .2)\n"),)
    lines = str(with_findings(1, remedies=fix)).splitlines()
    assert "          -  x" in lines and "          return F.dropout(x,  .2)" in lines
