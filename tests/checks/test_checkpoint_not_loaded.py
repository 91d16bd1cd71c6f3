"""Failing examples whose weights never came from the checkpoint."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits

CHECK = "checkpoint-not-loaded"


def network() -> nn.Sequential:
    """A network to load into."""
    return nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))


def setup(model: nn.Module, checkpoint: Any) -> dict[str, Any]:
    """Put a set-up together."""
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss(), "checkpoint": checkpoint}


@failing_example(CHECK, where="0.weight")
def never_loaded() -> dict[str, Any]:
    """The state dict was read and then forgotten."""
    return setup(network(), network().state_dict())
    # fixed: model = network()
    # fixed: return setup(model, model.state_dict())


@failing_example(CHECK, where="0.weight")
def saved_from_a_wrapper() -> dict[str, Any]:
    """Names begin with `module.`, and strict=False says nothing."""
    saved = {"epoch": 3, "state_dict": {f"module.{name}": t for name, t in network().state_dict().items()}}
    model = network()
    model.load_state_dict(saved["state_dict"], strict=False)  # type: ignore[arg-type]
    return setup(model, saved)


@failing_example(CHECK, where="3.weight")
def one_layer_left_out() -> dict[str, Any]:
    """One layer was not loaded."""
    saved, model = network().state_dict(), network()
    model.load_state_dict({name: t for name, t in saved.items() if not name.startswith("3.")}, strict=False)
    return setup(model, saved)


def report(made: dict[str, Any]) -> nbdebug.Report:
    """Run this check alone."""
    return nbdebug.diagnose(**made, checks=[CHECK], progress=False)


def test_a_loaded_model_is_clean(tmp_path: Path) -> None:
    model = network()
    torch.save({"model": model.state_dict(), "epoch": 1}, tmp_path / "model.pt")
    assert report(setup(model, tmp_path / "model.pt")).result(CHECK).status == "clean"


def test_a_prefix_that_was_stripped_is_clean() -> None:
    model = network()
    assert (
        report(setup(model, {f"module.{n}": t for n, t in model.state_dict().items()})).result(CHECK).status == "clean"
    )


def test_training_on_is_clean() -> None:
    model = network()
    saved = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for x, y in digits():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    assert report(setup(model, saved)).result(CHECK).status == "clean"


def test_a_new_head_is_a_note() -> None:
    model = network()
    body = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith("3.")}
    assert [f.severity for f in report(setup(model, body)).findings] == ["note"]


def test_no_checkpoint_is_skipped() -> None:
    assert report({"model": network(), "loader": digits()}).result(CHECK).status == "skipped"


def test_a_pickle_is_not_opened(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "sprung",)

    (tmp_path / "model.pt").write_bytes(pickle.dumps({"w": Trap()}))
    assert report(setup(network(), tmp_path / "model.pt")).result(CHECK).status == "skipped"
    assert not (tmp_path / "sprung").exists()


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(nbdebug.BadInput, match="no such file"):
        report(setup(network(), tmp_path / "nowhere.pt"))
