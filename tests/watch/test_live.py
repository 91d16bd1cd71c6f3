"""What the user holds: saved and read back, shown, judged, listened to, and refused where it makes no sense."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.core.announcements import on_begin
from nbdebug.core.registry import registry
from nbdebug.evidence.first_pass import FirstPass
from nbdebug.evidence.recording import Recording
from tests.watch.runs import batch, mlp, train, watched

HOSTILE = "</td><script>alert(1)</script>"


@pytest.fixture(scope="module")
def live() -> nbdebug.watch.Live:
    model = mlp()
    run, _ = watched(model, torch.optim.AdamW(model.parameters(), 1e-2), 30)
    run.log(val_loss=torch.tensor(0.25))
    return run


def test_a_run_is_the_same_after_saving_and_loading(live: Any, tmp_path: Path) -> None:
    path = live.save(tmp_path / "run.npz")
    again = nbdebug.watch.load(path)
    assert again.to_frame().equals(live.to_frame())
    assert again.recording().tally == live.recording().tally
    assert repr(again).splitlines()[:4] == repr(live).splitlines()[:4]
    shares = again.recording().layers["0"].histogram.shares
    assert np.array_equal(shares, live.recording().layers["0"].histogram.shares)
    assert again.report().setup["steps"] == 30
    assert [file.name for file in tmp_path.iterdir()] == ["run.npz"]


def test_a_frame_holds_every_curve(live: Any) -> None:
    frame = live.to_frame()
    assert list(frame.columns) == ["kind", "name", "statistic", "step", "value", "low", "high", "count"]
    assert {"scalar", "rate", "time", "run", "layer", "parameter"} == set(frame["kind"])
    assert len(frame[(frame["kind"] == "scalar") & (frame["name"] == "loss")]) == 30
    assert set(frame[frame["kind"] == "parameter"]["statistic"]) == {"gradient", "used", "weight", "update"}


def test_event_files_hold_the_curves(live: Any, tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    live.to_tensorboard(tmp_path / "events")
    events = accumulator.EventAccumulator(str(tmp_path / "events"), {"histograms": 0, "scalars": 0}).Reload()
    losses = events.Scalars("scalar/loss")
    assert [event.step for event in losses] == list(range(30))
    assert np.allclose([event.value for event in losses], live.recording().loss.values)
    drawn = events.Histograms("layer/0/values")
    assert [event.step for event in drawn] == live.recording().layers["0"].histogram.steps.tolist()
    assert all(sum(event.histogram_value.bucket) > 0 for event in drawn)


def test_without_tensorboard_it_says_so(live: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(nbdebug.BadInput, match="pip install tensorboard"):
        live.to_tensorboard(tmp_path)


def test_it_shows_itself_as_text_and_as_a_static_picture(live: Any) -> None:
    text, bundle = repr(live), live._repr_mimebundle_()
    assert "30 steps" in text and "loss: 1." in text and "budget" in text and "val_loss: 0.25" in text
    html = bundle["text/html"]
    assert bundle["text/plain"] == text
    assert html.count("<img") == 1 and "data:image/svg+xml" in html and "<script" not in html
    assert html.count("<tr>") == 1 + 5


def test_names_of_the_users_are_text() -> None:
    model = nn.Sequential()
    model.add_module(HOSTILE.replace(".", ""), nn.Linear(20, 3))
    run, _ = watched(model, torch.optim.SGD(model.parameters(), 0.01), 2)
    run.log(**{HOSTILE: 1.0})
    assert "<script" not in run._repr_mimebundle_()["text/html"]


def test_checks_that_read_recordings_judge_it() -> None:
    """Those that need the model itself are not asked, and what they may do without is None."""

    @nbdebug.check
    def loss_is_small(recording: Recording, first: FirstPass | None = None, *, least: float = 100.0):  # type: ignore[no-untyped-def]
        """The loss is small.

        Why it matters: it is only an example of a check that a user may write in a cell.

        What to try: nothing, it is only an example of a check that a user may write in a cell.
        """
        assert first is None
        if recording.loss.last < least:
            yield nbdebug.Finding(f"The loss is {recording.loss.last:.2f}.", where="loss", evidence={"least": least})

    try:
        model = mlp()
        run, _ = watched(model, torch.optim.SGD(model.parameters(), 0.01), 3)
        report = run.report()
        assert report.result("loss-is-small").status == "found" and report.setup["steps"] == 3
        assert "loss-is-small" in [finding.check for finding in run.findings]
        assert run.report({"loss-is-small": {"least": 0.0}}).result("loss-is-small").status == "clean"
        assert "forward-fails" not in [result.check for result in report.results]
        quiet = nbdebug.diagnose(model, [batch(0)], checks=["loss-is-small"], progress=False)
        assert quiet.result("loss-is-small").status == "skipped"
    finally:
        registry.checks.pop("loss-is-small")


def test_listeners_hear_a_few_times_a_second_and_never_inside_autograd() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    heard: list[tuple[float, int]] = []

    def listen(live: Any) -> None:
        heard.append((time.perf_counter(), live.recording().steps))
        assert not any("_engine_run_backward" in str(frame) for frame in _stack())

    with nbdebug.watch(model, optimizer) as live:
        live.subscribe(listen)
        ended = live.subscribe(lambda live: heard.append((0.0, -1)))
        ended()
        live.subscribe(lambda live: 1 / 0)
        begun = time.perf_counter()
        with pytest.warns(UserWarning, match="listener"):  # noqa: PT031 - it comes from one of many steps
            while time.perf_counter() - begun < 1.3:
                train(model, optimizer, 10)
    assert len(heard) >= 2 and all(steps > 0 for _, steps in heard)
    assert min(np.diff([moment for moment, _ in heard][:-1]), default=1.0) > 0.45  # the last one is told at the end
    assert heard[-1][1] == live.step


def _stack() -> list[Any]:
    frame, found = sys._getframe(), []
    while frame is not None:
        found.append(frame.f_code)
        frame = frame.f_back  # type: ignore[assignment]
    return found


def test_it_backs_off_when_its_share_exceeds_the_budget() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with nbdebug.watch(model, optimizer, every=1, budget=0.001) as live:
        train(model, optimizer, 400)
    found = live.recording()
    assert found.budget == 0.001 and len(found.loss) == 400
    assert 1 <= found.used.measured < 200


def test_it_works_with_the_package_imported_first() -> None:
    code = "import nbdebug.watch.run, nbdebug, torch; m = torch.nn.Linear(2, 1); print(nbdebug.watch(m).step)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, env=os.environ)
    assert done.stdout.strip() == "0", done.stderr


BAD: dict[str, tuple[Any, str]] = {
    "no model": (lambda m, o: nbdebug.watch(None, o), "got NoneType"),
    "a class": (lambda m, o: nbdebug.watch(nn.Linear, o), "class and not an object"),
    "things swapped": (lambda m, o: nbdebug.watch(o, m), "got SGD"),
    "no models": (lambda m, o: nbdebug.watch([], o), "got nothing"),
    "optimizer of another": (lambda m, o: nbdebug.watch(nn.Linear(2, 2), o), "none of them is a parameter"),
    "a scheduler": (lambda m, o: nbdebug.watch(m, torch.optim.lr_scheduler.StepLR(o, 1)), "scheduler.optimizer"),
    "a scripted model": (lambda m, o: nbdebug.watch(torch.jit.script(m)), "scripted"),
    "every": (lambda m, o: nbdebug.watch(m, o, every=0), "every is 0"),
    "budget": (lambda m, o: nbdebug.watch(m, o, budget=3), "between 0 and 1"),
    "layers": (lambda m, o: nbdebug.watch(m, o, layers="encoder.*"), "no layer matches"),
    "an ending": (lambda m, o: nbdebug.watch(m, o).save("run.csv"), "ends in .npz"),
    "no file": (lambda m, o: nbdebug.watch.load("nowhere.npz"), "there is no file"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_explained(what: str) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with pytest.raises(nbdebug.BadInput, match=BAD[what][1]) as caught:
        BAD[what][0](model, optimizer)
    assert "What to do" in str(caught.value) and not any(module._forward_hooks for module in model.modules())


def test_layers_can_be_chosen() -> None:
    model = mlp()
    run, _ = watched(model, torch.optim.SGD(model.parameters(), 0.01), 2, layers=["2", "4"])
    assert set(run.recording().layers) == {"2", "4"}


def test_whoever_wants_to_hear_of_runs_hears_of_each_beginning_and_can_break_nothing() -> None:
    model, heard = mlp(), []
    end = on_begin(lambda run: heard.append((run.is_running, run.step)))
    failing = on_begin(lambda run: 1 / 0)
    live = nbdebug.watch(model)
    with pytest.warns(UserWarning, match="a listener of nbdebug.watch failed and was removed"), live:
        live.start()  # runs already
    with live:
        pass
    end()
    failing()
    with live:
        pass
    assert heard == [(True, 0), (True, 0)]


def test_an_interrupt_of_a_listener_leaves_no_hook() -> None:
    def interrupt(_: Any) -> None:
        raise KeyboardInterrupt

    model = mlp()
    end = on_begin(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            nbdebug.watch(model).start()
    finally:
        end()
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_finding_appears_at_its_step_and_not_at_a_number_that_is_called_so() -> None:
    model = mlp()
    run, _ = watched(model, torch.optim.SGD(model.parameters(), 0.1), 12)
    run.report()
    assert run.appeared(nbdebug.Finding("x", step=7)) == 7
    assert run.appeared(nbdebug.Finding("x", evidence={"step": 7})) is None


@pytest.mark.parametrize("place", [0, -1], ids=["first", "last"])
def test_an_interrupt_while_the_run_is_judged_reaches_the_training(monkeypatch: Any, place: int) -> None:
    model = mlp()
    run, _ = watched(model, torch.optim.SGD(model.parameters(), 0.1), 12)
    ran = [result.check for result in run.report().results if result.status in ("clean", "found")]
    chosen = registry.checks[ran[place]]

    def pressed(**_: Any) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setitem(registry.checks, chosen.id, replace(chosen, function=pressed))
    with pytest.raises(KeyboardInterrupt):
        run.report()
    monkeypatch.undo()
    assert run.report().result(chosen.id).status != "crashed"  # nothing half done is kept
