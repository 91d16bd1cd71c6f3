"""Mixed precision on the copy: the user's autocast blocks do in an experiment what they do in training."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from accelerate import Accelerator
from torch import nn

import nbdebug
from nbdebug.core.control import Control
from nbdebug.sandbox.guard import guarded
from tests.trust.fingerprint import difference, fingerprint

INPUTS = torch.randn(512, 20, generator=torch.Generator().manual_seed(0))
LABELS = (INPUTS @ torch.randn(20, 4, generator=torch.Generator().manual_seed(1))).argmax(1)


def mixed(**options: Any) -> torch.autocast:
    return torch.autocast("cpu", dtype=torch.bfloat16, **options)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(20, 64), nn.Linear(64, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(torch.relu(self.fc1(x)))


class Decorated(Net):
    @mixed()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).float()


class Inside(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with mixed():
            return super().forward(x)


class HoldsItsBlock(Net):
    def __init__(self) -> None:
        super().__init__()
        self.block = mixed()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with self.block:
            return super().forward(x)


class Nested(Net):
    @mixed()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", enabled=False):
            hidden = self.fc1(x)
        with mixed():
            return self.fc2(torch.relu(hidden))


class Probabilities(Net):
    @mixed()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).softmax(1)


def prepared(model: nn.Module) -> nn.Module:
    made: nn.Module = Accelerator(mixed_precision="bf16", cpu=True).prepare_model(model)
    return made


def step_under_autocast(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    optimizer.zero_grad()
    with mixed():
        loss: torch.Tensor = loss_fn(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss


SOUND = {
    "decorated": Decorated,
    "inside": Inside,
    "holds its block": HoldsItsBlock,
    "nested": Nested,
    "accelerate": lambda: prepared(Net()),
    "accelerate, decorated": lambda: prepared(Decorated()),
}


def examined(make: Any, **more: Any) -> tuple[nn.Module, nbdebug.Report]:
    torch.manual_seed(0)
    model = make()
    dataset = torch.utils.data.TensorDataset(INPUTS, LABELS)
    loader = torch.utils.data.DataLoader(dataset, 32, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    return model, nbdebug.diagnose(model, loader, nn.CrossEntropyLoss(), optimizer, progress=False, **more)


def checks_of(report: nbdebug.Report) -> list[str]:
    assert not [result for result in report.results if result.status == "crashed"]
    return [finding.check for finding in report.findings if finding.severity != "note"]


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_model_is_sound(name: str) -> None:
    assert checks_of(examined(SOUND[name])[1]) == []


def test_a_step_under_autocast_is_sound() -> None:
    assert checks_of(examined(Net, train_step=step_under_autocast)[1]) == []


@pytest.mark.parametrize("make", [Probabilities, lambda: prepared(nn.Sequential(Net(), nn.Softmax(1)))])
def test_a_bug_is_found_by_its_name(make: Any) -> None:
    """Probabilities that went through bfloat16 do not sum to 1 exactly."""
    assert checks_of(examined(make)[1])[0] == "softmax-before-cross-entropy"


@pytest.mark.parametrize("make", [Net, Decorated])
def test_called_inside_of_a_block_of_the_users(make: Any) -> None:
    with mixed():
        model, report = examined(make)
        first = model(INPUTS)
        torch.manual_seed(0)
        before = fingerprint()
        again = examined(lambda: model)[1]
        assert checks_of(report) == checks_of(again) == []
        assert torch.equal(model(INPUTS), first)
        with torch.no_grad():
            model.fc1.weight.mul_(2)
        examined(lambda: model)
        assert not difference(before, fingerprint()) and nesting() == 1
    assert nesting() == 0
    with mixed():
        fresh = model(INPUTS)
    assert not torch.equal(fresh, first)


def nesting() -> int:
    return int(torch.autocast_increment_nesting() and torch.autocast_decrement_nesting())


def weights_seen(block: torch.autocast) -> list[bool]:
    """Change a weight between passes within one experiment; say for each whether its pass saw the new weight."""
    layer, x = nn.Linear(4, 4, bias=False), torch.eye(4)

    def experiment() -> list[bool]:
        seen = []
        for scale in (1.0, 2.0, 4.0):
            with torch.no_grad():
                layer.weight.fill_(scale)
            with block:
                seen.append(bool((layer(x) == scale).all()))
        return seen

    return guarded(experiment, (), Control())


def test_each_pass_computes_with_the_weights_of_now() -> None:
    block = mixed()
    assert weights_seen(block) == [True] * 3
    with mixed():
        assert weights_seen(block) == [True] * 3
        with mixed(cache_enabled=False):
            assert weights_seen(mixed()) == [True] * 3
            assert weights_seen(block) == [True] * 3


@pytest.mark.parametrize("outer", [False, True])
def test_an_experiment_that_ends_within_its_block(outer: bool) -> None:
    """The block is closed, and what it has cast is dropped, or the weights of then would be used later."""
    layer, x = nn.Linear(4, 4, bias=False), torch.eye(4)

    def experiment() -> None:
        torch.autocast_increment_nesting()  # as after an interrupt in the exit of autocast
        torch.set_autocast_enabled("cpu", True)
        layer(x)

    def stale() -> bool:
        guarded(experiment, (), Control())
        with torch.no_grad():
            layer.weight.fill_(3.0)
        with mixed():
            return not bool((layer(x) == 3).all())

    if outer:
        with mixed():
            assert not stale() and nesting() == 1
    else:
        assert not stale()
    assert nesting() == 0


def test_what_blocks_made_in_an_experiment_are_like() -> None:
    """They keep what they cast, as in training: gradients of a weight used twice are then summed in bfloat16."""
    assert guarded(lambda: mixed()._cache_enabled, (), Control())
    with mixed():
        assert not guarded(lambda: torch.is_autocast_enabled("cpu"), (), Control())
