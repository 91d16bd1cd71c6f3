"""Of the experiments that would tell two causes apart, the cheapest comes first, and it is said why it is made."""

from __future__ import annotations

import pytest

from nbdebug.engine.root_cause import arbitrate, planned
from nbdebug.engine.session import Session
from tests.engine.root_cause.test_arbitration import LEARNING, ORDER, session_of


@pytest.fixture(scope="module")
def session() -> Session:
    """Examine a hasty training with a frozen layer: either may be why one batch is not learned."""
    return session_of(["frozen-parameters", *LEARNING])


def dear(session: Session, *checks: str) -> None:
    """Let everything have taken a second, and the experiments behind these checks alone a minute."""
    kinds = {need.kind for check in checks for need in session.registry.checks[check].needs.values()}
    names = {session.registry.probes[kind].name for kind in kinds if kind in session.registry.probes}
    session.timings.update({name: 60.0 if name in names else 1.0 for name in session.timings})


def test_the_cheapest_is_planned_and_says_why(session: Session) -> None:
    """What the same experiments took before is what they cost."""
    dear(session, "frozen-parameters")
    plan = planned(session, ORDER)
    assert plan is not None and plan.fix != "frozen-parameters" and plan.seconds > 0
    assert "frozen-parameters" in plan.rivals
    assert f"The cheapest experiment to find the root cause: fix {plan.fix} alone on a copy" in plan.says
    assert "may each be the cause of cannot-overfit-batch" in plan.says


def test_the_cheapest_is_made_first(session: Session) -> None:
    """Where the time ends, the dearest is what was left out."""
    dear(session, "frozen-parameters")
    trials = arbitrate(session, ORDER, shown=False)
    alone = [trial.fixed[0] for trial in trials if len(trial.fixed) == 1]
    assert len(alone) > 1 and alone[-1] == "frozen-parameters"
    assert any(note.startswith("Root cause experiment on copies: with ") for note in session.journal.notes)
