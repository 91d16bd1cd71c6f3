"""Failing examples whose gradient does not reach every layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits


class Cut(nn.Module):
    """Two layers with something between them."""

    def __init__(self, between: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(64, 32), nn.Linear(32, 32), nn.Linear(32, 10)
        self.between = between

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Break the graph behind the second layer."""
        hidden = self.second(self.first(x).relu()).relu()
        return self.last(self.between(hidden))


class WithoutGrad(nn.Module):
    """A block that runs under no_grad."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.last = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Forget the graph of the body."""
        with torch.no_grad():
            hidden = self.body(x)
        return self.last(hidden)


class Forgotten(nn.Module):
    """A layer that forward never calls."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(64, 32), nn.Linear(32, 32), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Leave the middle out."""
        return self.last(self.first(x).relu())  # fixed: return self.last(self.middle(self.first(x).relu()).relu())


def setup(model: nn.Module, **more: Any) -> dict[str, Any]:
    """Train on digits with Adam."""
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **more}


def detached(x: torch.Tensor) -> torch.Tensor:
    return x.detach()


def through_numpy(x: torch.Tensor) -> torch.Tensor:
    return torch.tensor(x.detach().numpy())


def by_data(x: torch.Tensor) -> torch.Tensor:
    return x.data * 1.0


def by_items(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([torch.tensor([v.item() for v in row]) for row in x])


def rounded(x: torch.Tensor) -> torch.Tensor:
    return (8 * x).round() / 8


@failing_example("untrained-parameters", where="second")
def cut_by_detach() -> dict[str, Any]:
    """detach() between two layers."""
    return setup(Cut(detached))


@failing_example("untrained-parameters", where="second")
def cut_by_numpy() -> dict[str, Any]:
    """A round trip through NumPy."""
    return setup(Cut(through_numpy))


@failing_example("untrained-parameters", where="second")
def cut_by_rounding() -> dict[str, Any]:
    """A rounding, whose gradient is exactly zero."""
    return setup(Cut(rounded))


@failing_example("untrained-parameters", where=("body.0", "body"))
def cut_by_no_grad() -> dict[str, Any]:
    """A part of forward that runs under no_grad."""
    return setup(WithoutGrad())


@failing_example("untrained-parameters", where="middle")
def layer_never_called() -> dict[str, Any]:
    """A layer that is defined and forgotten."""
    return setup(Forgotten())


def result(model: nn.Module, **more: Any) -> nbdebug.Result:
    """Run the check alone."""
    return nbdebug.diagnose(**setup(model, **more), checks=["untrained-parameters"], progress=False).results[0]


@pytest.mark.parametrize("between", [by_data, by_items])
def test_other_cuts_are_placed(between: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """`.data` and `.item()` cut as detach does."""
    (finding,) = result(Cut(between)).findings
    assert finding.where == "second" and finding.severity == "bug"
    assert "before `last`" in finding.says


def test_zero_start_is_no_cut() -> None:
    """A head that starts at zero gives no gradient at the first step and does at the second."""
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    nn.init.zeros_(model[2].weight)
    assert result(model).status == "clean"


class Gated(nn.Module):
    """Four experts, of which each batch wakes one."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(64, 10) for _ in range(12))
        self.gate = nn.Linear(64, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Send the whole batch to the experts that the gate likes."""
        weight = self.gate(x).softmax(1)
        chosen = [*weight.mean(0).topk(1).indices.tolist(), int(1000 * x.mean()) % 12]
        return torch.stack([weight[:, i, None] * self.experts[i](x) for i in chosen]).sum(0)


def test_resting_experts_raise_no_alarm() -> None:
    """Experts that come and go with the batch are a note at the most."""
    assert not [f for f in result(Gated()).findings if f.is_alarm]


class Target(nn.Module):
    """A student that follows a slowly moving copy of itself."""

    def __init__(self) -> None:
        super().__init__()
        self.student, self.teacher = nn.Linear(64, 10), nn.Linear(64, 10)
        self.teacher.load_state_dict(self.student.state_dict())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Mix both, without a gradient for the copy."""
        with torch.no_grad():
            soft = self.teacher(x)
        return self.student(x) + 0.1 * soft


def test_target_network_raises_no_alarm() -> None:
    """A momentum copy runs without gradients on purpose."""
    assert not [f for f in result(Target()).findings if f.is_alarm]


def test_scripted_models_keep_their_gradients() -> None:
    """A scripted model is copied in C++; nothing of a backward pass on the copy may reach the original."""
    model = torch.jit.script(nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)))
    assert result(model).status == "clean"
    assert all(parameter.grad is None for parameter in model.parameters())


def two_networks(between: Any, **options: Any) -> dict[str, Any]:
    """Return a bare step with an encoder and a decoder, and what is done to the code between them."""
    encoder, decoder = (
        nn.Sequential(nn.Linear(8, 6), nn.Tanh()),
        nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8)),
    )
    both = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 1e-3)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        both.zero_grad()
        loss = nn.functional.mse_loss(decoder(between(encoder, batch[0])), batch[0])
        loss.backward()
        both.step()
        return loss

    return {"model": decoder, "loader": rows(), "train_step": step, **options}


def hard_code(encoder: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Choose one entry of the code."""
    return nn.functional.one_hot(encoder(x).argmax(1), 6).float()


def rounded_code(encoder: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Round."""
    return (3 * encoder(x)).round() / 3


def straight_through(encoder: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Round, and let the gradient pass."""
    code = encoder(x)
    return code + ((3 * code).round() / 3 - code).detach()


@failing_example("untrained-parameters", where="encoder")
def code_by_argmax() -> dict[str, Any]:
    """An encoder beside the model, cut off by argmax."""
    return two_networks(hard_code)


@failing_example("untrained-parameters", where="encoder")
def code_through_numpy() -> dict[str, Any]:
    """An encoder beside the model, cut off by NumPy."""
    return two_networks(lambda encoder, x: torch.from_numpy(encoder(x).detach().numpy()))


@failing_example("untrained-parameters", where="encoder")
def code_is_rounded() -> dict[str, Any]:
    """An encoder beside the model, whose gradient is zero."""
    return two_networks(rounded_code)


def rows() -> Any:
    """Return batches of rows of eight numbers."""
    values = torch.randn(64, 3, generator=torch.Generator().manual_seed(2)) @ torch.randn(3, 8)
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(values), 16)


def test_names_the_operation_between_two_networks() -> None:
    """The op is named; without a gradient on purpose, nothing is said."""
    for between, op in ((hard_code, "argmax"), (rounded_code, "round"), (straight_through, "")):
        report = nbdebug.diagnose(**two_networks(between), checks=["untrained-parameters"], progress=False)
        assert [f"`{op}`" in finding.says for finding in report.alarms] == ([True] if op else []), report.findings
