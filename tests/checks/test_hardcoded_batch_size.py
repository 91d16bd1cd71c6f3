"""Failing examples with a batch size written into the model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import digit_rows
from tests.zoo.tabular import digits


class FixedView(nn.Module):
    """A view with the loader's batch size."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(8, 16), nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Flatten for exactly 64 samples."""
        return self.head(self.body(x.view(-1, 8, 8)).relu().reshape(64, -1))
        # fixed: return self.head(self.body(x.view(-1, 8, 8)).relu().reshape(len(x), -1))


@failing_example("hardcoded-batch-size", where=("head", "model"))
def fixed_view() -> dict[str, Any]:
    """The last batch of the epoch has other than 64 samples."""
    return {"model": FixedView(), "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}


class FixedState(nn.Module):
    """A recurrent network whose first state is made for one batch size."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.recurrent, self.head = nn.GRU(8, 16, batch_first=True), nn.Linear(16, 10)
        self.register_buffer("start", torch.zeros(1, size, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Begin with zeros."""
        return self.head(self.recurrent(x.view(-1, 8, 8), self.start)[0][:, -1])


@failing_example("hardcoded-batch-size", where="recurrent")
def fixed_state() -> dict[str, Any]:
    """The state has 32 rows."""
    return {"model": FixedState(32), "loader": digits(32), "loss_fn": nn.CrossEntropyLoss()}


def result(**setup: Any) -> Any:
    """Run the check alone."""
    return nbdebug.diagnose(**setup, checks=["hardcoded-batch-size"], progress=False).result("hardcoded-batch-size")


def test_batch_normalization_may_refuse_one_sample() -> None:
    model = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))
    assert result(model=model, loader=digits(), loss_fn=nn.CrossEntropyLoss()).status == "clean"


def test_squeeze_that_bites_one_sample_is_no_alarm() -> None:
    class Squeezed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(64, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x).squeeze()

    rows, labels = digit_rows()
    loader = DataLoader(TensorDataset(rows, (labels > 4).float()), 64)
    found = result(model=Squeezed(), loader=loader, loss_fn=nn.BCEWithLogitsLoss())
    assert not [f for f in found.findings if f.is_alarm]


def test_fixed_size_that_never_varies_is_less() -> None:
    rows, labels = digit_rows()
    loader = DataLoader(TensorDataset(rows, labels), 32, drop_last=True)
    found = result(model=FixedState(32), loader=loader, loss_fn=nn.CrossEntropyLoss())
    assert [f.severity for f in found.findings] == ["suspect"]


def test_pairs_may_need_even_batches() -> None:
    class Pairs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(64, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            left, right = x.chunk(2)
            return torch.cat([self.layer(left + 0 * right), self.layer(right)])

    assert result(model=Pairs(), loader=digits(), loss_fn=nn.CrossEntropyLoss()).status == "clean"


class FixedBuffer(nn.Module):
    """A table that is added to the batch row by row."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(64, 16), nn.Linear(16, 10)
        self.register_buffer("shift", 0.01 * torch.randn(size, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shift each row by its own."""
        return self.head((self.body(x) + self.shift).relu())


@pytest.mark.parametrize("model", [FixedView(), FixedState(64), FixedBuffer(64)], ids=lambda m: type(m).__name__)
def test_experiments_on_a_part_of_the_batch_do_not_crash(model: nn.Module) -> None:
    """Every experiment that would take fewer samples takes the whole batch, or says why it cannot."""
    report = nbdebug.diagnose(model, digits(), nn.CrossEntropyLoss(), progress=False, sweep_samples=512)
    assert not [(result.check, result.reason) for result in report.results if result.status == "crashed"]
    assert report.result("hardcoded-batch-size").status == "found"


class Keeps(nn.Module):
    """Keeps the state of the batch before, in an attribute or in a buffer."""

    def __init__(self, buffer: bool = False) -> None:
        super().__init__()
        self.recurrent, self.head = nn.GRU(8, 16, batch_first=True), nn.Linear(16, 10)
        if buffer:
            self.register_buffer("hidden", None)
        else:
            self.hidden = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Go on from there."""
        states, hidden = self.recurrent(x.view(-1, 8, 8), self.hidden)
        self.hidden = hidden.detach()
        return self.head(states[:, -1])


class KeepsAndForgets(Keeps):
    """Has a method that a loop calls between two batches."""

    def reset_hidden(self) -> None:
        """Begin anew."""
        self.hidden = None


def kept(model: nn.Module, *, drop_last: bool) -> list[Any]:
    """Diagnose a model that keeps a state, with or without a smaller last batch."""
    loader = DataLoader(TensorDataset(*digit_rows()), 32, drop_last=drop_last)
    return list(result(model=model, loader=loader, loss_fn=nn.CrossEntropyLoss()).findings)


@pytest.mark.parametrize("buffer", [False, True], ids=["attribute", "buffer"])
@pytest.mark.parametrize("used", [False, True], ids=["new", "used"])
def test_a_state_that_is_kept_is_no_size_in_the_model(buffer: bool, used: bool) -> None:
    """It is named, and is an alarm only where a batch of another size comes."""
    model = Keeps(buffer)
    if used:
        model(torch.randn(32, 64))
    (calm,) = kept(model, drop_last=True)
    assert calm.severity == "note" and "keeps `hidden` between calls" in calm.says and calm.where == "model"
    (found,) = kept(model, drop_last=False)
    assert found.severity == "suspect" and found.evidence["kept between calls"] == ["hidden"]


def test_a_state_that_the_loop_may_reset_is_noted_only() -> None:
    (found,) = kept(KeepsAndForgets(), drop_last=False)
    assert found.severity == "note" and "`reset_hidden()` may reset it" in found.says


def test_a_size_in_a_model_with_state_is_still_found() -> None:
    class Both(Keeps):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.hidden is not None and self.hidden.shape[1] != len(x):
                self.hidden = None
            return super().forward(x).view(32, 10)

    (found,) = kept(Both(), drop_last=False)
    assert found.severity == "bug" and "runs with batch size 32 but not with" in found.says


class Remembering(nn.Module):
    """A model that is conditioned on its training samples, as an exact Gaussian process is."""

    def __init__(self, samples: torch.Tensor) -> None:
        super().__init__()
        self.samples, self.scale = samples, nn.Parameter(torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Refuse other samples in training mode."""
        if self.training and not torch.equal(x, self.samples):
            raise RuntimeError("you must train on the training samples")
        return torch.sin(self.scale * x)


def test_a_batch_that_is_the_whole_data_set_is_no_hardcoded_size() -> None:
    """No loader gives another batch, and no experiment may cut this one."""
    rows = torch.linspace(0, 3, 60)[:, None]
    model = Remembering(rows)
    loader = DataLoader(TensorDataset(rows, torch.sin(2 * rows)), 60)
    made: dict[str, Any] = {"model": model, "loader": loader, "loss_fn": nn.MSELoss()}
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    checks = ["hardcoded-batch-size", "cannot-overfit-batch", "unnormalized-inputs", "training-fails"]
    report = nbdebug.diagnose(**made, optimizer=optimizer, checks=checks, progress=False)
    assert not report.alarms and not [result.check for result in report.results if result.status == "crashed"]


def test_an_episode_of_one_size_is_part_of_the_task() -> None:
    """A dataset of few-shot episodes returns whole batches of four classes; no other number of them ever comes."""
    episodes = [(torch.randn(4, 3, 8), torch.randn(4, 5, 8)) for _ in range(6)]

    def prototypes(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        support, query = batch
        apart = torch.cdist(model(query).reshape(-1, 6), model(support).mean(1))
        return nn.functional.cross_entropy(-apart, torch.arange(4).repeat_interleave(5))

    loader = torch.utils.data.DataLoader(episodes, batch_size=None)  # type: ignore[arg-type]
    report = nbdebug.diagnose(
        nn.Linear(8, 6), loader, compute_loss=prototypes, progress=False, checks=["hardcoded-batch-size"]
    )
    assert report.result("hardcoded-batch-size").status == "skipped"
