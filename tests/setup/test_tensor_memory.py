"""Arrays over the memory of tensors: the same values, and memory that may still be resized."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch

from nbdebug.setup.tensor_memory import array_of

KINDS = (torch.float32, torch.float64, torch.float16, torch.int64, torch.int8, torch.uint8, torch.bool, torch.complex64)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 4), (2, 3, 4)], ids=str)
def test_it_has_the_values_and_leaves_no_mark(kind: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = torch.randn(shape).to(kind)
    array = array_of(tensor)
    assert tensor.untyped_storage().resizable()
    assert array.shape == shape and np.array_equal(array, tensor.clone().numpy())


def test_it_sees_what_is_written_later_and_keeps_the_memory() -> None:
    tensor = torch.zeros(4, requires_grad=True)
    array = array_of(tensor)
    with torch.no_grad():
        tensor.add_(1)
    del tensor
    gc.collect()
    assert list(array) == [1, 1, 1, 1]


def test_views_stay_views() -> None:
    tensor = torch.arange(12.0).reshape(3, 4)
    assert np.array_equal(array_of(tensor.t()[1:, ::2]), tensor.clone().numpy().T[1:, ::2])
