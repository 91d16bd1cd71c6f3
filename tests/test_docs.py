"""The generated pages are current, and what README promises runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import nbdebug
from nbdebug.__main__ import _parser

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
USE = (ROOT / "docs" / "use.md").read_text(encoding="utf-8")


def blocks(language: str, after: str, text: str = README) -> list[str]:
    """Return the code blocks of one language behind a marker."""
    return re.findall(rf"```{language}\n(.*?)```", text.partition(after)[2], flags=re.DOTALL)


def test_generated_pages_are_current() -> None:
    """A change of a docstring or of the tree asks for `make docs`."""
    done = subprocess.run([sys.executable, "scripts/docs.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(900)  # a whole diagnosis, which a busy machine may take minutes for
def test_the_example_prints_what_readme_shows() -> None:
    """The ten lines run as they stand; every line of the output that names no time or number is printed."""
    code = blocks("python", "<!-- example -->")[0]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shown = blocks("", "<!-- output -->")[0].splitlines()
    assert len(shown) > 5
    for line in shown:
        if not re.search(r"\d", line):
            assert line in done.stdout, line


def test_the_own_check_of_the_docs_works() -> None:
    """The check in docs/use.md can be pasted into a cell."""
    code = blocks("python", "## Your own checks", USE)[0]
    known: dict[str, object] = {"nbdebug": nbdebug}
    try:
        exec(code, known)
        assert "too-many-parameters" in nbdebug.core.registry.registry.checks  # type: ignore[attr-defined]
    finally:
        nbdebug.core.registry.registry.checks.pop("too-many-parameters", None)  # type: ignore[attr-defined]


def test_links_lead_somewhere() -> None:
    """Every relative link of README and of the pages in docs/ has a file behind it."""
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for link in re.findall(r"\]\((?!http|#)([^)#]+)", text):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_readme_is_short() -> None:
    """Everything else is a link."""
    assert len(README.splitlines()) <= 150


def test_the_workflow_calls_a_command_that_exists() -> None:
    """The workflow for GitHub is YAML, and its line for nbdebug is one that the command line takes."""
    workflow = yaml.safe_load((ROOT / "docs" / "ci" / "nbdebug.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["diagnose"]["steps"]
    (line,) = [step["run"] for step in steps if "nbdebug diagnose" in step.get("run", "")]
    options = _parser().parse_args(line.split()[3:])
    (sarif,) = [step["with"]["sarif_file"] for step in steps if "upload-sarif" in step.get("uses", "")]
    (kept,) = [step["with"]["path"] for step in steps if "upload-artifact" in step.get("uses", "")]
    assert [str(path) for path in options.save] == [sarif, kept]
