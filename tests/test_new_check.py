"""`make new-check` in a copy of the checkout: what it writes is in shape, works, and is seen by the common tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of what the command reads and writes, and of the tests."""
    leave = shutil.ignore_patterns("__pycache__", "static", ".*")
    for part in ("nbdebug", "tests", "scripts"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=leave)
    for part in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / part, tmp_path)
    return tmp_path


def run(copy: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the copy, so that the copy is what is imported."""
    env = {**os.environ, "PYTHONPATH": str(copy)}
    return subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True, timeout=280, check=False)


def new_check(copy: Path, name: str, step: str = "") -> subprocess.CompletedProcess[str]:
    """Ask make for a new check."""
    return run(copy, "make", "new-check", f"NAME={name}", f"STEP={step}", f"PYTHON={sys.executable}")


def state(copy: Path) -> dict[Path, bytes]:
    """Return every file with what it holds."""
    return {path: path.read_bytes() for path in copy.rglob("*") if path.is_file() and "__pycache__" not in path.parts}


def test_what_it_writes_works(copy: Path) -> None:
    """Two new checks stand in the tree, pass ruff, and pass what is asked of every check."""
    before = state(copy)
    for name, step in (("weights-of-lead", ""), ("weights-of-gold", "optimizer")):
        done = new_check(copy, name, step)
        assert done.returncode == 0, done.stderr
        assert f"test_{name.replace('-', '_')}.py" in done.stdout and "make docs" in done.stdout
    changed = {path.relative_to(copy).as_posix() for path, held in state(copy).items() if before.get(path) != held}
    stems = ("weights_of_lead", "weights_of_gold")
    assert changed == {
        "nbdebug/engine/decision_tree/stages.py",
        "nbdebug/engine/decision_tree/learning.py",
        "nbdebug/checks/passes/weights_of_lead.py",
        "nbdebug/checks/optimization/weights_of_gold.py",
        *(f"tests/checks/test_{stem}.py" for stem in stems),
        *(f"tests/verdicts/{stem}.py" for stem in stems),
    }
    for command in (["check"], ["format", "--check"]):
        done = run(copy, sys.executable, "-m", "ruff", *command, "--no-cache", *sorted(changed))
        assert done.returncode == 0, done.stdout + done.stderr
    done = run(
        copy, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k",
        "weights_of_lead or weights_of_gold or weights-of-lead or weights-of-gold",
        "tests/test_every_check.py", "tests/test_verdicts.py", "tests/test_thresholds.py",
        *(f"tests/checks/test_{stem}.py" for stem in stems),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    asked = 2 * (2 + 4 + 1 + 6 + 1)  # of each: failing examples, common questions, its own test, verdicts, source
    assert f"{asked} passed" in done.stdout


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("dead-units", "dead-units is there already: nbdebug/checks/loss/dead_units.py"),
        ("My Bug", "perhaps my-bug"),
        ("ill", "two or more words"),
        ("", "two or more words"),
        ("../else-where", "small letters"),
    ],
)
def test_a_bad_name_is_refused(copy: Path, name: str, says: str) -> None:
    """The message says why, and nothing is written."""
    before = state(copy)
    done = new_check(copy, name)
    assert done.returncode != 0
    assert says in done.stderr and "Nothing was written" in done.stderr
    assert state(copy) == before


def test_a_step_that_is_not_there_is_refused(copy: Path) -> None:
    """The message lists those that there are."""
    before = state(copy)
    done = new_check(copy, "weights-of-lead", "alchemy")
    assert done.returncode != 0 and "no step 'alchemy'" in done.stderr and "one-pass" in done.stderr
    assert state(copy) == before
