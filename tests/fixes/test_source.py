"""Fixes as diffs of the user's own code: what they change, that they run, and where there is none."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug.core.finding import Finding
from nbdebug.core.remedy import Patch, Remedy
from nbdebug.engine.source_changes import recompiled, with_source
from nbdebug.errors import NotApplicable
from nbdebug.fixes.source import change_for, with_diffs
from nbdebug.fixes.source.text import source_of
from nbdebug.setup import Setup

X = torch.randn(128, 6, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()
SCALE = [2.0]


class Squashed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head, self.act = nn.Linear(6, 16), nn.Linear(16, 2), nn.Softmax(dim=1)
        self.spare = [nn.Linear(2, 2)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.body(x))
        x = self.act(self.head(x))
        return x


class Sideways(Squashed):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(torch.softmax(self.head(self.body(x)), dim=0))


class Cut(Squashed):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).detach())


def late(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """Step in a wrong order."""
    x, y = batch
    model.eval()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    return loss.detach()


def uncleared(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """Never clear the gradients, and clip them hard."""
    loss = loss_fn(model(batch[0]), batch[1])
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm=1e-6)
    optimizer.step()
    return loss.detach()


def gained(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Return a loss with the wrong sign, summed over the batch."""
    out, y = model(batch[0]), batch[1]
    return -nn.functional.cross_entropy(out, y, reduction="sum")


def changed_lines(model: nn.Module, patch: Patch, where: str = "", **parts: Any) -> list[str]:
    """Return the lines that the diff of this patch takes away and adds."""
    loader = DataLoader(TensorDataset(X, Y), batch_size=16)
    setup = Setup(model, loader, nn.CrossEntropyLoss(), **parts)
    finding = Finding("", where=where, remedies=(Remedy("", "", patch),))
    lines = with_diffs(setup, finding).remedies[0].diff.splitlines()
    return [re.sub(r"\s+", " ", line[0] + " " + line[1:].strip()) for line in lines[2:] if line[0] in "+-"]


@pytest.mark.parametrize(
    ("step", "patch", "lines"),
    [
        (late, Patch("plain-loop"), ["+ optimizer.zero_grad()", "- optimizer.zero_grad()"]),
        (uncleared, Patch("plain-loop"), ["+ optimizer.zero_grad()"]),
        (uncleared, Patch("clear-gradients"), ["+ optimizer.zero_grad()"]),
        (late, Patch("switch-to-training"), ["- model.eval()", "+ model.train()"]),
        (uncleared, Patch("switch-to-training"), ["+ model.train()"]),
        (
            uncleared,
            Patch("plain-loop", {"clip": 2.5}),
            [
                "- nn.utils.clip_grad_norm_(model.parameters(), max_norm=1e-6)",
                "+ nn.utils.clip_grad_norm_(model.parameters(), max_norm=2.5)",
            ],
        ),
    ],
)
def test_the_training_step(step: Any, patch: Patch, lines: list[str]) -> None:
    assert changed_lines(Squashed(), patch, train_step=step) == lines


@pytest.mark.parametrize(
    ("patch", "lines"),
    [
        (
            Patch("negate-loss"),
            [
                '- return -nn.functional.cross_entropy(out, y, reduction="sum")',
                '+ return nn.functional.cross_entropy(out, y, reduction="sum")',
            ],
        ),
        (
            Patch("average-loss"),
            [
                '- return -nn.functional.cross_entropy(out, y, reduction="sum")',
                '+ return -nn.functional.cross_entropy(out, y, reduction="mean")',
            ],
        ),
    ],
)
def test_the_loss(patch: Patch, lines: list[str]) -> None:
    assert changed_lines(Squashed(), patch, compute_loss=gained) == lines


@pytest.mark.parametrize(
    ("kind", "patch", "line"),
    [
        (Squashed, Patch("drop-last-activation"), "+ x = self.head(x)"),
        (Squashed, Patch("drop-last-activation", {"instead": "sigmoid"}), "+ x = torch.sigmoid(self.head(x))"),
        (
            Sideways,
            Patch("softmax-dimension", {"wrong": 0, "right": 1}),
            "+ return torch.log(torch.softmax(self.head(self.body(x)), dim=1))",
        ),
        (
            Sideways,
            Patch("guard-operation", {"operation": "log"}),
            "+ return torch.log(torch.softmax(self.head(self.body(x)), dim=0).clamp(min=1e-08))",
        ),
        (Cut, Patch("keep-graph"), "+ return self.head(self.body(x))"),
    ],
)
def test_the_forward(kind: type[nn.Module], patch: Patch, line: str) -> None:
    assert changed_lines(kind(), patch)[-1] == line


def test_the_constructor() -> None:
    lines = changed_lines(Squashed(), Patch("register-hidden"), where="spare[0].weight")
    assert lines == ["- self.spare = [nn.Linear(2, 2)]", "+ self.spare = nn.ModuleList([nn.Linear(2, 2)])"]


@pytest.mark.parametrize(
    "patch",
    [
        Patch("softmax-dimension", {"wrong": 5, "right": 1}),
        Patch("guard-operation", {"operation": "sqrt"}),
        Patch("keep-graph"),
        Patch("negate-loss"),
        Patch("standardize-inputs"),
    ],
)
def test_no_diff_where_no_line_can_be_meant(patch: Patch) -> None:
    assert changed_lines(Squashed(), patch) == []


def test_changed_source_runs_with_the_variables_of_the_function() -> None:
    shift = torch.tensor(3.0)

    def loss(model: nn.Module, batch: Any, loss_fn: Any, *, weight: float = 2.0) -> torch.Tensor:
        return -(model(batch[0]).sum() + shift * weight * SCALE[0])

    source = source_of(loss)
    assert source is not None
    new = recompiled(source, source.text.replace("return -(", "return +("))
    model = Squashed()
    assert torch.equal(new(model, (X, Y), None), -loss(model, (X, Y), None))


def test_a_method_that_reaches_for_a_state_is_not_run() -> None:
    class Reaching(Squashed):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            SCALE.append(1.0)
            return torch.softmax(self.head(self.body(x)), dim=1)

    setup = Setup(Reaching(), DataLoader(TensorDataset(X, Y), batch_size=16), nn.CrossEntropyLoss())
    change = change_for(setup, "", Remedy("", "", Patch("drop-last-activation")))
    assert change is not None
    with pytest.raises(NotApplicable, match="refers to SCALE"):
        with_source(setup, *change)


def test_a_report_carries_the_diff_and_says_that_it_ran() -> None:
    torch.manual_seed(0)
    model = Squashed()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    loader = DataLoader(TensorDataset(X, Y), batch_size=16, shuffle=True)
    report = nbdebug.diagnose(
        model, loader, nn.CrossEntropyLoss(), optimizer, train_step=late, checks=["step-never-taken"], progress=False
    )
    remedy = report.findings[0].remedies[0]
    assert remedy.diff_ran, remedy
    assert "+    optimizer.zero_grad()" in remedy.diff
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    again = nbdebug.Report.from_dict(report.to_dict()).findings[0].remedies[0]
    assert (again.diff, again.diff_ran) == (remedy.diff, True)
    assert "run on a copy: the finding is gone" in str(report)


def test_the_line_that_creates_an_optimizer_or_a_loader() -> None:
    model = Squashed()
    optimizer = torch.optim.SGD(model.parameters(), lr=100.0)
    loader = DataLoader(TensorDataset(X, Y), batch_size=16)
    setup = Setup(model, loader, nn.CrossEntropyLoss(), optimizer)
    slower = Remedy("", "", Patch("multiply-learning-rate", {"factor": 0.001}))
    shuffled = Remedy("", "", Patch("shuffle"))
    first, second = with_diffs(setup, Finding("", remedies=(slower, shuffled))).remedies
    assert "+    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)" in first.diff
    assert "+    loader = DataLoader(TensorDataset(X, Y), batch_size=16, shuffle=True)" in second.diff
