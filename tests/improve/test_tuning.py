"""The search finds a learning rate that works, goes on where it stopped, and verifies its winner."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.improve.space import Range, checked_space, narrowed
from tests.improve.digits import loader_of, network, pixels

pytest.importorskip("optuna")


def make_setup(params: dict[str, Any]) -> dict[str, Any]:
    x, y = pixels()
    model = network(int(params.get("width", 32)))
    return {
        "model": model,
        "loader": loader_of(x[:400], y[:400], 32),
        "val_loader": loader_of(x[600:800], y[600:800], 200),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), params["learning_rate"]),
    }


SPACE = {"learning_rate": (1e-6, 1.0, "log")}


@pytest.mark.parametrize("method", ["random", "coarse-to-fine", "bayesian"])
def test_finds_a_rate_that_works(method: str) -> None:
    result = nbdebug.tune(make_setup, SPACE, trials=8, steps=40, method=method, progress=False)
    assert result.best["learning_rate"] > 1e-4 and result.error < 0.5 and result.measure == "error rate"
    assert len(result.verified) == 2 and max(result.verified) < 0.6
    assert result.trials == 8 and "with other seeds" in str(result)


def test_goes_on_where_it_stopped(tmp_path: Path) -> None:
    first = nbdebug.tune(make_setup, SPACE, trials=3, steps=20, storage=tmp_path / "t.db", verify=0, progress=False)
    second = nbdebug.tune(make_setup, SPACE, trials=2, steps=20, storage=tmp_path / "t.db", verify=0, progress=False)
    assert (first.trials, second.trials) == (3, 5) and second.error <= first.error


def test_importance_names_what_matters() -> None:
    space = {**SPACE, "idle": (0.0, 1.0)}
    result = nbdebug.tune(make_setup, space, trials=20, steps=20, method="random", verify=0, progress=False)
    assert next(iter(result.importance)) == "learning_rate"


def test_default_space_by_names() -> None:
    def by_name(learning_rate: float, width: int) -> dict[str, Any]:
        return make_setup({"learning_rate": learning_rate, "width": width})

    result = nbdebug.tune(by_name, trials=2, steps=10, verify=0, progress=False)
    assert set(result.best) == {"learning_rate", "width"}


def test_narrowing() -> None:
    ranges = checked_space({"rate": (1e-5, 1.0, "log"), "size": (1, 100), "kind": ["a", "b"]})
    fine = narrowed(ranges, [{"rate": 1e-3, "size": 40, "kind": "a"}, {"rate": 1e-2, "size": 60, "kind": "a"}])
    assert 1e-4 < fine["rate"].low < 1e-3 < 1e-2 < fine["rate"].high < 0.1
    assert fine["size"] == Range(35.0, 65.0, False, True) and fine["kind"] == ranges["kind"]


@pytest.mark.parametrize("values", [(1, 0), (0, 1, "log"), 3, [], (1, 2, "linear")])
def test_bad_space(values: object) -> None:
    with pytest.raises(nbdebug.BadInput, match="space"):
        nbdebug.tune(make_setup, {"learning_rate": values})


def test_other_bad_input() -> None:
    with pytest.raises(nbdebug.BadInput, match="method"):
        nbdebug.tune(make_setup, SPACE, method="grid")
    with pytest.raises(nbdebug.BadInput, match="by name"):
        nbdebug.tune(make_setup)
    with pytest.raises(nbdebug.BadInput, match="val_loader"):
        nbdebug.tune(lambda p: {**make_setup(p), "val_loader": None}, SPACE, trials=1, progress=False)


def test_bad_trials_end_early_and_failures_are_written_down(tmp_path: Path) -> None:
    """Rates from hopeless to good: some trials are pruned. An error of the user's leaves no trial running."""
    result = nbdebug.tune(make_setup, SPACE, trials=14, steps=40, method="random", verify=0, progress=False)
    assert result.pruned > 0

    def broken(params: dict[str, Any]) -> dict[str, Any]:
        raise RuntimeError("no such file")

    storage = tmp_path / "t.db"
    with pytest.raises(RuntimeError, match="no such file"):
        nbdebug.tune(broken, SPACE, trials=2, storage=storage, progress=False)
    result = nbdebug.tune(make_setup, SPACE, trials=2, steps=10, storage=storage, verify=0, progress=False)
    assert [trial.state.name for trial in result.study.trials] == ["FAIL", "COMPLETE", "COMPLETE"]


def test_a_hopeless_space_is_refused() -> None:
    def diverging(params: dict[str, Any]) -> dict[str, Any]:
        setup = make_setup(params)
        setup["val_loader"] = loader_of(pixels()[0][:64] * float("nan"), pixels()[1][:64].float()[:, None])
        return {**setup, "model": nn.Linear(64, 1), "loss_fn": nn.MSELoss(), "optimizer": None}

    with pytest.raises(nbdebug.BadInput, match="smaller learning rates"):
        nbdebug.tune(diverging, SPACE, trials=2, steps=4, progress=False)


SHARED = """
import sys, nbdebug, torch
from tests.improve.test_tuning import SPACE, make_setup
torch.set_num_threads(1)
nbdebug.tune(make_setup, SPACE, trials=3, steps=10, storage=sys.argv[1], verify=0, progress=False)
"""


@pytest.mark.parametrize("file", ["t.db", "t.log"])
def test_several_processes_share_a_search(file: str, tmp_path: Path) -> None:
    """Both run the same lines: they make trials of their own, and none repeats what another tried."""
    storage = str(tmp_path / file)
    root = str(Path(__file__).parents[2])
    nbdebug.tune(make_setup, SPACE, trials=1, steps=10, storage=storage, verify=0, progress=False)
    command = [sys.executable, "-c", SHARED, storage]
    running = [subprocess.Popen(command, cwd=root, env={**os.environ, "PYTHONPATH": root}) for _ in range(2)]
    assert [process.wait(240) for process in running] == [0, 0]
    result = nbdebug.tune(make_setup, SPACE, trials=1, steps=10, storage=storage, verify=0, progress=False)
    assert result.trials == 8 and len({trial.number for trial in result.study.trials}) == 8
    assert len({trial.params["learning_rate"] for trial in result.study.trials}) == 8
