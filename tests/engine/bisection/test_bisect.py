"""`bisect` on small real trainings: what it names, when it names nothing, and that it leaves no trace."""

from __future__ import annotations

import json
import re
import signal
import threading
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from jsonschema import Draft202012Validator
from torch import nn

import nbdebug
from nbdebug.core.control import Control
from nbdebug.engine.bisection.result import Bisection
from nbdebug.errors import BadInput
from nbdebug.report.schema import bisection_schema
from tests.engine.bisection.pairs import digits
from tests.trust.fingerprint import difference, fingerprint

STEPS = 80
HARMLESS: dict[str, Any] = {"batch": 40, "decay": 1e-6, "seed": 3}


def run(good: Any, bad: Any, **options: Any) -> Bisection:
    return nbdebug.bisect(good, bad, **{"steps": STEPS, "progress": False, **options})


@pytest.fixture(scope="module")
def found() -> Bisection:
    """Return the result of one pair with a cause of two child modules, which shows most of what there is."""
    return run(lambda: digits(), lambda: digits(act=nn.Threshold(50.0, 0.0), lr=2.5e-3, **HARMLESS))


def test_one_cause_is_named_with_its_part(found: Bisection) -> None:
    assert found.outcome == "explained" and found.cause is not None
    assert found.cause.names == ("architecture",) and [part.name for part in found.cause.parts] == ["architecture: 1"]
    assert found.cause.value > 0.6 > found.bad_value and found.cause.again > 0.6
    assert found.says.startswith("`bad` fails because of its architecture: with `good`'s architecture it reaches ")
    assert found.says.endswith("Enough of it: `1`. Second: none.")
    assert not found.also and found.second is None and found.training_steps > 3 * STEPS


def test_the_result_in_every_form(found: Bisection, tmp_path: Path) -> None:
    Draft202012Validator.check_schema(bisection_schema())
    Draft202012Validator(bisection_schema()).validate(json.loads(json.dumps(found.to_dict(), allow_nan=False)))
    again = Bisection.from_dict(json.loads(found.save(tmp_path / "b.json").read_text()))
    assert again.to_dict() == found.to_dict() and again.says == found.says
    page = found.save(tmp_path / "b.html").read_text()
    assert (
        "ReLU()" in page
        and "Threshold(" in page
        and "data:image/svg+xml" in page
        and "http" not in page.split("svg")[0]
    )
    nbformat.validate(nbformat.read(found.save(tmp_path / "b.ipynb"), as_version=4))
    assert len(str(found).splitlines()) < 25 and "also different:" in str(found)
    assert {"training", "steps"} <= set(found.to_frame().columns)
    assert [name for name, _, _ in found.curves.series][:3] == ["good", "bad", "bad + architecture"]
    with pytest.raises(BadInput, match=r"ends in '.pdf'"):
        found.save(tmp_path / "b.pdf")


def test_two_causes_are_both_named() -> None:
    result = run(digits(), digits(scale=0.0, lr=1e-7, **HARMLESS))
    assert result.cause is not None and set(result.cause.names) == {"dataset", "learning rate"}
    assert result.cause.are_separate and "Each of them breaks `good` by itself" in result.says


def test_nothing_is_named_where_both_learn() -> None:
    result = run(digits(), digits(width=40, **HARMLESS))
    assert (result.outcome, result.causes) == ("both learn", ()) and "nothing to explain" in result.says


def test_good_that_does_not_learn_is_said() -> None:
    result = run(digits(lr=1e-8), digits(lr=1e-8, seed=1))
    assert result.outcome == "good fails" and "`good` does not learn either" in result.says


def test_bad_that_cannot_be_trained_is_bisected_all_the_same() -> None:
    bad = digits(**HARMLESS)
    bad["model"][3] = nn.Linear(9, 10)
    bad["optimizer"] = torch.optim.Adam(bad["model"].parameters(), 3e-3)
    result = run(digits(), bad)
    assert result.cause is not None and result.cause.names == ("architecture",)


def test_losses_of_two_kinds_need_a_metric() -> None:
    def contrastive(temperature: float) -> dict[str, Any]:
        made = digits()
        return made | {"loss_fn": lambda o, y: -(o @ o.T / temperature).log_softmax(0).diagonal().mean() + 0 * y.sum()}

    result = run(contrastive(1.0), contrastive(2.0))
    assert result.outcome == "not measured" and "pass metric=" in result.says


def test_the_end_of_the_time_keeps_what_is_known() -> None:
    result = run(digits(), digits(lr=1e-8), time_limit=1e-6)  # over before the first training, however fast the machine
    assert result.stopped and result.outcome == "stopped" and result.says.startswith("Stopped")


def test_progress_names_the_trial_and_the_time_that_is_left() -> None:
    told: list[tuple[float, str]] = []
    run(digits(), digits(lr=1e-8, **HARMLESS), control=Control(on_progress=lambda *news: told.append(news)))
    fractions, texts = [fraction for fraction, _ in told], [text for _, text in told]
    assert fractions == sorted(fractions) and 0.3 < fractions[-1] <= 1
    assert any("trying good's" in text for text in texts)
    assert any(re.search(r", about \d+ s left$", text) for text in texts)


@pytest.mark.parametrize("steps", [0, -3, 1.5, True, "many"])
def test_bad_steps_are_refused(steps: Any) -> None:
    with pytest.raises(BadInput, match="at least 8"):
        run(digits(), digits(), steps=steps)


def own_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
    optimizer.zero_grad()
    loss = loss_fn(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss


def with_its_globals(**options: Any) -> dict[str, Any]:
    """Return a set-up whose step names the model and the optimizer, and steps a schedule of its own."""
    given = digits(**options)
    model, optimizer = given["model"], given["optimizer"]
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.999)

    def step(_: Any, batch: Any, loss_fn: Any, __: Any) -> Any:
        loss = own_step(model, batch, loss_fn, optimizer)
        schedule.step()
        return loss

    return given | {"train_step": step, "scheduler": schedule}


def test_a_step_that_names_its_model_trains_the_mixture() -> None:
    """Exchanged for good's, the step of a closure has to train the mixed model, not the one it was written for."""
    result = run(digits(train_step=own_step), with_its_globals(lr=1e-8, **HARMLESS))
    assert result.cause is not None and result.cause.names == ("learning rate",)


def test_both_stay_bit_identical() -> None:
    good, bad = with_its_globals(), digits(lr=1e-8, **HARMLESS)
    before = fingerprint(good, bad)
    run(good, bad, steps=16)
    assert difference(before, fingerprint(good, bad)) == []


def test_both_stay_bit_identical_after_an_exception_and_a_cancel() -> None:
    good, bad = digits(), digits(lr=1e-8, **HARMLESS)
    before, control = fingerprint(good, bad), Control()

    def stop(fraction: float, text: str) -> None:
        if "trying" in text:
            control.cancel.set()

    control.on_progress = stop
    result = run(good, bad, steps=16, control=control)
    assert result.stopped == "canceled by the user" and "among" in result.says
    with pytest.raises(BadInput, match="metric: it raised ZeroDivisionError"):
        run(good, bad, steps=16, metric=lambda model, batches: 1 / 0)
    assert difference(before, fingerprint(good, bad)) == []


def test_an_interrupt_returns_what_is_known() -> None:
    good, bad, control = digits(), digits(lr=1e-8, **HARMLESS), Control()
    before = fingerprint(good, bad)

    def press(fraction: float, text: str) -> None:
        if "bad" in text and threading.current_thread() is threading.main_thread():
            control.on_progress = None
            signal.raise_signal(signal.SIGINT)

    control.on_progress = press
    result = run(good, bad, steps=40, control=control)
    assert result.stopped == "interrupted" and result.outcome == "stopped"
    assert difference(before, fingerprint(good, bad)) == []
