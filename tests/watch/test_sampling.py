"""Samples of outputs and weights: taken from the right memory, and anew where something has changed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from nbdebug.watch.recorder.memory import Memory
from nbdebug.watch.recorder.sampling import Gather
from nbdebug.watch.recorder.weights import WeightViews
from tests.watch.runs import mlp, watched


def calls_of(tensors: list[torch.Tensor]) -> list[tuple[int, torch.Tensor, int]]:
    return [(index, tensor, tensor._version) for index, tensor in enumerate(tensors)]


def taken(gather: Gather, tensors: list[torch.Tensor]) -> dict[int, np.ndarray]:
    return {i: row for block in gather(calls_of(tensors)) for i, row in zip(block.indices, block.rows(), strict=True)}


@pytest.mark.parametrize("step", range(6))
def test_what_lies_at_an_address_is_read_anew(step: int) -> None:
    gather = Gather(3)
    for number in range(8):  # sizes, types and layouts change, and addresses come again
        rows = 16 if number % 4 else 24
        tensors = [torch.randn(rows, 40, requires_grad=True) * 2 for _ in range(3)]
        tensors[1] = tensors[1].double() if number == step else tensors[1]
        tensors[2] = tensors[2].t() if number == step + 1 else tensors[2]
        found = taken(gather, tensors)
        fresh = taken(Gather(3), tensors)
        assert found.keys() == fresh.keys() and all(np.array_equal(found[index], fresh[index]) for index in found)


def test_memory_is_refused_where_it_is_not_what_it_was() -> None:
    layout = ((4,), (4,))
    memory, tensor = Memory([4], [layout]), torch.arange(4.0)
    arrays = memory.of([tensor])
    assert arrays is not None and list(arrays[0]) == [0, 1, 2, 3]
    tensor.add_(1)
    assert list(arrays[0]) == [1, 2, 3, 4]
    others: list[torch.Tensor] = [
        torch.arange(5.0),
        torch.arange(4),
        torch.arange(8.0)[::2],
        torch.zeros(4, device="meta"),
        torch.zeros(4).to_sparse(),
    ]
    assert [memory.of([other]) for other in others] == [None] * len(others)
    assert Memory([0], [layout]).of([torch.zeros(0)]) is None


def data_shrunk(parameter: torch.Tensor) -> None:
    parameter.data.mul_(0.5)  # bumps no version


def shrunk(parameter: torch.Tensor) -> None:
    with torch.no_grad():
        parameter.mul_(0.5)


def swapped(parameter: torch.Tensor) -> None:
    parameter.data = parameter.data.clone() * 0.5


def test_a_sample_after_a_step_is_the_one_before_the_next() -> None:
    parameters = [nn.Parameter(torch.randn(30, 30)) for _ in range(3)]
    views = WeightViews(parameters)
    reused = 0
    for step in range(40):
        before = views.before(step)
        with torch.no_grad():
            parameters[1].add_(0.1)
        after = views.after(step + 1)
        change = [b.rows() - a.rows() for a, b in zip(before, after, strict=True)]
        assert np.allclose(change[0][1], 0.1, atol=1e-6) and not change[0][[0, 2]].any()
        reused += views.before(step + 1) is after
    assert 30 < reused < 40


@pytest.mark.parametrize("change", [shrunk, swapped])
def test_weights_that_somebody_else_changes_are_copied_anew(change: Callable[[torch.Tensor], None]) -> None:
    parameters = [nn.Parameter(torch.ones(30, 30))]
    views = WeightViews(parameters)
    for step in range(40):
        before = views.before(step)
        assert np.allclose(before[0].rows(), parameters[0].detach()[0, 0])
        views.after(step + 1)
        change(parameters[0])


def test_weights_that_are_clipped_silently_are_noticed() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    live, _ = watched(model, optimizer, 60, after_step=lambda: data_shrunk(model[0].weight))
    updates = live.recording().parameters["0.weight"].update
    late = np.array(updates.values)[np.array(updates.steps) > 16]  # a step of zero changes nothing
    assert len(late) > 30 and not late.any()


@pytest.mark.parametrize(
    "shape",
    [(64, 16, 32, 32), (32, 64, 8, 8), (128, 512), (100, 77), (16, 64, 256), (4, 3, 224, 224), (1024, 24), (9, 4001)],
)
def test_a_sample_stands_for_all_channels_and_units(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    per_channel = torch.randn(1, shape[1], *(1 for _ in shape[2:]))
    if len(shape) == 3:
        per_channel = torch.randn(1, 1, shape[2])  # words: the units come last
    tensor = 2 * per_channel + torch.randn(shape)
    rows = taken(Gather(1), [tensor])[0]
    # As many drawn at random would be off by a tenth of these: those of one line have a channel in common.
    assert abs(rows.mean() - float(tensor.mean())) < 0.35 * float(tensor.std())
    assert 0.8 < rows.std() / float(tensor.std()) < 1.2


def test_samples_of_weights_rotate_to_the_end() -> None:
    weight = nn.Parameter(torch.arange(300_000.0).reshape(300, 1000))
    views = WeightViews([weight])
    seen = {float(block.rows().max()) for step in range(1, 100) for block in views.before(2 * step)}
    assert len(seen) == 4 and max(seen) > 290_000 / 1.3
