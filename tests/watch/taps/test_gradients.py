"""Taps on gradients: of what was picked, once a call, and with nothing that piles up."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import nn

import nbdebug


def test_the_gradient_is_that_of_what_was_picked() -> None:
    class Both(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return x * 1, x.expand(3, -1) * 2

    asked: list[tuple[int, ...]] = []
    model = Both()
    with nbdebug.tap(model, of="gradient", pick=lambda output: output[1]) as tap:
        tap.break_when(lambda value: asked.append(tuple(value.shape)))
        model(torch.ones(1, 4, requires_grad=True))[1].sum().backward()
    assert tap.value is not None and torch.equal(tap.value, torch.ones(3, 4))
    assert asked == [(3, 4)]


def test_a_pick_that_fails_never_ends_the_training() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    with nbdebug.tap(model, "0", of="gradient", pick=lambda output: output.hidden):
        with pytest.warns(UserWarning, match="tap on 0 is disabled.*AttributeError"):
            model(torch.ones(3, 4)).sum().backward()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model(torch.ones(3, 4)).sum().backward()


def test_a_fault_at_one_module_leaves_the_others_looked_at() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    with nbdebug.tap(model, "**").print(when=lambda value: value[:, 2].sum() > 99) as tap:
        tap.break_when(lambda value: value[:, 2].sum() > 99)
        with pytest.warns(UserWarning, match="tap on 1 (no longer stops|is disabled)") as warned:
            model(torch.ones(3, 4)), model(torch.ones(3, 4))
    assert [r.name for r in tap.readings] == ["0", "1", "0"]
    assert sum("tap on" in str(w.message) for w in warned) == 2  # one for the print, one for the breakpoint


def test_a_leaf_that_a_module_returns_carries_one_hook() -> None:
    class Position(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.at = nn.Parameter(torch.zeros(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.at

    model = nn.Sequential(Position())
    with nbdebug.tap(model, "0", of="gradient") as tap:
        for _ in range(5):
            model(torch.ones(4)).sum().backward()
        assert len(model[0].at._backward_hooks) == 1
    assert [r.step for r in tap.readings] == [0, 1, 2, 3, 4]
    assert not model[0].at._backward_hooks


def test_handles_are_bounded_where_the_model_is_never_called() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    with nbdebug.tap(model, "0", of="gradient", keep=0, history=10) as tap:
        for _ in range(400):
            model[0](torch.ones(1, 2)).sum().backward()
        assert len(tap._graph_handles) < 200
        assert [r.step for r in tap.readings][-1] == 399
