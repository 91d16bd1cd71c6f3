"""What a watch says where there is little to say, or where it was asked for what cannot be."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

import nbdebug
from nbdebug.errors import BadInput
from tests.watch.runs import batch, mlp, train, watched

cross_entropy = torch.nn.functional.cross_entropy


def test_a_loop_that_never_steps_is_told_so_before_it_is_a_finding() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with nbdebug.watch(model, optimizer) as live:
        for number in range(12):
            x, y = batch(number)
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
    told = "12 forward and 12 backward passes were seen, and no step"
    assert told in str(live) and told in live.report().notes[0] and told in nbdebug.show_live(live).data["notes"][0]
    assert not any("something else trains" in note for note in live.recording().unseen)


def test_an_optimizer_that_was_made_anew_is_noticed() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with nbdebug.watch(model, optimizer) as live:
        train(model, torch.optim.SGD(model.parameters(), 0.01), 12)
    assert any("something else trains them" in note for note in live.report().notes)


def test_a_few_steps_are_no_clean_bill() -> None:
    live, _ = watched(mlp_model := mlp(), torch.optim.SGD(mlp_model.parameters(), 0.01), 3)
    assert live.report().notes == ["Only 3 steps so far: most checks require at least 20."]
    assert "layers at every step" in str(live)


@pytest.mark.parametrize("inputs", [(torch.randn(4, 5),), ("x",), ([1, 2],), ()])
def test_inputs_that_the_model_does_not_take_are_refused_at_once(inputs: tuple[Any, ...]) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with nbdebug.watch(model, optimizer) as live:
        hooks = len(model._forward_pre_hooks)
        with pytest.raises(BadInput, match="the model fails with these inputs"):
            nbdebug.follow_predictions(live, *inputs)
        assert len(model._forward_pre_hooks) == hooks
        train(model, optimizer, 5)


def test_a_copy_that_fails_later_ends_the_following_and_not_the_training() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    fixed = batch(0)[0]
    with nbdebug.watch(model, optimizer) as live:
        nbdebug.follow_predictions(live, fixed, every=2)
        train(model, optimizer, 4)
        fixed.resize_(32, 3)
        with pytest.warns(UserWarning, match="follow_predictions stopped"):
            train(model, optimizer, 4)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            train(model, optimizer, 4)
    assert live.recording().steps == 12


BAD: dict[str, tuple[Any, str]] = {
    "layers": (lambda m, o: nbdebug.watch(m, o, layers=3), "a name or a pattern of modules"),
    "a list of layers": (lambda m, o: nbdebug.watch(m, o, layers=[3]), "a name or a pattern of modules"),
    "swapped": (lambda m, o: nbdebug.watch(o, m), "the model comes first"),
    "optimizer": (lambda m, o: nbdebug.watch(m, 3), "the optimizer that trains the model"),
    "tensorboard": (lambda m, o: nbdebug.watch(m, o).to_tensorboard(None), "the path is NoneType"),
    "ending": (lambda m, o: nbdebug.watch(m, o).save("run"), "has no suffix"),
    "every": (lambda m, o: nbdebug.follow_predictions(nbdebug.watch(m, o), batch(0)[0], every=0), "every is 0"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_is_refused_with_words(what: str) -> None:
    model = mlp()
    act, says = BAD[what]
    with pytest.raises(BadInput, match=says):
        act(model, torch.optim.SGD(model.parameters(), 0.01))
