"""Ten broken programs of ten kinds: one click leads to the cause, at most three to a fix that is verified on a copy."""

from __future__ import annotations

from typing import Any

import pytest

import nbdebug
from tests.ten_kinds import KINDS, Kind
from tests.widgets.test_wizard import wait

QUICK, WALKED = ("NaN", "crash"), ("image", "NaN", "custom loop")
pytestmark = pytest.mark.timeout(600)


def named(*names: str) -> list[Any]:
    """Return these kinds, or all; those that train for long are left to the slow tests."""
    chosen = [kind for kind in KINDS if kind.name in names or not names]
    return [pytest.param(k, id=k.name, marks=() if k.name in QUICK else pytest.mark.slow) for k in chosen]


@pytest.mark.parametrize("kind", named())
def test_run_diagnosis_names_the_cause(kind: Kind) -> None:
    wizard = nbdebug.wizard(**kind.made())
    clicks = 1
    wizard.face.run_all.click()
    wait(wizard, 300)
    first = wizard.report.findings[0]
    assert first.check in kind.causes, str(first)
    assert first.check in wizard.face.result.value
    if kind.is_fixed and not any(v.verified for v in first.verifications):
        clicks += 1
        next(b for b in wizard.face.remedies.children[0].children if "on a copy" in b.description).click()
        wait(wizard, 300)
    assert clicks <= 3 and any(v.verified for v in wizard.report.findings[0].verifications) == kind.is_fixed
    wizard.close()


@pytest.mark.parametrize("kind", named(*WALKED))
def test_the_walk_by_hand_comes_to_the_same_cause(kind: Kind) -> None:
    """Each step that the tree recommends is opened and run by its own button, until it says what to fix."""
    wizard = nbdebug.wizard(**kind.made())
    ran: list[str] = []
    while (step := wizard.pane.recommended()) not in ran:
        wizard.face.tree.selected = step
        ran.append(step)
        if wizard.pane.checks:
            wizard.face.run_step.click()
            wait(wizard, 300)
        else:
            wizard.face.skip.click()
    assert wizard.report.findings[0].check in kind.causes, ran
    assert wizard.report.findings[0].check in wizard.face.next.value
    wizard.close()
