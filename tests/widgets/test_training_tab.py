"""The wizard's Training tab follows the user's own training, once that is watched."""

from __future__ import annotations

from typing import Any

import torch
from ipywidgets.widgets.widget import _instances
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug


def setup() -> tuple[Any, DataLoader[Any], Any]:
    torch.manual_seed(0)
    x = torch.randn(128, 6)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
    loader = DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), 32)
    return model, loader, torch.optim.SGD(model.parameters(), 0.1)


def train(model: Any, loader: DataLoader[Any], optimizer: Any) -> Any:
    with nbdebug.watch(model, optimizer, show=False) as live:
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    return live


def test_it_follows_the_users_own_training_of_this_model() -> None:
    before = set(_instances)
    model, loader, optimizer = setup()
    wizard = nbdebug.wizard(model, loader, nn.CrossEntropyLoss(), optimizer)
    wizard.face.tabs["Training"].click()
    assert "nbdebug.watch(model, optimizer)" in wizard.face.explored.children[-1].value
    other = train(*setup())  # of another model
    assert len(wizard.face.explored.children) == 1
    live = train(model, loader, optimizer)
    curves = wizard.face.explored.children[0]
    assert curves.data["steps"] == live.step == 4 and not curves.data["running"]
    assert "nbdebug.watch(" not in wizard.face.explored.children[-1].value
    again = train(model, loader, optimizer)
    assert wizard.face.explored.children[0] is not curves and again.step == 4
    wizard.close()
    assert set(_instances) == before and other.step == 4
