"""The pytest plugin, in test runs of its own: what fails and with which words, and that other tests notice nothing."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
PLUGIN = "nbdebug.integrations.pytest_plugin"
NETWORK = """
import torch
from torch import nn

torch.manual_seed(0)
batch = torch.randn(32, 8), torch.randint(0, 4, (32,))

def network(*last):
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), *last)
"""
CHECKS = 'checks=["softmax-before-cross-entropy", "forward-fails"]'


def run(pytester: pytest.Pytester, code: str, *arguments: str) -> pytest.RunResult:
    """Run a test file in a process of its own, with the plugin as an installation registers it."""
    registered = any(
        point.value == PLUGIN for point in importlib.metadata.entry_points(group="pytest11")
    )  # an older editable installation does not know it yet
    pytester.makepyfile(code)
    own = [] if registered else ["-p", PLUGIN]
    return pytester.runpytest_subprocess(*own, "-p", "no:cacheprovider", *arguments)


def test_the_installation_registers_it() -> None:
    assert f'[project.entry-points.pytest11]\nnbdebug = "{PLUGIN}"' in (ROOT / "pyproject.toml").read_text()


def test_a_bug_fails_the_test_with_its_sentence_place_and_fix(pytester: pytest.Pytester) -> None:
    call = f"nbdebug.check(network(nn.Softmax(dim=1)), [batch], nn.CrossEntropyLoss(), {CHECKS})"
    code = f"{NETWORK}\ndef test_model(nbdebug):\n    {call}\n"
    result = run(pytester, code)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            ">*nbdebug.check(network(nn.Softmax(dim=1)), [[]batch], *",
            "E*Failed: bug softmax-before-cross-entropy at 3*",
            "E*`CrossEntropyLoss` expects logits but receives probabilities from `3` (Softmax).*",
            "E*fix: Pass logits to the loss*",
        ]
    )
    result.stdout.no_fnmatch_line("*pytest_plugin.py:*: Failed")


def test_a_sound_model_passes_and_gives_its_report(pytester: pytest.Pytester) -> None:
    code = f"""{NETWORK}
def test_model(nbdebug):
    report = nbdebug.check(network(), [batch], nn.CrossEntropyLoss(), {CHECKS})
    assert [result.status for result in report.results] == ["clean", "clean"]
    assert nbdebug.explain("dead-units").why
"""
    run(pytester, code).assert_outcomes(passed=1)


def test_what_fails_can_be_chosen(pytester: pytest.Pytester) -> None:
    one = 'checks=["constant-inputs"]'
    code = f"""{NETWORK}
import pytest
batch[0][:, 0] = 1
def test_bug(nbdebug):
    assert nbdebug.check(network(), [batch], {one}).findings[0].severity == "note"
def test_note(nbdebug):
    nbdebug.check(network(), [batch], fail_on="note", {one})
def test_unknown(nbdebug):
    with pytest.raises(nbdebug.BadInput, match="one of bug, suspect, note"):
        nbdebug.check(network(), [batch], fail_on="bugs")
"""
    result = run(pytester, code)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["E*Failed: note constant-inputs at *"])


def test_other_test_runs_import_nothing_and_change_nothing(pytester: pytest.Pytester) -> None:
    code = """
import sys
def test_nothing(pytestconfig):
    heavy = {"torch", "numpy", "pandas", "IPython", "matplotlib", "sklearn", "rich"}
    assert not heavy & set(sys.modules)
    plugin = sys.modules["nbdebug.integrations.pytest_plugin"]
    assert pytestconfig.pluginmanager.is_registered(plugin)
    assert pytestconfig.pluginmanager.get_hookcallers(plugin) == []
"""
    run(pytester, code).assert_outcomes(passed=1)
