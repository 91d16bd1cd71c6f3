"""Failing examples whose gradient grows on its way back."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.checks.test_vanishing_gradients import deep, setup
from tests.examples import failing_example


def waves(length: int = 60) -> DataLoader[Any]:
    """Return noisy waves of two frequencies."""
    time = torch.arange(length) / 10
    label = torch.arange(256) % 2
    rows = torch.sin(time * (1 + label[:, None]) + torch.rand(256, 1) * 6) + 0.1 * torch.randn(256, length)
    return DataLoader(TensorDataset(rows[:, :, None], label), 32, shuffle=True)


class Recurrent(nn.Module):
    """A recurrent layer with ReLU, which nothing keeps from growing."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.rnn, self.last = layer, nn.Linear(32, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Answer from the last state."""
        return self.last(self.rnn(x)[0][:, -1])


class ByHand(nn.Module):
    """A loop over a cell made of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.again, self.last = nn.Linear(1, 32), nn.Linear(32, 32), nn.Linear(32, 2)
        with torch.no_grad():
            self.again.weight.copy_(1.6 * torch.eye(32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Go through time, step by step."""
        state = x.new_zeros(len(x), 32)
        for moment in x.unbind(1):
            state = (self.into(moment) + self.again(state)).relu()
        return self.last(state)


@failing_example("exploding-gradients", where="0")
def weights_far_too_large() -> dict[str, Any]:
    """Ten layers from a standard normal."""
    return setup(deep(10, nn.ReLU, nn.init.normal_))  # fixed: return setup(deep(10, nn.ReLU, nn.init.kaiming_normal_))


@failing_example("exploding-gradients", where="rnn")
def recurrent_weight_too_large() -> dict[str, Any]:
    """A recurrent weight that multiplies by 1.5 in every step."""
    model = Recurrent(nn.RNN(1, 32, nonlinearity="relu", batch_first=True))
    with torch.no_grad():
        model.rnn.weight_hh_l0.copy_(1.5 * torch.eye(32))
    return {"model": model, "loader": waves(), "loss_fn": nn.CrossEntropyLoss()}


@failing_example("exploding-gradients", where="again")
def loop_by_hand() -> dict[str, Any]:
    """The same in a loop of one's own."""
    return {"model": ByHand(), "loader": waves(), "loss_fn": nn.CrossEntropyLoss()}


def test_usual_recurrent_layers_are_silent() -> None:
    """LSTM, GRU and a tanh layer from torch's own start."""
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        model = Recurrent(kind(1, 32, batch_first=True))
        checks = ["exploding-gradients"]
        report = nbdebug.diagnose(model, waves(), nn.CrossEntropyLoss(), checks=checks, progress=False)
        assert report.results[0].status == "clean", report.results[0]


def test_deep_plain_batchnorm_is_silent() -> None:
    """Batch normalization makes gradients grow a little in every layer, and trains."""
    parts: list[nn.Module] = []
    for _ in range(20):
        parts += [nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU()]
    model = nn.Sequential(*parts, nn.Linear(64, 10))
    report = nbdebug.diagnose(**setup(model), checks=["exploding-gradients"], progress=False)
    assert report.results[0].status == "clean", report.results[0]
