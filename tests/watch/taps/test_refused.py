"""Tasks that a tap refuses: it leaves nothing on the model, and says what would do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.errors import BadInput


def hooks(model: nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))


REFUSED: dict[str, tuple[Any, str]] = {
    "a switch": (lambda tap: tap.expect(finite=1), "finite=1"),
    "a size below zero": (lambda tap: tap.expect(shape=("B", -1)), "None for any size"),
    "a word": (lambda tap: tap.expect(shape="x"), "is not a shape"),
    "no condition": (lambda tap: tap.break_when(3), "lambda value"),
    "no count": (lambda tap: tap.print(every=0), "write every=1"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_task_that_is_refused_leaves_no_hook(what: str) -> None:
    network = model()
    act, says = REFUSED[what]
    with pytest.raises(BadInput, match=says):
        act(nbdebug.tap(network, "0"))
    assert hooks(network) == 0


def test_a_tap_that_is_held_takes_the_next_task() -> None:
    network, said = model(), []
    tap = nbdebug.tap(network, "0")
    with pytest.raises(BadInput):
        tap.expect(shape="x")
    tap.print(show=said.append)
    network(torch.randn(2, 4))
    assert len(said) == 1 and len(tap.readings) == 1
    with pytest.raises(BadInput):
        tap.expect(shape="x")  # it has another task already, and goes on with that
    network(torch.randn(2, 4))
    assert len(said) == 2
    tap.remove()
    assert hooks(network) == 0


def test_a_condition_with_many_answers_is_told_how_to_give_one() -> None:
    network = model()
    with (
        nbdebug.tap(network, "0").expect(holds=lambda value: value < 100) as _,
        pytest.raises(nbdebug.ExpectationFailed, match=r"\(value < 3\)\.all\(\)"),
    ):
        network(torch.randn(2, 4))
    with nbdebug.tap(network, "0").print(when=lambda value: value > 0), pytest.warns(UserWarning, match=r"\.any\(\)"):
        network(torch.randn(2, 4))


@pytest.mark.parametrize(("given", "says"), [({"of": "grad"}, "of='gradient'"), ({"pick": 3}, r"lambda out: out\[0\]")])
def test_advice_fits_what_was_asked(given: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        nbdebug.tap(model(), "0", **given)


def test_a_failed_expectation_is_not_explained_as_a_fault_of_the_layer() -> None:
    network = model()
    with nbdebug.tap(network, "0").expect(high=-1e9), pytest.raises(nbdebug.ExpectationFailed) as caught:
        network(torch.randn(2, 4))
    explanation = " ".join(str(nbdebug.explain_error(caught.value)).split())
    assert "Possible fix" not in explanation and "expected values of at most" in explanation
