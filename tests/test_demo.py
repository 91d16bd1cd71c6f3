"""The demo diagnoses the quickstart's model in a real kernel and leaves the notebook as it is."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "example_notebooks" / "quickstart.ipynb"


@pytest.mark.kernel
def test_the_demo_finds_the_softmax_and_writes_both_reports() -> None:
    before = NOTEBOOK.read_bytes()
    done = subprocess.run([sys.executable, "scripts/demo.py"], cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    for part in ("Cause:     `CrossEntropyLoss` expects logits", "Fix:       ", "On a copy: verified", "make lab"):
        assert part in done.stdout
    assert "file://" in done.stdout
    assert len(done.stdout.splitlines()) < 24
    for name in ("report.html", "report.ipynb"):
        assert name in done.stdout
        assert (ROOT / name).stat().st_size > 1000
    assert NOTEBOOK.read_bytes() == before
