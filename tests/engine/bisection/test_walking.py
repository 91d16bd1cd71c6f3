"""The walk over real Git histories, with outcomes that are written down in place of trainings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nbdebug.engine.bisection.revisions.repository import Repository, Revision
from nbdebug.engine.bisection.revisions.walking import Walk, walk
from tests.engine.bisection.test_revisions import git

LEARNS: dict[str, Any] = {"learns": True, "skill": 0.9, "value": 0.95, "failure": ""}
FAILS: dict[str, Any] = {"learns": False, "skill": 0.0, "value": 0.1, "failure": ""}
BROKEN: dict[str, Any] = {"learns": False, "skill": -1.0, "value": None, "failure": "ImportError: no module"}
COMMON: dict[str, Any] = {
    "agree": True,
    "measure": "accuracy",
    "ends": None,
    "program": "",
    "training_steps": 10,
    "steps": 60,
}


def commit(folder: Path, name: str) -> None:
    (folder / "file.py").write_text(f"{name}\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", name)


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Return a repository with nine commits in a line, and one beside them."""
    folder = tmp_path_factory.mktemp("line")
    git(folder, "init", "--quiet", "--initial-branch", "main")
    for number in range(9):
        commit(folder, f"c{number}")
    git(folder, "checkout", "--quiet", "-b", "beside", "main~8")
    commit(folder, "beside")
    return Repository(folder)


def walked(repository: Repository, outcomes: Mapping[str, Any], good: str = "main~8", bad: str = "main") -> Walk:
    """Walk with the outcome that is written for each subject; others fail."""
    found = Walk()

    def measure(revision: Revision, job: Mapping[str, Any]) -> dict[str, Any]:
        return {**COMMON, **outcomes.get(revision.subject, FAILS)}

    walk(repository, repository.revision(good), repository.revision(bad), measure, None, found)
    return found


@pytest.mark.parametrize("first", range(1, 9))
def test_the_first_bad_commit_is_found_wherever_it_is(line: Repository, first: int) -> None:
    found = walked(line, {f"c{number}": LEARNS for number in range(first)})
    assert found.first_bad is not None and found.first_bad.subject == f"c{first}"
    assert f"+c{first}" in found.diff and len(found.steps) <= 6, "halved, and not one after the other"


def test_what_cannot_be_run_is_skipped_and_named_where_it_may_be_the_one(line: Repository) -> None:
    good = {f"c{number}": LEARNS for number in range(4)}
    assert [r.subject for r in walked(line, good | {"c4": BROKEN, "c5": BROKEN}).suspects] == ["c6", "c5", "c4"]
    far = walked(line, {f"c{number}": LEARNS for number in range(8)} | {"c2": BROKEN})
    assert far.first_bad is not None and far.first_bad.subject == "c8"
    broken = walked(line, good | {f"c{number}": BROKEN for number in range(4, 9)})
    assert broken.first_bad is not None and broken.first_bad.subject == "c4", "bad itself does not run"


@pytest.mark.parametrize(
    ("outcomes", "outcome"),
    [
        ({}, "good fails"),
        ({"c0": LEARNS, "c8": LEARNS}, "both learn"),
        ({"c0": LEARNS, "c8": FAILS | {"learns": True}}, "slower"),
        ({"c0": LEARNS, "c8": FAILS | {"agree": False}}, "depends on the start"),
        ({"c0": LEARNS, "c8": FAILS | {"measure": "held-out loss"}}, "not measured"),
    ],
)
def test_nothing_is_named_where_nothing_can_be(line: Repository, outcomes: Mapping[str, Any], outcome: str) -> None:
    found = walked(line, outcomes)
    assert (found.outcome, found.first_bad, len(found.steps)) == (outcome, None, 1 if outcome == "good fails" else 2)


def test_a_branch_beside_is_not_walked(line: Repository) -> None:
    found = walked(line, {"beside": LEARNS}, "beside", "main")
    assert found.outcome == "not walked" and "was not developed from" in found.reason


def test_a_merge_leads_to_the_commit_that_was_merged(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    commit(tmp_path, "base")
    git(tmp_path, "checkout", "--quiet", "-b", "feature")
    (tmp_path / "other.py").write_text("1")
    commit_of_feature = ["broken", "later"]
    for name in commit_of_feature:
        (tmp_path / "other.py").write_text(name)
        git(tmp_path, "add", "--all")
        git(tmp_path, "commit", "--quiet", "--message", name)
    git(tmp_path, "checkout", "--quiet", "main")
    commit(tmp_path, "fine")
    git(tmp_path, "merge", "--quiet", "--no-ff", "--message", "merge", "feature")
    found = walked(Repository(tmp_path), {"base": LEARNS, "fine": LEARNS}, "main~2", "main")
    assert found.first_bad is not None and found.first_bad.subject == "broken"
