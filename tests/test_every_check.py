"""The common tests: they run over the whole registry, so that a new check is held to them from its first day."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import pytest
import torch

import nbdebug
from nbdebug.core.registry import registry
from nbdebug.engine.decision_tree import TREE
from nbdebug.watch.judging import judged
from tests.examples import ONCE_ALARMED, FailingExample, Healthy, all_failing_examples, all_healthy, all_recorded

FOLDERS = {"data": "data", "run": "passes", "start": "loss", "learn": "optimization", "watch": "live"}  # by stage
CHECKS = sorted(registry.load().checks)


def run(setup: dict[str, Any], **options: Any) -> nbdebug.Report:
    """Diagnose quietly; a failing example that is a recorded training is judged as it was recorded."""
    if "recording" in setup:
        return judged(setup["recording"])
    return nbdebug.diagnose(**setup, progress=False, **options)


def made(thing: FailingExample | Healthy, seed: int = 0) -> dict[str, Any]:
    """Make a set-up from its own seed."""
    torch.manual_seed(seed)
    return thing.make()


@pytest.mark.parametrize(
    "failing_example", [*all_failing_examples(), *all_recorded()], ids=lambda p: f"{p.check}:{p.name}"
)
def test_finds_its_patient(failing_example: FailingExample) -> None:
    """Every failing example is found by its check, at its place, with the numbers behind it."""
    result = run(made(failing_example), checks=[failing_example.check]).result(failing_example.check)
    assert result.status == "found", result
    assert all(finding.evidence for finding in result.findings)
    for remedy in (remedy for finding in result.findings for remedy in finding.remedies):
        compile(remedy.code.replace("…", "..."), remedy.says, "exec", ast.PyCF_ONLY_AST)  # ready to be copied
    if failing_example.where is not None:
        places = (failing_example.where,) if isinstance(failing_example.where, str) else failing_example.where
        assert any(finding.where in places for finding in result.findings), [f.where for f in result.findings]


def seldom(index: int, setup: Healthy) -> list[pytest.MarkDecorator]:
    """Return a third of the zoo to every run, with what once raised an alarm; `make test-slow` takes the rest."""
    always = setup.name in ONCE_ALARMED or (index % 3 == 0 and not setup.is_tutorial)
    return [] if always else [pytest.mark.slow]


ZOO = [pytest.param(h, id=h.name, marks=seldom(index, h)) for index, h in enumerate(all_healthy())]


@pytest.mark.parametrize("setup", ZOO)
def test_silent_on_healthy(setup: Healthy) -> None:
    """No check raises an alarm on a healthy set-up, and none crashes."""
    report = run(made(setup))
    assert not report.alarms, [str(f) for f in report.alarms]
    crashed = [str(result) for result in report.results if result.status == "crashed"]
    assert not crashed, crashed


@pytest.mark.parametrize("check", CHECKS)
def test_has_a_patient(check: str) -> None:
    """A check without a failing example is a claim without a proof."""
    assert [p for p in (*all_failing_examples(), *all_recorded()) if p.check == check]


@pytest.mark.parametrize("check", CHECKS)
def test_is_documented(check: str) -> None:
    """The docstring has a title, says why it matters and what to try."""
    spec = registry.find(check)
    assert spec.title.endswith(".") and len(spec.title) < 120
    assert len(spec.why) > 40 and len(spec.remedy) > 40
    assert spec.function.__name__.replace("_", "-") == check
    stage = next(stage for stage in TREE if check in stage.checks)
    assert spec.function.__module__ == f"nbdebug.checks.{FOLDERS[stage.id]}.{spec.function.__name__}"


@pytest.mark.parametrize("check", CHECKS)
def test_is_in_the_tree_once(check: str) -> None:
    """The tree reaches every check by exactly one way."""
    assert [c for stage in TREE for c in stage.checks].count(check) == 1


@pytest.mark.parametrize("check", CHECKS)
def test_is_pure(check: str) -> None:
    """A check reads evidence only: neither torch nor the copy nor the user's objects."""
    code = registry.find(check).function.__code__
    inner = [part for part in code.co_consts if inspect.iscode(part)]
    used = {name for part in (code, *inner) for name in (*part.co_names, *part.co_varnames)}
    assert not used & {"torch", "sandbox", "setup", "Sandbox", "Setup", "session"}


def test_explains_names_checks() -> None:
    """What a check explains has to exist."""
    for spec in registry.checks.values():
        for other in spec.explains:
            assert other in registry.checks, f"{spec.id} explains {other}, which is no check"
