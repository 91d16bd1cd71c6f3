"""What cannot be used is refused: what was seen, where, what was expected, what to do, and that nothing was changed."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import nbdebug
from nbdebug.errors import UNCHANGED, BadInput, SandboxRefused
from tests.trust.fingerprint import difference, fingerprint
from tests.trust.setups import adam, loader, mlp, rows

PACKAGE = Path(nbdebug.__file__).resolve().parent
MODEL, LOADER = mlp(), loader()
OPTIMIZER = adam(MODEL)
SCHEDULER = torch.optim.lr_scheduler.StepLR(OPTIMIZER, 1)
GOOD: dict[str, Any] = {"model": MODEL, "loader": LOADER}


class OneShot(IterableDataset):
    """A stream that holds a generator, so that it can be neither rewound nor copied."""

    def __init__(self) -> None:
        self.source = (row for row in rows())

    def __iter__(self) -> Any:
        return self.source


def on_meta() -> nn.Module:
    with torch.device("meta"):
        return mlp()


def meta_buffer() -> nn.Module:
    model = mlp(nn.BatchNorm1d(8))
    model[1].running_mean = model[1].running_mean.to("meta")
    return model


class FullyShardedDataParallel(nn.Module):
    """Stands for torch's class of this name, which needs a process group."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def wrong_step(model: Any, batch: Any) -> None:
    """A training step with too few parameters."""


# name -> (where the message points, a word of what it saw, the arguments)
BAD: dict[str, tuple[str, str, dict[str, Any]]] = {
    # the model
    "swapped model and loader": ("model", "DataLoader", {"model": LOADER, "loader": MODEL}),
    "no model": ("model", "NoneType", {"model": None}),
    "class of a model": ("model", "class Linear", {"model": nn.Linear}),
    "state dict": ("model", "state dict", {"model": MODEL.state_dict()}),
    "path of a model": ("model", "str", {"model": "model.pt"}),
    "function as model": ("model", "function", {"model": lambda x: x}),
    "tensor as model": ("model", "Tensor", {"model": torch.zeros(3)}),
    "pair of models": ("model", "tuple", {"model": (MODEL, MODEL)}),
    "optimizer as model": ("model", "AdamW", {"model": OPTIMIZER}),
    "list of modules": ("model", "without a forward", {"model": nn.ModuleList([MODEL])}),
    "dict of modules": ("model", "without a forward", {"model": nn.ModuleDict({"a": MODEL})}),
    "bare module": ("model", "without a forward", {"model": nn.Module()}),
    "parameters on meta": ("model", "meta device", {"model": on_meta()}),
    "buffer on meta": ("model", "running_mean", {"model": meta_buffer()}),
    "sharded model": ("model", "FullySharded", {"model": nn.Sequential(FullyShardedDataParallel())}),
    # the loader
    "no loader": ("loader", "None", {"loader": None}),
    "model as loader": ("loader", "model Sequential", {"loader": MODEL}),
    "optimizer as loader": ("loader", "optimizer AdamW", {"loader": OPTIMIZER}),
    "class of a loader": ("loader", "class DataLoader", {"loader": DataLoader}),
    "data set as loader": ("loader", "dataset", {"loader": rows()}),
    "tensor as loader": ("loader", "(24, 6)", {"loader": rows().tensors[0]}),
    "array as loader": ("loader", "(4, 6)", {"loader": np.zeros((4, 6))}),
    "frame as loader": ("loader", "pandas", {"loader": pd.DataFrame({"a": [1, 2]})}),
    "series as loader": ("loader", "pandas", {"loader": pd.Series([1, 2])}),
    "name of a loader": ("loader", "train_loader", {"loader": "train_loader"}),
    "path as loader": ("loader", "data.csv", {"loader": Path("data.csv")}),
    "bytes as loader": ("loader", "text", {"loader": b"123"}),
    "number as loader": ("loader", "int", {"loader": 32}),
    "dict of loaders": ("loader", "dict", {"loader": {"train": LOADER}}),
    "set as loader": ("loader", "set", {"loader": {1, 2}}),
    "one-shot generator": ("loader", "only once", {"loader": (batch for batch in LOADER)}),
    "iterator of a loader": ("loader", "only once", {"loader": iter(list(LOADER))}),
    "one-shot data set": ("loader", "only once", {"loader": DataLoader(OneShot(), 8)}),
    "list of numbers": ("loader", "int", {"loader": [1, 2, 3]}),
    "range as loader": ("loader", "int", {"loader": range(10)}),
    "list of texts": ("loader", "str", {"loader": ["a", "b"]}),
    "batches of arrays": ("loader", "ndarray", {"loader": [(np.zeros((4, 6)), np.zeros(4))]}),
    "batches of None": ("loader", "NoneType", {"loader": [None, None]}),
    "empty batches": ("loader", "nothing", {"loader": [(), ()]}),
    "factory of nothing": ("loader", "NoneType", {"loader": lambda: None}),
    "factory of a number": ("loader", "int", {"loader": lambda: 3}),
    "bad validation loader": ("val_loader", "dataset", {"val_loader": rows()}),
    "bad test loader": ("test_loader", "only once", {"test_loader": iter([1])}),
    # the loss
    "class of a loss": ("loss_fn", "class CrossEntropyLoss", {"loss_fn": nn.CrossEntropyLoss}),
    "name of a loss": ("loss_fn", "mse", {"loss_fn": "mse"}),
    "value of a loss": ("loss_fn", "tensor", {"loss_fn": torch.tensor(0.3)}),
    "number as loss": ("loss_fn", "float", {"loss_fn": 0.3}),
    "model as loss": ("loss_fn", "model itself", {"loss_fn": MODEL}),
    "optimizer as loss": ("loss_fn", "optimizer AdamW", {"loss_fn": OPTIMIZER}),
    "loss of three": ("loss_fn", "cannot be called with", {"loss_fn": nn.TripletMarginLoss()}),
    "loss of four": ("loss_fn", "cannot be called with", {"loss_fn": nn.CTCLoss()}),
    "loss of one": ("loss_fn", "cannot be called with", {"loss_fn": lambda output: output.sum()}),
    "no loss can be inferred": ("loss_fn", "no standard loss", {"loader": [(torch.randn(8, 6), torch.randn(8, 2))]}),
    # the optimizer and the scheduler
    "class of an optimizer": ("optimizer", "class Adam", {"optimizer": torch.optim.Adam}),
    "name of an optimizer": ("optimizer", "str", {"optimizer": "adam"}),
    "scheduler as optimizer": ("optimizer", "scheduler StepLR", {"optimizer": SCHEDULER}),
    "state of an optimizer": ("optimizer", "dict", {"optimizer": OPTIMIZER.state_dict()}),
    "parameters as optimizer": ("optimizer", "list", {"optimizer": list(MODEL.parameters())}),
    "optimizer as scheduler": ("scheduler", "optimizer AdamW", {"scheduler": OPTIMIZER}),
    "class of a scheduler": ("scheduler", "class StepLR", {"scheduler": torch.optim.lr_scheduler.StepLR}),
    "name of a scheduler": ("scheduler", "str", {"scheduler": "cosine"}),
    # functions and names
    "step with two parameters": ("train_step", "cannot be called with", {"train_step": wrong_step}),
    "step that is no function": ("train_step", "int", {"train_step": 3}),
    "class as step": ("train_step", "class dict", {"train_step": dict}),
    "compute_loss with one parameter": ("compute_loss", "cannot be called with", {"compute_loss": lambda model: 0}),
    "compute_loss without return": ("compute_loss", "NoneType", {"compute_loss": lambda model, batch, loss_fn: None}),
    "loss_parts that is a dict": ("loss_parts", "dict", {"loss_parts": {}}),
    "one text for the class names": ("class_names", "cat", {"class_names": "cat"}),
    "a number of classes": ("class_names", "int", {"class_names": 3}),
    "checkpoint that is not there": ("checkpoint", "no such file", {"checkpoint": "missing.pt"}),
    "model as checkpoint": ("checkpoint", "Sequential", {"checkpoint": MODEL}),
    # options
    "unknown check": ("check id", "batch-mixin", {"checks": ["batch-mixin"]}),
    "unknown check to skip": ("check id", "nonsense", {"skip": ["nonsense"]}),
    "one text for the checks": ("checks", "batch-mixing", {"checks": "batch-mixing"}),
    "a number for the checks": ("checks", "3", {"checks": 3}),
    "numbers for the checks": ("checks", "[1, 2]", {"checks": [1, 2]}),
    "unknown threshold": ("thresholds", "tolerence", {"thresholds": {"initial-loss-off": {"tolerence": 1}}}),
    "threshold of an unknown check": ("check id", "loss-of", {"thresholds": {"loss-of": {"a": 1}}}),
    "flat thresholds": ("thresholds", "tolerance", {"thresholds": {"tolerance": 1.0}}),
    "negative time limit": ("time_limit", "-1", {"time_limit": -1}),
    "time limit as text": ("time_limit", "10s", {"time_limit": "10s"}),
    "yes for progress": ("progress", "yes", {"progress": "yes"}),
    "seed as text": ("seed", "a", {"seed": "a"}),
    "negative seed": ("seed", "-3", {"seed": -3}),
    "no samples": ("sweep_samples", "0", {"sweep_samples": 0}),
    "no seconds": ("sweep_seconds", "None", {"sweep_seconds": None}),
}


def refusal(call: Callable[[], Any]) -> nbdebug.NbdebugError:
    """Call, and give the error that it has to raise, after a look at its form."""
    with pytest.raises((BadInput, SandboxRefused)) as caught:
        call()
    error = caught.value
    said = str(error)
    for part in ("Expected: ", "What to do: ", UNCHANGED):
        assert part in said
    assert error.__cause__ is None and error.__suppress_context__
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame.name for frame in frames if Path(frame.filename).resolve().is_relative_to(PACKAGE)]
    assert inside == ["said_plainly"], inside
    assert error._render_traceback_() == [f"{type(error).__name__}: {said}"]
    return error


@pytest.mark.parametrize("name", BAD)
def test_is_refused(name: str) -> None:
    where, seen, arguments = BAD[name]
    arguments = {**GOOD, "progress": False, **arguments}
    before = fingerprint(MODEL, LOADER, OPTIMIZER, SCHEDULER)
    error = refusal(lambda: nbdebug.diagnose(**arguments))
    assert not difference(before, fingerprint(MODEL, LOADER, OPTIMIZER, SCHEDULER))
    first = str(error).splitlines()[0]
    assert first.startswith(f"{where}: "), first
    assert seen in first, first


def test_enough_bad_inputs() -> None:
    assert len(BAD) >= 60


def test_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that does not fit twice is judged by what needs no copy, and the report says why with numbers."""
    memory = psutil.virtual_memory()._replace(available=500)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    monkeypatch.setattr("nbdebug.sandbox.copying.TRIFLE", 0)
    before = fingerprint(MODEL, LOADER)
    report = nbdebug.diagnose(MODEL, LOADER, progress=False)
    assert any(note.startswith("model: it holds ") and "500 bytes is free" in note for note in report.notes)
    assert sum(result.left_out == "memory" for result in report.results) > 10
    assert not difference(before, fingerprint(MODEL, LOADER))


def test_nan_is_no_bad_input() -> None:
    """Sick data is what the tool is for: it gives a report."""
    data = TensorDataset(torch.full((16, 6), float("nan")), torch.zeros(16, dtype=torch.long))
    report = nbdebug.diagnose(MODEL, DataLoader(data, 8), progress=False, checks=["non-finite-inputs"])
    assert report.result("non-finite-inputs").status == "found"


EMPTY = {"list": [], "loader": DataLoader(TensorDataset(torch.zeros(0, 6)), 8), "factory": lambda: []}


@pytest.mark.parametrize("empty", EMPTY.values(), ids=EMPTY)
def test_a_loader_over_nothing_is_a_finding(empty: Any) -> None:
    report = nbdebug.diagnose(MODEL, empty, progress=False, checks=["empty-loader", "batch-mixing"])
    assert report.result("empty-loader").status == "found"
    assert report.result("batch-mixing").status == "skipped"


def test_a_step_without_return_is_said() -> None:
    """The checks of the loop are skipped with the reason, and nothing crashes."""

    def train_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> None:
        optimizer.zero_grad()
        loss_fn(model(batch[0]), batch[1]).backward()
        optimizer.step()

    report = nbdebug.diagnose(MODEL, LOADER, nn.CrossEntropyLoss(), OPTIMIZER, train_step=train_step, progress=False)
    assert not [result for result in report.results if result.status == "crashed"]
