"""Which step a value belongs to, which values share the letters of a shape, and what is no step at all."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint

import nbdebug


def rows(count: int) -> torch.Tensor:
    return torch.ones(count, 2)


def two() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))


def test_letters_of_modules_that_are_only_called_alone_hold_for_one_turn() -> None:
    model = two()
    with nbdebug.tap(model, "**").expect(shape=("B", 2)):
        for size in (4, 4, 3):
            model[1](model[0](rows(size)))
        model[0](rows(4))
        with pytest.raises(nbdebug.ExpectationFailed, match="B is 3 here and 4 at 0"):
            model[1](rows(3))


def test_letters_are_not_compared_where_one_part_is_called_more_often() -> None:
    model = two()
    with nbdebug.tap(model, "**").expect(shape=("B", 2)) as tap:
        for size in (4, 4, 3):
            model[1](rows(size)), model[1](model[0](rows(size)))
    assert len(tap.readings) == 9


def test_letters_of_two_passes_with_one_backward_stay_apart() -> None:
    model = two()
    with nbdebug.tap(model, "**", of="gradient").expect(shape=("B", 2)) as tap:
        (model(rows(3)).sum() + model(rows(5)).sum()).backward()
    assert sorted((r.step, r.name) for r in tap.readings) == [(0, "0"), (0, "1"), (1, "0"), (1, "1")]


def test_letters_of_threads_stay_apart() -> None:
    """Both threads are in the middle of their own pass at the same time."""
    meet, failed = threading.Barrier(2, timeout=60), list[BaseException]()

    class Meeting(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            meet.wait()
            return x

    model = nn.Sequential(nn.Linear(2, 2), Meeting(), nn.Linear(2, 2))

    def run(size: int) -> None:
        try:
            model(rows(size))
        except nbdebug.ExpectationFailed as error:
            failed.append(error)

    with nbdebug.tap(model, "**").expect(shape=("B", 2)) as tap:
        threads = [threading.Thread(target=run, args=(size,)) for size in (2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failed
    assert {(r.step, r.call) for r in tap.readings} == {(0, 0), (1, 0)}


def test_a_module_called_alone_after_the_model_is_no_part_of_its_step() -> None:
    class Fails(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise RuntimeError

    model = two()
    with nbdebug.tap(model, "**").expect(shape=("B", 2)):
        model(rows(4)), model[0](rows(3))
        model(rows(4)), model[1](rows(5))
    model.append(Fails())
    with nbdebug.tap(model, ["0", "1"]).expect(shape=("B", 2)):
        with pytest.raises(RuntimeError):
            model(rows(4))
        model[0](rows(3))


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_of_the_whole_model_is_one_step(reentrant: bool) -> None:
    model = two()
    with nbdebug.tap(model, "0") as output, nbdebug.tap(model, "0", of="gradient") as gradient:
        for _ in range(3):
            given = rows(3).requires_grad_()
            checkpoint(model, given, use_reentrant=reentrant).sum().backward()
    for tap in (output, gradient):
        assert [(r.step, r.call) for r in tap.readings] == [(0, 0), (1, 0), (2, 0)]


def per_sample(model: nn.Module) -> None:
    def loss(parameters: Any, row: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, parameters, (row,)).sum()

    torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(dict(model.named_parameters()), rows(3))


def with_fake_tensors(model: nn.Module) -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        model(torch.empty(3, 2))


@pytest.mark.parametrize("of", ["input", "output", "gradient"])
@pytest.mark.parametrize(
    "unreal",
    [
        lambda model: torch.export.export(model, (rows(3),)),
        lambda model: torch.export.export(model, (rows(3),), strict=True),
        lambda model: torch.compile(model, backend="eager", fullgraph=True)(rows(3)),
        lambda model: torch.jit.trace(model, rows(3), check_trace=False),
        per_sample,
        with_fake_tensors,
    ],
    ids=["export", "strict export", "compile", "trace", "per sample", "fake"],
)
def test_what_is_traced_or_transformed_is_passed_by_and_what_comes_after_is_seen(
    unreal: Callable[[nn.Module], Any], of: Any
) -> None:
    model = two()
    with nbdebug.tap(model, "0", of=of).break_when(lambda value: False) as tap:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="the tap on")
            unreal(model)
        assert not tap.readings and tap.step == -1
        model(rows(3)).sum().backward()
    assert [(r.step, r.call) for r in tap.readings] == [(0, 0)]
