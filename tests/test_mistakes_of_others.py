"""Mistakes that were read in the code of other tools, each tried here, so that none of them is repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.zoo.samples import digit_images, digit_rows
from tests.zoo.tabular import digits


def run(model: nn.Module, loader: Any, *checks: str, loss_fn: Any = None, **more: Any) -> nbdebug.Report:
    """Diagnose quietly, with some checks only."""
    return nbdebug.diagnose(model, loader, loss_fn or nn.CrossEntropyLoss(), checks=checks, progress=False, **more)


def mlp() -> nn.Sequential:
    """A plain network for digits."""
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


class Cancelling(nn.Module):
    """A neighbor is added in even columns and subtracted in odd ones: the sum over the columns shows nothing."""

    def __init__(self, norm: bool) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 32), nn.Linear(32, 10)
        self.norm = nn.BatchNorm1d(32) if norm else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Mix with signs that cancel."""
        said = self.last(self.norm(self.first(x)).relu())
        leak = said.mean(1, keepdim=True).roll(1, 0)
        return said + leak * torch.tensor([1.0, -1.0] * 5)


@pytest.mark.parametrize("norm", [False, True])
def test_mixing_is_seen_where_signed_gradients_cancel(norm: bool) -> None:
    """TheDeepChecker sums signed gradients; lightning-bolts' test is useless with batch normalization."""
    assert run(Cancelling(norm), digits(), "batch-mixing").alarms


class AlreadyKnows(nn.Module):
    """Reads the answer from the last column."""

    def __init__(self) -> None:
        super().__init__()
        self.body = mlp()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shout what stands there."""
        return self.body(x) + 20 * nn.functional.one_hot((16 * x[:, 39]).round().long().clamp(0, 9), 10)


def test_first_loss_may_be_too_low() -> None:
    """neural-net-checklist looks at one side only; a first loss far below chance is the sign of a leak."""
    rows, labels = digit_rows()
    rows = rows.clone()
    rows[:, 39] = labels / 16
    loader = DataLoader(TensorDataset(rows, labels), 64, shuffle=True)
    report = run(AlreadyKnows(), loader, "initial-loss-off", "target-leaks-into-inputs")
    assert report.alarms


def test_mean_of_exactly_zero_is_no_error() -> None:
    """DeepDiagnosis calls a mean of exactly 0 a numerical error."""
    rows, labels = digit_rows()
    both = torch.cat([rows, -rows])
    assert float(both.mean()) == 0
    loader = DataLoader(TensorDataset(both, labels.repeat(2)), 64, shuffle=True)
    report = run(mlp(), loader, "non-finite-inputs", "constant-inputs", "unnormalized-inputs", "activations-off-scale")
    assert not report.alarms


class Below(nn.Module):
    """Gives negative numbers only."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Turn a softplus round."""
        return -nn.functional.softplus(x)


def test_negative_activations_are_not_dead() -> None:
    """fastai counts what is below a small number as near zero, without taking the absolute value."""
    model = nn.Sequential(nn.Linear(64, 32), Below(), nn.Linear(32, 10))
    assert not run(model, digits(), "dead-units", "outputs-identical").alarms


class OnlyNan(nn.Module):
    """Gives nothing but NaN."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Take the logarithm of what is below zero."""
        return torch.log(-1 - x.abs())


def test_layer_of_nothing_but_nan_is_shown() -> None:
    """wandb and TensorBoard drop NaN before the histogram, so that a layer of NaN shows nothing at all."""
    model = nn.Sequential(nn.Linear(64, 32), OnlyNan(), nn.Linear(32, 10))
    finding = run(model, digits(), "non-finite-forward").findings[0]
    assert finding.where == "1" and "nan" in finding.says.lower()


def test_birthplace_of_nan_is_named() -> None:
    """Anomaly mode names the operation that passes a NaN on (pytorch #182156); the one that makes it is asked for."""
    model = nn.Sequential(nn.Linear(64, 32), OnlyNan(), nn.Linear(32, 32), nn.Softmax(1), nn.Linear(32, 10))
    assert run(model, digits(), "non-finite-forward").findings[0].where == "1"


def test_skipped_is_not_passed() -> None:
    """preflight-ml reports a check that it skipped as PASS."""
    report = run(mlp(), digits(), "split-leakage", "causal-leak")
    for result in report.results:
        assert result.status == "skipped" and result.reason
    assert set(report.to_frame()["status"]) == {"skipped"}


def test_right_loss_is_not_complained_about() -> None:
    """UMLAUT prints "missing softmax" for every model."""
    checks = ("softmax-before-cross-entropy", "wrong-loss-for-task", "probabilities-into-nll", "clamped-output")
    assert not run(mlp(), digits(), *checks).findings


def test_digits_are_not_duplicates() -> None:
    """A fixed radius of a perceptual hash calls half of MNIST duplicates (deepchecks #1243)."""
    images, labels = digit_images()
    loader = DataLoader(TensorDataset(images, labels), 64, shuffle=True)
    halves = [
        DataLoader(TensorDataset(images[part], labels[part]), 64, shuffle=True)
        for part in (slice(0, 900), slice(900, None))
    ]
    model = nn.Sequential(nn.Flatten(), mlp())
    assert not run(model, loader, "duplicate-samples").alarms
    assert not run(model, halves[0], "split-leakage", val_loader=halves[1]).alarms


class Remembers(nn.Module):
    """Writes down which inputs it was trained on; into a file, because nothing else would outlive the copy."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.body, self.path = mlp(), path

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Note, and answer."""
        if self.training and torch.is_grad_enabled():
            with self.path.open("a") as file:
                file.write(f"{hash(x.numpy().tobytes())}\n")
        return self.body(x)


def test_one_batch_means_one_batch(tmp_path: Path) -> None:
    """Lightning's overfit runs drew other batches all the same (#2311, #9850)."""
    run(Remembers(tmp_path / "seen"), digits(), "cannot-overfit-batch")
    seen = (tmp_path / "seen").read_text().split()
    commonest = max(seen.count(value) for value in set(seen))
    assert commonest > 20 and commonest > 0.8 * len(seen)


def test_learning_rate_trials_leave_the_state_alone() -> None:
    """Range tests of Lightning (#6675), torch-lr-finder (#11) and fastai (#3013) did not put the state back."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    run(model, digits(), "learning-rate-too-high", "learning-rate-too-low", "cannot-overfit-batch", optimizer=optimizer)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not optimizer.state and optimizer.param_groups[0]["lr"] == 0.1


def test_scaled_gradients_do_not_explode() -> None:
    """Under a gradient scaler wandb shows gradients that are still scaled (#2268)."""
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    model = mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    checks = ("exploding-gradients", "clipping-too-tight", "step-never-taken", "accumulated-gradients")
    assert not run(model, digits(), *checks, optimizer=optimizer, train_step=step).alarms


class CenteredOverBatch(nn.Module):
    """Subtracts the mean over the samples before its last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 32), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Mix."""
        hidden = self.first(x).relu()
        return self.last(hidden - hidden.mean(0))


def test_compiled_modules_are_not_blind_spots() -> None:
    """Hooks of a compiled model may silently not fire (pytorch #117758)."""
    model = torch.compile(CenteredOverBatch(), backend="eager")
    with torch.no_grad():
        model(torch.zeros(4, 64))
    assert run(model, digits(), "batch-mixing").findings[0].where == "last"
