"""How a limited time is spent, counted in training steps on a clock that only steps move."""

from __future__ import annotations

import gc
from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import nbdebug
from nbdebug.core.control import Control, limit_for
from nbdebug.core.options import checked_effort
from nbdebug.core.registry import registry
from nbdebug.engine.budgeting import in_budget_order, says_budget
from nbdebug.engine.decision_tree import tree_order
from nbdebug.engine.diagnosis import conclude, report_of, run_within_budget
from nbdebug.engine.session import Session
from nbdebug.errors import BadInput, OutOfTime
from nbdebug.evidence.first_layer_inputs import FirstWeights
from nbdebug.evidence.loader_sweep import LoaderSweep
from nbdebug.evidence.sample_table import Samples
from nbdebug.report.outline import outline
from nbdebug.report.terminal import as_text
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Setup

CHEAP = ["forward-fails", "softmax-before-cross-entropy", "unnormalized-inputs", "parameters-missing-from-optimizer"]
LONG = ["training-fails", "training-slow", "cannot-overfit-batch"]


class Steps:
    """A clock that every training step moves by as many seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, each: float) -> None:
        self.now, self.taken, self.each = 0.0, 0, each
        original = Sandbox.plain_step

        def plain_step(sandbox: Sandbox, batch: Any) -> float:
            self.now += self.each
            self.taken += 1
            return original(sandbox, batch)

        monkeypatch.setattr(Sandbox, "plain_step", plain_step)

    def __call__(self) -> float:
        return self.now


def separable(rate: float = 0.1, offset: float = 0.0) -> dict[str, Any]:
    """Return two clouds; with a high offset of the inputs, plain SGD goes nowhere."""
    torch.manual_seed(0)
    inputs, labels = torch.randn(960, 8), torch.randint(2, (960,))
    inputs[:, 0] += 4 * labels
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    loader = DataLoader(TensorDataset(inputs + offset, labels), 32, shuffle=True)
    return {"model": model, "loader": loader, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


def examined(made: dict[str, Any], clock: Steps, checks: list[str], seconds: float = 60.0) -> nbdebug.Report:
    """Run these checks as `diagnose` does, on a clock of steps."""
    session = Session(Setup(**made), control=Control(time_limit=seconds, clock=clock))
    run_within_budget(session, checks)
    conclude(session, shown=False)
    return report_of(session)


def test_the_cheap_and_likeliest_come_first() -> None:
    """Contradictions without training, other glances, the gate, and then what trains."""
    order = in_budget_order(tree_order(), registry.load())
    assert sorted(order) == sorted(tree_order())
    place = order.index
    for cheap in CHEAP:
        assert place(cheap) < place("training-fails") < place("cannot-overfit-batch")
    assert place("forward-fails") < place("unnormalized-inputs")
    assert [check for check in tree_order() if check in order[:5]] == order[:5]  # otherwise as in the tree


def test_what_does_not_fit_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a step of three seconds there is time for a glance; the training is not judged, and that is said."""
    clock = Steps(monkeypatch, 3.0)
    report = examined(separable(), clock, [*LONG, *CHEAP])
    left_out = {result.check: result.left_out for result in report.results if result.status == "skipped"}
    assert left_out["training-fails"] == left_out["training-slow"] == "time"
    assert all(check not in left_out for check in CHEAP)
    assert clock.now <= 1.2 * 60.0
    assert "60 training steps do not fit" in report.result("training-fails").reason
    assert any("Whether your training learns is not tried" in note for note in report.notes)
    number = sum(kind == "time" for kind in left_out.values())
    line = f'{number} checks not tried: time limit of 60 s; effort="thorough" tries them.'
    assert outline(report).not_tried == (line,) and line in as_text(report, 200)
    assert report.result("training-fails").status != "clean" and report.stopped in ("", "out of time")


def test_a_statistic_is_no_note_where_the_gate_was_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    made = separable(offset=30.0)
    made["optimizer"] = torch.optim.Adam(made["model"].parameters(), lr=1e-2)
    late = examined(made, Steps(monkeypatch, 3.0), [*LONG, *CHEAP])
    assert [f.severity for f in late.result("unnormalized-inputs").findings] == ["suspect"]
    monkeypatch.undo()
    early = examined(made, Steps(monkeypatch, 0.001), [*LONG, *CHEAP])
    assert [f.severity for f in early.result("unnormalized-inputs").findings] == ["note"]


def test_a_gate_that_fits_is_spent_as_far_as_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A training that learns ends early; one that fails is not called a failure before three times the steps."""
    clock = Steps(monkeypatch, 0.001)
    assert examined(separable(), clock, LONG[:2]).result("training-fails").status == "clean"
    assert clock.taken <= 100
    monkeypatch.undo()
    slower = Steps(monkeypatch, 0.2)  # 300 steps: the first of them fit, patience does not
    report = examined(separable(offset=3000.0), slower, LONG[:2])
    assert report.result("training-fails").left_out == "time" and not report.alarms
    assert slower.now <= 1.2 * 60.0
    assert "it has not learned after" in report.result("training-fails").reason


def test_the_race_says_what_it_had_no_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its steps turn out to be slower than those of the gate; what was not tried is not refuted."""
    clock = Steps(monkeypatch, 0.005)
    session = Session(Setup(**separable(offset=3000.0)), control=Control(time_limit=60.0, clock=clock))
    run_within_budget(session, [*LONG[:2], "unnormalized-inputs"])
    clock.each = 0.5
    conclude(session, shown=False)
    report = report_of(session)
    assert report.result("training-fails").status == "found"
    assert clock.now <= 1.2 * 60.0
    assert any("were not tried for want of time" in note for note in report.notes)
    (scaled,) = report.result("unnormalized-inputs").findings
    assert scaled.severity == "suspect" and not scaled.told_apart


def test_steps_are_derived_from_the_time_and_the_cause_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slower steps make a shorter gate and race, within the time and with the same cause."""
    clock = Steps(monkeypatch, 0.03)
    report = examined(separable(offset=3000.0), clock, [*LONG[:2], "unnormalized-inputs"])
    assert (report.findings[0].check, report.findings[0].severity) == ("unnormalized-inputs", "bug")
    assert clock.taken <= 2000 and clock.now <= 1.2 * 60.0


def test_what_is_known_is_judged_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Steps(monkeypatch, 0.0)
    session = Session(Setup(**separable()), control=Control(time_limit=60.0, clock=clock))
    session.run(["parameters-missing-from-optimizer"])
    clock.now = 61.0
    again, other = session.run(["parameters-missing-from-optimizer", "forward-fails", "cannot-overfit-batch"])[0::2]
    assert again.status == "clean" and other.left_out == "time"
    session.control.allow(60.0)  # what a click starts has a budget of its own
    assert session.run(["cannot-overfit-batch"])[-1].left_out == ""


def test_as_many_as_fit_are_decided_once_by_a_timed_one() -> None:
    now = [0.0]
    control = Control(time_limit=100.0, clock=lambda: now[0])

    def taken(most: int, **options: Any) -> int:
        count = 0
        for _ in control.as_many(range(most), **options):
            now[0] += 1.0
            count += 1
        return count

    assert taken(10) == 10
    assert taken(1000, part=0.5) == 2 + 44  # 88 seconds are left after the first two
    assert taken(1000, part=0.5, agreed="a") == taken(1000, part=0.5, agreed="a")  # copies that are compared
    with pytest.raises(OutOfTime, match="40 steps do not fit"):
        taken(1000, part=0.5, fewest=40)
    unlimited = Control(clock=lambda: 0.0)
    assert len(list(unlimited.as_many(range(1000), fewest=5))) == 1000 and not unlimited.has_budget


def test_efforts() -> None:
    assert (limit_for("thorough", None), limit_for("thorough", 5.0), limit_for("normal", 5.0)) == (None, 5.0, 5.0)
    assert limit_for("normal", None) == limit_for("quick", None)
    assert checked_effort("normal", True) == "quick" and checked_effort("thorough") == "thorough"
    with pytest.raises(BadInput, match="effort"):
        nbdebug.diagnose(**separable(), effort="hard")  # type: ignore[arg-type]
    report = nbdebug.diagnose(**separable(), checks=LONG, effort="quick", progress=False)
    assert {result.left_out for result in report.results} == {"quick"}
    assert outline(report).not_tried == (
        '3 checks not tried: effort="quick" leaves training out; effort="normal" tries them.',
    )


def test_the_estimate_says_how_far_the_time_goes() -> None:
    control = Control(time_limit=60.0, clock=lambda: 0.0)
    assert says_budget(control, 0.01) == (
        "at most about 60 s; a training step takes 10 ms, so 6000 fit: the whole training check"
    )
    assert says_budget(control, 2.0).endswith("a training step takes 2 s, so 30 fit: no training check")
    assert says_budget(Control(), 0.01) == ""


def test_no_copy_outlives_its_experiment() -> None:
    """Evidence is plain numbers: at the end no copy of the model is left in memory."""
    gc.collect()
    before = sum(type(one) is Sandbox for one in gc.get_objects())
    report = nbdebug.diagnose(**separable(), quick=True, progress=False)
    gc.collect()
    assert report.results and sum(type(one) is Sandbox for one in gc.get_objects()) == before


class Counted(Dataset[Any]):
    """Samples that count how often each is read; a copy counts for the original."""

    reads: Counter[int] = Counter()

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        COUNTED[int(index)] += 1
        values = torch.randn(4, generator=torch.Generator().manual_seed(int(index)))
        return values, int(values[0] > 0)


COUNTED: Counter[int] = Counter()


def test_samples_are_read_once_for_all_experiments() -> None:
    """The look through the data, the table of samples and the first layer's inputs share what they read."""
    COUNTED.clear()
    loader = DataLoader(Counted(), 32, shuffle=True)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    session = Session(Setup(model, loader, nn.CrossEntropyLoss(), sweep_samples=2048))
    session.gather(LoaderSweep)
    swept = sum(COUNTED.values())
    session.gather(Samples)
    rows = sum(COUNTED.values()) - swept
    session.gather(FirstWeights)
    batches = 8 * 32  # of the loader itself, shared by all experiments that run batches
    assert rows < 100 and sum(COUNTED.values()) - swept - rows <= batches


class Broken(Dataset[Any]):
    """Samples of which one cannot be read."""

    def __len__(self) -> int:
        return 256

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index == 77:
            raise OSError("no such file")
        return torch.randn(8, generator=torch.Generator().manual_seed(index)), index % 2


def test_a_model_too_large_for_a_copy_is_judged_with_what_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbdebug.sandbox.copying._free_bytes", lambda device: 1000)
    monkeypatch.setattr("nbdebug.sandbox.copying.TRIFLE", 0)
    made = separable() | {"loader": DataLoader(Broken(), 32)}
    report = nbdebug.diagnose(**made, progress=False)
    assert report.findings[0].check == "sample-fails"
    left_out = {result.check: result.left_out for result in report.results if result.left_out}
    assert left_out["forward-fails"] == left_out["training-fails"] == "memory"
    assert {result.status for result in report.results} <= {"found", "clean", "skipped"}
    (line,) = outline(report).not_tried
    assert line.endswith("not tried: there is not enough memory for a copy of the model.")
    assert any("What needs no copy was judged" in note for note in report.notes)
