"""*I have a version that works* on the wizard's first screen, and the report for an assistant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import nbdebug
from nbdebug.widgets import bisecting
from nbdebug.widgets.for_assistant import MOST_COPIED, copy_for_assistant
from tests.engine.bisection.pairs import digits
from tests.trust.fingerprint import difference, fingerprint


@pytest.fixture
def setup() -> dict[str, Any]:
    return digits(lr=1e-8, batch=40)


@pytest.fixture
def wizard(setup: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a wizard on a set-up that does not learn, in a notebook that has one that does."""
    known = {"good_setup": digits, "settings": {"lr": 1}, "_last": digits(), "before": digits()}
    monkeypatch.setattr(bisecting, "_namespace", lambda: known)
    made = nbdebug.wizard(**setup)
    yield made
    made.close()


def ask(wizard: Any, name: str) -> None:
    panel = wizard.bisecting
    panel.open.click()
    panel.name.value = name
    panel.begin.click()
    wizard.runner.join(200)


def test_a_version_that_works_says_what_broke_it(wizard: Any, setup: dict[str, Any]) -> None:
    before = fingerprint(setup)
    ask(wizard, "good_setup")
    result = wizard.bisecting.result
    assert result.cause is not None and result.cause.names == ("learning rate",)
    assert "because of its learning rate" in wizard.bisecting.shown.value and "<img" in wizard.bisecting.shown.value
    assert "because of its learning rate" in wizard.face.status.value and wizard.face.screen == "start"
    assert difference(before, fingerprint(setup)) == []
    wizard.update(optimizer=None)
    assert wizard.bisecting.result is None and not wizard.bisecting.shown.value


def test_what_may_be_a_setup_is_offered(wizard: Any) -> None:
    panel = wizard.bisecting
    assert panel._form.layout.display == "none"
    panel.open.click()
    assert panel._form.layout.display is None and panel.name.options == ("before", "good_setup")


@pytest.mark.parametrize(
    ("name", "says"),
    [("", "it is empty"), ("absent", "no variable &#x27;absent&#x27;"), ("settings", "it has no model")],
)
def test_what_is_no_setup_is_refused(wizard: Any, name: str, says: str) -> None:
    ask(wizard, name)
    assert says in wizard.face.status.value and wizard.bisecting.result is None


def test_stop_keeps_what_is_known(wizard: Any) -> None:
    control = wizard.session.control

    def stop(event: Any) -> None:
        if "trying" in event.text:
            wizard.face.stop.click()

    wizard.session.journal.subscribe(stop)
    ask(wizard, "good_setup")
    result = wizard.bisecting.result
    assert result.outcome == "stopped" and "among" in result.says and not control.cancel.is_set()


def test_the_report_is_there_to_be_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbdebug.widgets.for_assistant.bundle.is_built", lambda name: True)
    assert copy_for_assistant("") == []
    button, hidden = copy_for_assistant("</pre><script>alert(1)</script>")
    assert "<script" not in hidden.value and {"nbdebug-copy", "nbdebug-assistant"} <= set(button._dom_classes)
    made = nbdebug.wizard(**digits(lr=1e-8))
    made.tasks.start(nbdebug.list_checks()[:1])
    made.runner.join(100)
    made.navigation.to_result()
    texts = [part.value for line in made.face.remedies.children for part in line.children if hasattr(part, "value")]
    assert any("nbdebug-copied" in text and len(text) < 2 * MOST_COPIED for text in texts)
    made.close()
