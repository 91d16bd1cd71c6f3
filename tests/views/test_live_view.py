"""What the view of a training says of a loss that is no number, of a run without steps, and of when things appeared."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import nbdebug
from nbdebug.core.registry import registry
from nbdebug.evidence.recording import Recording
from nbdebug.integrations.lab.channel import Follower, _health
from nbdebug.views.curve_data import thinned
from nbdebug.watch.recorder.series import Series
from tests.watch.runs import mlp, train

WORDS = "nothing recorded yet: run the training"


@pytest.fixture
def told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Listeners hear of every flush, and findings are looked for only where there is a reason to."""
    monkeypatch.setattr("nbdebug.watch.live.REFRESH", -1e9)
    monkeypatch.setattr("nbdebug.views.live.JUDGE_SECONDS", 1e9)


@pytest.fixture
def own_check() -> Iterator[None]:
    """A check whose finding names no step."""

    @nbdebug.check
    def enough_steps(run: Recording, *, most: int = 30):  # type: ignore[no-untyped-def]
        """The training goes on and on.

        Why it matters: it does not.

        What to try: nothing.
        """
        if run.tally.steps > most:
            yield nbdebug.Finding("Many steps were taken.", severity="suspect")

    yield
    registry.checks.pop("enough-steps")


def run(
    steps: int, wrong: int = -1, before: Callable[[Any], Any] = lambda _: None, **during: Callable[[Any], Any]
) -> Any:
    """Train under watch; from the step `wrong` on with a rate that no loss survives."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    live = nbdebug.watch(model, optimizer, every=1, budget=1.0)
    look = during.get("during", lambda _: None)

    def after() -> None:
        if live.step == wrong:
            optimizer.param_groups[0]["lr"] = 1e30
        look(live)

    with live:
        before(live)
        train(model, optimizer, steps, after_step=after)
    return live


def test_the_newest_loss_is_said_as_it_is() -> None:
    """NaN for hundreds of steps is not hidden behind the last number that was finite."""
    live = run(400, wrong=100)
    view = nbdebug.show_live(live)
    bad = live.recording().loss.not_finite
    assert view.data["curves"][0]["last"] == "NaN" and "loss NaN" in repr(view) and "loss NaN" in view.html
    first = live.recording().loss.values[0]
    assert f"loss: {first:.4g} → NaN (not finite in {bad} steps)" in str(live)
    assert "not finite" in str(live).split("layer")[-1]  # the layers, too, in their table


def test_in_a_script_nothing_is_displayed(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither by watching nor by asking for the view, which prints its text when it is printed."""
    live = run(5)
    assert live.view is None
    assert "after 5 steps" in repr(nbdebug.show_live(live)) and capsys.readouterr().out == ""


def test_infinite_values_are_left_out_of_the_mean_of_a_stretch() -> None:
    values = np.where(np.arange(3000) % 10 == 3, np.inf, 1.0)
    thin = thinned(Series("loss", np.arange(3000), values, values, values, np.ones(3000, int)))
    assert np.array_equal(thin.values, np.ones(len(thin)))


@pytest.mark.usefixtures("told_at_once")
def test_a_loss_that_is_no_number_is_judged_at_once() -> None:
    """While the training goes on, neither the view nor the status line shows such a loss without its finding."""
    seen, views, sent = [], [], []

    def before(live: Any) -> None:
        views.append(nbdebug.show_live(live))
        Follower(live, sent.append)

    def during(live: Any) -> None:
        data = views[0].data
        if data["curves"] and data["curves"][0]["last"] == "NaN":
            seen.append([finding["check"] for finding in data["findings"]])

    run(300, wrong=40, before=before, during=during)
    assert seen and all("non-finite-loss" in found for found in seen)
    bad = [message["watch"] for message in sent if message["watch"]["loss"] == "NaN"]
    assert any(told["running"] for told in bad)
    assert all(told["health"] == {"state": "bug", "check": "non-finite-loss"} for told in bad)


def test_without_a_finite_loss_nothing_is_called_healthy() -> None:
    """A loss under another name is judged by no check, and the status line still does not praise it."""
    assert _health([], "NaN") == {"state": "bug", "check": "the loss is not finite"}
    assert _health([], 0.5) == _health([], None) == {"state": "healthy", "check": ""}


@pytest.mark.usefixtures("own_check")
def test_all_views_agree_on_when_a_finding_appeared() -> None:
    """The run remembers it, so that a view that is opened later says the same, and within the steps of the curves."""
    live = run(90, during=lambda live: live.findings if live.step == 50 else None)
    first, second = nbdebug.show_live(live), nbdebug.show_live(live)
    for view in (first, second):
        found = {finding["check"]: finding for finding in view.data["findings"]}["enough-steps"]
        assert found["step"] == 49 <= view.data["curves"][0]["steps"][-1]
        assert "enough-steps, seen at step 49" in view.html


@pytest.mark.usefixtures("own_check")
def test_no_step_is_claimed_where_nobody_looked() -> None:
    """A run that is judged only afterwards does not know; what a finding names itself is said all the same."""
    live = run(300, wrong=100)
    view = nbdebug.show_live(live)
    found = {finding["check"]: finding["step"] for finding in view.data["findings"]}
    assert found["enough-steps"] is None and "suspect enough-steps: Many" in view.html
    assert found["non-finite-loss"] == live.recording().loss.first_not_finite
    assert nbdebug.watch.Run(live.recording()).first_seen == {}


def test_without_a_step_it_says_so_in_words() -> None:
    """In the widget's data, in the page, in the text and in the report."""
    live = run(0)
    view = nbdebug.show_live(live)
    assert view.data["empty"] and view.data["notes"] == [WORDS]
    assert WORDS in view.html and WORDS in str(view) and WORDS in str(live) and "every 0 steps" not in str(live)
    assert WORDS in live._repr_mimebundle_()["text/html"]
    assert "run the training loop inside the block" in " ".join(live.report().notes)
    assert not nbdebug.show_live(run(1)).data["empty"] and "Only 1 step so far" in run(1).report().notes[0]
    assert not run(20).report().notes


@pytest.mark.usefixtures("own_check")
def test_text_and_page_have_the_layers_and_what_was_found() -> None:
    """Findings stand in the text once somebody has asked for them, also by a report."""
    live = run(40)
    rows = [line.split()[0] for line in str(live).splitlines()[-5:]]
    assert rows == ["0", "1", "2", "3", "4"] and "enough-steps" not in str(live)
    assert nbdebug.show_live(nbdebug.watch.Run(live.recording())).html.count("<tr>") == 1 + 5
    live.report(thresholds={"enough-steps": {"most": 1}})
    assert "enough-steps" not in str(live)  # judged by other rules than its own
    live.report()
    assert "enough-steps" in str(live)


def test_learning_rates_are_named_by_what_they_are() -> None:
    """One rate needs no number; several are those of their groups, and each shows its course."""
    assert "learning rate: 0.01 → 1e+30" in str(run(8, wrong=4))
    assert "learning rate: 0.01\n" in str(run(8))
    model = mlp()
    groups = [{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 0.5}]
    with nbdebug.watch(model, optimizer := torch.optim.SGD(groups, 0.1)) as live:
        train(model, optimizer, 3)
    assert "learning rate of group 0: 0.1\n" in str(live) and "learning rate of group 1: 0.5\n" in str(live)
    legends = [name for lines in nbdebug.show_live(live)._lines() for name, *_ in lines.series]
    assert legends == ["loss", "group 0", "group 1"]
    assert [lines.series[0][0] for lines in nbdebug.show_live(run(3))._lines()] == ["loss", "learning rate"]


def test_activations_after_the_loss_died_belong_to_the_step_that_is_shown() -> None:
    """The newest step is the last of the slider; it has no histogram, no number, and says that nothing is finite."""
    live = run(200, wrong=60)
    view = nbdebug.show_activations(live)
    frames, layers = view.data["frames"], view.look.layers
    assert frames["steps"][0] < 60 and frames["steps"][-1] == 199 and "showing step 199" in str(view)
    numbers = np.frombuffer(base64.b64decode(frames["numbers"]), "<f4").reshape(len(frames["steps"]), len(layers), 5)
    recorded = live.recording().layers["0"]
    assert numbers[0, 0, 0] == pytest.approx(recorded.mean.values[list(recorded.mean.steps).index(frames["steps"][0])])
    assert np.isfinite(numbers[0]).all() and (numbers[-1, :, 4] == 1).all() and np.isnan(numbers[-1, :, 0]).all()
    assert all(not any(layer.counts) and np.isnan(layer.facts.mean) for layer in layers)
    assert all(line.endswith("100%") for line in str(view).splitlines()[2:]) and "100%" in view.html


def test_findings_stand_first_and_what_is_gone_is_no_longer_told() -> None:
    """A finding that was seen in between and does not hold any more leaves the view."""
    live = run(20)
    view = nbdebug.show_live(live)
    view._found = [{"check": "loss-flat", "severity": "suspect", "says": "It is flat.", "where": "loss", "step": 3}]
    assert "loss-flat" in view.html and view.html.index("It is flat.") < view.html.index("<img")
    view._seen = 0
    view._judge(live.recording())
    assert view._found == [] and "loss-flat" not in view.html
