"""Trainings whose answers turn over and over."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Subset

import nbdebug
from nbdebug.watch.judging import judged
from tests.examples import failing_recording
from tests.real_runs import mlp, watched
from tests.zoo.tabular import digits


def fixed() -> torch.Tensor:
    """Return a batch that is never trained on by itself."""
    return torch.stack([digits().dataset[index][0] for index in range(64)])


@failing_recording("predictions-unstable", where="model")
def rate_too_high() -> dict[str, Any]:
    """The model forgets as much as it learns."""
    model = mlp()
    return watched(model, torch.optim.SGD(model.parameters(), lr=8.0), fixed=fixed())
    # fixed: return watched(model, torch.optim.SGD(model.parameters(), lr=0.05), fixed=fixed())


@failing_recording("predictions-unstable", where="model")
def one_class_at_a_time() -> dict[str, Any]:
    """Each batch teaches one class and undoes the others."""
    data = digits().dataset
    order = torch.stack([label for _, label in data]).argsort().tolist()
    model = mlp()
    loader = DataLoader(Subset(data, order), 64)
    return watched(model, torch.optim.SGD(model.parameters(), lr=0.5), batches=loader, fixed=fixed())


def test_a_model_that_learns_settles() -> None:
    torch.manual_seed(0)
    model = mlp()
    recording = watched(model, torch.optim.Adam(model.parameters(), lr=1e-3), fixed=fixed())["recording"]
    assert judged(recording).result("predictions-unstable").status == "clean"


def test_following_leaves_no_trace() -> None:
    """The weights end bit by bit as without it, and no hook stays."""
    ends = []
    for follow in (None, fixed()):
        torch.manual_seed(0)
        model = mlp(torch.nn.Dropout(0.3), torch.nn.BatchNorm1d(32))
        watched(model, torch.optim.Adam(model.parameters()), steps=40, fixed=follow)
        assert not model._forward_pre_hooks
        ends.append((copy.deepcopy(model.state_dict()), torch.get_rng_state()))
    assert all(torch.equal(ends[0][0][key], ends[1][0][key]) for key in ends[0][0])
    assert torch.equal(ends[0][1], ends[1][1])


def test_what_cannot_be_followed_is_refused() -> None:
    with pytest.raises(nbdebug.BadInput, match=r"that nbdebug\.watch"):
        nbdebug.follow_predictions(mlp(), fixed())  # type: ignore[arg-type]
