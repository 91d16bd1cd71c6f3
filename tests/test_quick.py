"""A quick diagnosis: what it leaves out, that it says so, and that it still finds what shows at a glance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug.core.control import Control
from nbdebug.core.registry import CheckSpec, Need, ProbeSpec, Registry, registry
from nbdebug.engine.session import Session
from nbdebug.errors import BadInput
from nbdebug.setup import Setup
from tests import examples


def setup(*layers: nn.Module) -> dict[str, Any]:
    """Handwritten digits and a small network."""
    x, y = load_digits(return_X_y=True)
    data = TensorDataset(torch.tensor(x / 16, dtype=torch.float32), torch.tensor(y))
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10), *layers)
    return {"model": model, "loader": DataLoader(data, 32, shuffle=True), "loss_fn": nn.CrossEntropyLoss()}


def test_what_trains_is_left_out_and_said_so() -> None:
    """Every check has a result; those that need a training say why there is none."""
    report = nbdebug.diagnose(**setup(), quick=True, progress=False)
    left_out = {result.check: result.left_out for result in report.results}
    assert set(left_out) == set(nbdebug.list_checks())
    for check in ("cannot-overfit-batch", "learning-rate-too-high", "labels-unrelated-to-inputs", "train-eval-gap"):
        assert left_out[check] == "quick"
    assert not {"overfit_one_batch", "short_run", "baselines"} & set(report.timings)
    assert report.result("forward-fails").status == report.result("softmax-before-cross-entropy").status == "clean"


def test_what_shows_at_a_glance_is_found() -> None:
    """A softmax too many needs no training to be seen."""
    report = nbdebug.diagnose(**setup(nn.Softmax(1)), quick=True, progress=False)
    assert report.findings[0].check == "softmax-before-cross-entropy"


@pytest.mark.parametrize(
    "well", [h for h in examples.all_healthy() if not h.is_tutorial][::6], ids=lambda well: well.name
)
def test_no_alarm_where_little_is_seen(well: examples.Healthy) -> None:
    """Fewer batches and samples must not make a healthy set-up look ill."""
    torch.manual_seed(0)
    report = nbdebug.diagnose(**well.make(), quick=True, progress=False)
    assert not report.alarms, [(finding.check, finding.says) for finding in report.alarms]


@dataclass(frozen=True)
class Slow:
    """Evidence that takes long."""


def test_what_can_do_without_is_left_out_too() -> None:
    """Evidence that would have calmed is not there, so that nothing may be said."""
    known = Registry()
    known.probes = dict(registry.load().probes)
    known.load = lambda *packages: known  # type: ignore[method-assign]
    known.add_probe(ProbeSpec("slow", lambda: Slow(), {}, Slow, is_quick=False))
    known.add_check(CheckSpec("hasty", lambda slow: [nbdebug.Finding("Alarm.")], {"slow": Need(Slow, True)}, {}))
    made = setup()
    session = Session(Setup(made["model"], made["loader"]), control=Control(quick=True), known=known)
    assert session.run(["hasty"])[0].left_out == "quick"
    assert Session(Setup(made["model"], made["loader"]), known=known).run(["hasty"])[0].status == "found"


def test_a_switch_is_true_or_false() -> None:
    """Anything else is refused before something runs."""
    with pytest.raises(BadInput, match="quick"):
        nbdebug.diagnose(**setup(), quick="very", progress=False)  # type: ignore[arg-type]
