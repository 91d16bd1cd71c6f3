"""Numbers of the user's own: which are taken, for which step, and what is said where there are too many."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import torch

import nbdebug
from nbdebug.watch.recorder.store import MOST_NAMES, PENDING
from tests.watch.runs import batch, mlp, train, watched


def logging(log: Callable[[Any], Any], steps: int = 3) -> nbdebug.watch.Live:
    """Train a few steps, and log after each."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with nbdebug.watch(model, optimizer) as live:
        train(model, optimizer, steps, after_step=lambda: log(live))
    return live


NUMBERS: dict[str, tuple[Any, float]] = {
    "an integer": (2**53 - 1, 2**53 - 1),
    "a truth": (True, 1.0),
    "a large float": (1e300, 1e300),
    "a decimal": (Decimal("0.25"), 0.25),
    "NumPy's float": (np.float32(0.5), 0.5),
    "NumPy's integer": (np.int64(2**40 + 1), 2**40 + 1),
    "NumPy's truth": (np.bool_(True), 1.0),
    "an array without dimensions": (np.array(0.5), 0.5),
    "an array with one element": (np.array([[7]]), 7.0),
    "a tensor": (torch.tensor(0.5), 0.5),
    "a tensor with dimensions": (torch.tensor([[3]]), 3.0),
    "a tensor with a gradient": (torch.tensor(0.5, requires_grad=True), 0.5),
    "a double": (torch.tensor(1e39, dtype=torch.float64), 1e39),
}


@pytest.mark.parametrize("what", NUMBERS)
def test_one_number_is_taken_exactly(what: str) -> None:
    value, expected = NUMBERS[what]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        series = logging(lambda live: live.log(x=value)).recording().scalars["x"]
    assert series.values.tolist() == [expected] * 3 and series.not_finite == 0


class Fails:
    def __float__(self) -> float:
        raise RuntimeError("not yet")


REFUSED: dict[str, tuple[Any, str, str]] = {
    "an integer without end": (10**400, "too large for a float", r"live\.log\(x=math\.log10\(x\)\)"),
    "a text": ("low", "x is a str", r"numbers only; .*float\(x\)"),
    "nothing": (None, "x is None", "if x is not None"),
    "a list": ([1.0, 2.0], "x is a list", r"sum\(x\) / len\(x\)"),
    "a dict": ({"a": 1.0}, "x is a dict", r"live\.log\(\*\*x\)"),
    "a vector": (torch.zeros(3), r"shape \(3,\)", r"float\(x\.mean\(\)\)"),
    "an array": (np.zeros((2, 2)), r"NumPy array of shape \(2, 2\)", r"float\(x\.mean\(\)\)"),
    "an empty array": (np.zeros(0), r"shape \(0,\)", "mean"),
    "texts of NumPy": (np.array(["a"]), "type <U1", "numbers only"),
    "a complex tensor": (torch.tensor(1j), "complex64", r"float\(abs\(x\)\)"),
    "a complex number": (1j, "a complex", r"float\(abs\(x\)\)"),
    "NumPy's complex number": (np.complex64(1j), "complex64", r"float\(abs\(x\)\)"),
    "a method": (torch.zeros(1).item, "builtin", r"live\.log\(x=x\(\)\)"),
    "what has no number yet": (Fails(), "a Fails", "a number of it"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_number_is_refused_with_advice_that_fits(what: str) -> None:
    value, seen, advice = REFUSED[what]
    live = nbdebug.watch(mlp())
    with pytest.raises(nbdebug.BadInput, match=f"(?s)live.log: .*{seen}.*What to do: .*{advice}") as caught:
        live.log(x=value)
    assert ("mean" in caught.value.do) == ("mean" in advice)
    with pytest.raises(nbdebug.BadInput, match=r"\*\*"):
        live.log(**{"val/x": value})
    assert not live.recording().scalars


def test_numbers_without_a_name_are_refused() -> None:
    live = nbdebug.watch(mlp())
    with pytest.raises(nbdebug.BadInput, match=r"live\.log\(\*\*metrics\)"):
        live.log({"x": 1})
    with pytest.raises(nbdebug.BadInput, match=r"live\.log\(name=value\)"):
        live.log(0.5)
    live.log(self=1.0)
    assert live.recording().scalars["self"].last == 1.0


@pytest.mark.parametrize("looks", [False, True], ids=["at once", "with a look between"])
def test_the_last_number_of_a_step_is_kept(looks: bool) -> None:
    """It makes no difference whether somebody looked, which moves what came before into the history."""

    def log(live: nbdebug.watch.Live) -> None:
        for value in (math.nan, 1.0, 2.0):
            live.log(x=value, y=-value)
            if looks:
                live.recording()

    scalars = logging(log, 5).recording().scalars
    assert scalars["x"].values.tolist() == [2.0] * 5 and scalars["y"].values.tolist() == [-2.0] * 5
    assert scalars["x"].steps.tolist() == [0, 1, 2, 3, 4]
    assert (scalars["x"].not_finite, scalars["x"].first_not_finite) == (0, None)


def test_a_loss_that_is_logged_after_a_look_takes_the_place_of_the_one_that_was_seen() -> None:
    live = logging(lambda live: (live.recording(), live.log(loss=-1.0)))
    assert live.recording().loss.values.tolist() == [-1.0] * 3


def test_more_names_than_there_is_room_for_are_told_once() -> None:
    names = [f"n{number}" for number in range(MOST_NAMES + 50)]
    with pytest.warns(UserWarning, match=f"At most {MOST_NAMES} names .* n200, n201, n202 and others") as told:
        live = logging(lambda live: live.log(**dict.fromkeys(names, 1.0)))
    assert len(told) == 1 and told[0].filename == __file__
    recording = live.recording()
    assert set(recording.scalars) == {"loss", *names[:MOST_NAMES]}
    assert all(series.measured == 3 for series in recording.scalars.values())
    assert sum("n200, n201, n202 and others" in note for note in recording.unseen) == 1
    for number in range(1000):  # what is refused is not collected
        live.log(**{f"later {number}": 1.0})
    assert len(live._recorder.explicit) == MOST_NAMES and len(live._recorder.store.left_out) < 10


def test_as_many_names_as_there_is_room_for_are_no_matter() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        live = logging(lambda live: live.log(**{f"n{number}": 1.0 for number in range(MOST_NAMES)}))
    assert len(live.recording().scalars) == MOST_NAMES + 1 and not live.recording().unseen


@pytest.mark.parametrize("passes", [0, 1], ids=["at once", "after a pass"])
def test_what_is_logged_when_the_recording_is_over_belongs_to_the_last_step(passes: int) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with nbdebug.watch(model, optimizer) as live:
        train(model, optimizer, 5)
        for _ in range(passes):
            model(batch(0)[0])  # with a gradient, as a step begins
    live.log(val_loss=1.0)
    live.log(val_loss=0.25)
    assert live.recording().scalars["val_loss"].steps.tolist() == [4]
    live.log(val_loss=0.5)
    found = live.recording().scalars["val_loss"]
    assert found.steps.tolist() == [4] and found.values.tolist() == [0.5]
    live.start()
    train(model, optimizer, 1)
    live.stop()
    live.log(val_loss=0.75)
    assert live.recording().scalars["val_loss"].values.tolist() == [0.5, 0.75]


def test_steps_never_go_back() -> None:
    """What was logged for a step that was begun and never made is not lost, nor what comes after it."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with nbdebug.watch(model, optimizer) as live:
        train(model, optimizer, 2)
        model(batch(0)[0])
        live.log(x=1.0)
        live.recording()
    live.log(x=2.0)
    assert live.recording().scalars["x"].values.tolist() == [2.0]


def test_logging_without_steps_does_not_pile_up() -> None:
    model = mlp()
    live, _ = watched(model, torch.optim.SGD(model.parameters(), 0.01), 2)
    for number in range(2 * PENDING):
        live.log(x=number)
    assert len(live._recorder.store.logged) < PENDING
    assert live.recording().scalars["x"].values.tolist() == [2 * PENDING - 1]


def test_a_listener_has_to_be_a_function() -> None:
    with pytest.raises(nbdebug.BadInput, match="the listener is int"):
        nbdebug.watch(mlp()).subscribe(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("every", [1, 4, 100])
def test_a_loss_that_is_logged_counts_at_its_step_and_the_others_are_still_seen(every: int) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with nbdebug.watch(model, optimizer) as live:
        live.log(loss=7.0)  # as after an evaluation before the training
        losses = train(model, optimizer, 120, after_step=lambda: live.step % every or live.log(loss=5.0))
    found = live.recording().loss
    logged = [step for step in range(120) if (step + 1) % every == 0]
    assert found.steps.tolist() == list(range(120))
    expected = [5.0 if step in logged else loss for step, loss in enumerate(losses)]
    expected[0] = 5.0 if every == 1 else 7.0
    assert found.values.tolist() == pytest.approx(expected)


def test_a_loss_that_is_logged_within_its_step_counts_also_when_somebody_reads_meanwhile() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with nbdebug.watch(model, optimizer) as live:
        for number in range(5):
            x, y = batch(number)
            loss = torch.nn.functional.cross_entropy(model(x), y)
            live.log(loss=number)
            live.recording()
            loss.backward()
            optimizer.step()
    assert live.recording().loss.values.tolist() == [0, 1, 2, 3, 4]


def test_a_nan_is_seen_between_two_losses_that_are_logged() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with nbdebug.watch(model, optimizer) as live:
        for number in range(60):
            x, y = batch(number)
            loss = torch.nn.functional.cross_entropy(model(x), y) * (1 if number < 45 else math.nan)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if number % 20 == 0:
                live.log(loss=loss)
    finding = next(finding for finding in live.report().findings if finding.check == "non-finite-loss")
    assert finding.evidence["first step"] == 45
