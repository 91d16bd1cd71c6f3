"""Which of the exchanges that rescue a training is named, by plain numbers; and what the exchanges carry."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.core.control import Control
from nbdebug.core.finding import Finding
from nbdebug.core.registry import registry
from nbdebug.core.remedy import Patch, Remedy
from nbdebug.engine.differential import Differential, Run
from nbdebug.engine.differential.choice import NO_HINDRANCE, OUTCOMES, candidates
from nbdebug.engine.differential.evidence import compared, contests, summary
from nbdebug.engine.differential.exchange import one
from nbdebug.engine.differential.exchanges import exchanges_for, hypotheses
from nbdebug.engine.differential.scales import off_scale
from nbdebug.engine.verdicts import judged
from nbdebug.evidence.learning_gate import LearningGate
from nbdebug.experiments.trial_training import split_batches
from nbdebug.sandbox import make_sandbox
from nbdebug.setup import Setup
from tests.verdicts.table import minimal


def run(check: str, skill: float, patch: str = "some", *, is_general: bool = False, also: str = "") -> Run:
    """Return an exchange that came to this skill."""
    fix = ("Fix it.", "fixed = True", Patch(patch))
    return Run(one(f"{check} exchanged", check, "A cause", "model", fix, is_general=is_general, also=also), skill)


def suggested(run: Run, *, is_contradiction: bool = False) -> Run:
    """Return the same as the fix of a finding."""
    return replace(run, exchange=replace(run.exchange, is_hypothesis=True, is_contradiction=is_contradiction))


def named(*runs: Run, own: float = 0.1) -> list[str]:
    """Return the checks in the order in which they are named."""
    return [found.exchange.check for found in candidates(runs, own)]


RATE = "multiply-learning-rate"


def test_the_first_cause_that_goes_half_of_the_way_is_named() -> None:
    """Half of the way from 0.1 to 0.9 is 0.5."""
    assert named(run("frozen-parameters", 0.5), run("wrong-loss-for-task", 0.9)) == [
        "frozen-parameters",
        "wrong-loss-for-task",
    ]
    assert named(run("frozen-parameters", 0.49), run("wrong-loss-for-task", 0.9)) == ["wrong-loss-for-task"]


def test_what_nothing_asks_for_has_to_come_near_the_best() -> None:
    """Without dropout nearly everything trains a little faster, which makes it no cause: 0.8 of the way is 0.74."""
    better = run("wrong-loss-for-task", 0.9)
    assert named(run("excessive-dropout", 0.7, is_general=True), better) == ["wrong-loss-for-task"]
    assert named(run("excessive-dropout", 0.8, is_general=True), better)[0] == "excessive-dropout"


def test_small_gains_and_repairs_name_nothing() -> None:
    """Adam helps whatever the cause is, and 0.1 of skill happens between seeds."""
    assert not named(run("", 0.9), run("unscaled-targets", 0.2))


def test_a_repair_of_the_best_skill_does_not_raise_the_mark() -> None:
    """Normalization layers come to 1.0; the cause has to go half of the way to the best cause."""
    assert named(run("", 1.0), run("unscaled-targets", 0.4)) == ["unscaled-targets"]


def test_contradictions_go_before_statistics_and_these_before_what_no_check_suggests() -> None:
    """The order of the runs decides only among equals."""
    contradiction = suggested(run("unregistered-parameters", 0.9), is_contradiction=True)
    statistic = suggested(run("unscaled-targets", 0.9))
    assert named(run("wrong-loss-for-task", 0.9), statistic, contradiction) == [
        "unregistered-parameters",
        "unscaled-targets",
        "wrong-loss-for-task",
    ]


def test_a_learning_rate_stands_behind_what_it_makes_up_for() -> None:
    """The update ratio suggests a rate; standardized inputs rescue the training as well, and come first."""
    ratio = suggested(run("update-ratio-off", 0.9, RATE))
    scales, rate = run("unnormalized-inputs", 0.8), run("learning-rate-too-high", 0.9, RATE, is_general=True)
    assert named(ratio, scales, rate) == ["unnormalized-inputs", "learning-rate-too-high", "update-ratio-off"]


def test_a_metric_that_only_the_exchange_makes_fit_is_not_compared_with_a_loss() -> None:
    """A loss that is always 0 is below every other; what counts is what the predictions come to."""
    gate = minimal(LearningGate, measure="held-out loss", patient_value=0.0, is_finite=True)
    cause = replace(run("wrong-loss-for-task", 0.9), measure="accuracy", value=0.91, steps=240)
    said = compared(gate, Differential(0.0, (cause,), cause))
    assert "accuracy" in said
    assert "91%" in said
    assert "loss reaches" not in said
    assert contests(gate, Differential(0.0, (cause,), cause))[0].measure == "skill"


def test_clipping_is_named_only_where_nothing_else_rescues() -> None:
    """A check that suggests clipping has seen a symptom."""
    clipped, rate = (
        suggested(run("exploding-gradients", 0.9, "clip-gradients")),
        run("learning-rate-too-high", 0.8, RATE),
    )
    assert named(clipped, rate) == ["learning-rate-too-high", "exploding-gradients"]


def finding(check: str, *, is_contradiction: bool = False) -> Finding:
    """Return an alarm."""
    return Finding("It is odd.", check=check, severity="suspect", is_contradiction=is_contradiction)


def test_a_contradiction_whose_fix_is_part_of_the_cause_is_not_refuted() -> None:
    """Removing the sigmoid alone rescues nothing while the scales are wrong, too; the sigmoid is a bug all the same."""
    alone = suggested(run("clamped-output", 0.1, "drop-last-activation"), is_contradiction=True)
    parts = (*alone.exchange.remedies, *run("", 0.0, "standardize-inputs").exchange.remedies)
    joint = run("wrong-loss-for-task", 0.9)
    joint = replace(joint, exchange=replace(joint.exchange, remedies=parts))
    found = Differential(0.0, (alone, joint), joint, joint)
    assert found.is_part("clamped-output")
    assert not found.refutes("clamped-output")
    assert set(OUTCOMES) <= set(judged(finding("clamped-output", is_contradiction=True), found).explains)
    other = replace(found, runs=(suggested(run("clamped-output", 0.1, "other")), joint))
    assert not other.is_part("clamped-output")
    assert other.refutes("clamped-output")


def test_the_other_half_of_a_double_cause_stays_an_alarm() -> None:
    """Standardizing the inputs alone changes nothing, but both together rescue the training."""
    alone = suggested(run("unnormalized-inputs", 0.1))
    both = run("unscaled-targets", 0.9, also="unnormalized-inputs")
    found = Differential(0.1, (alone, both), both, both)
    assert judged(finding("unnormalized-inputs"), found).severity == "suspect"
    other = replace(both, exchange=replace(both.exchange, also=""))
    assert judged(finding("unnormalized-inputs"), Differential(0.1, (alone, other), other, other)).severity == "note"


def test_a_contradiction_accounts_for_how_the_training_comes_out() -> None:
    """Unless its fix does not help and another one does."""
    stands = finding("batch-mixing", is_contradiction=True)
    assert set(OUTCOMES) <= set(judged(stands, Differential(0.1, ())).explains)
    cause = run("wrong-loss-for-task", 0.9)
    refuted = suggested(run("batch-mixing", 0.1), is_contradiction=True)
    assert not judged(stands, Differential(0.1, (refuted, cause), cause, cause)).explains


def test_what_keeps_no_training_from_learning_accounts_for_no_failure() -> None:
    """Leaked samples make the validation too easy; a training that fails has another cause."""
    assert not judged(finding("split-leakage", is_contradiction=True), Differential(0.1, ())).explains
    assert set(registry.load().checks) >= NO_HINDRANCE


def test_the_summary_names_at_most_three() -> None:
    """The best three, and none that is no better than the training as it is."""
    runs = tuple(run("frozen-parameters", skill / 10) for skill in range(9))
    text = summary(Differential(0.1, runs))
    assert text.count("exchanged (") == 3 and "9 exchanges were tried" in text and "not found" in text
    assert "(0." not in summary(Differential(0.9, runs))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (torch.randn(200, 4), False),
        (torch.randn(200, 4) * 6, True),
        (torch.randn(200, 4) + 12, True),
        (torch.randn(200, 4) / 30, True),
        (torch.randn(200, 4) * torch.tensor([1.0, 1, 1, 0.01]), True),
        (torch.cat([torch.randn(200, 3), torch.zeros(200, 1).index_fill_(0, torch.tensor([7]), 3.0)], 1), False),
        (torch.cat([torch.randn(200, 3), torch.full((200, 1), 2.0)], 1), False),
    ],
)
def test_off_scale(values: torch.Tensor, expected: bool) -> None:
    """A column that is rarely lit is on the scale of the others, and a constant one has no scale."""
    assert (off_scale(values, column_ratio=30.0) > 1) == expected


def test_every_exchange_carries_code_that_can_be_run() -> None:
    """Large inputs and targets, frozen weights, odd initial weights: what can be exchanged says how."""
    torch.manual_seed(0)
    first, last = nn.Linear(4, 8), nn.Linear(8, 1)
    model = nn.Sequential(first, nn.Sigmoid(), last, nn.Sigmoid())
    with torch.no_grad():
        first.weight.fill_(5.0)
    last.bias.requires_grad_(False)
    data = TensorDataset(torch.randn(60, 4) * 100, torch.randn(60, 1) * 100)
    optimizer = torch.optim.SGD([first.weight], lr=0.1, weight_decay=0.1)
    setup = Setup(model, DataLoader(data, 6), nn.MSELoss(), optimizer)
    sandbox = make_sandbox(setup, Control())
    found = exchanges_for(sandbox, split_batches(setup, sandbox.device, lambda: None))
    assert {"standardized inputs and targets", "PyTorch's default initialization"} <= {e.name for e in found}
    for exchange in found:
        for remedy in exchange.remedies:
            assert remedy.code, exchange.name
            ast.parse(remedy.code)


def scheduled(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """Accumulate without end, clip to nothing, and step a scheduler."""
    loss = loss_fn(model(batch[0]), batch[1])
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1e-6)
    optimizer.step()
    SCHEDULERS[0].step()
    return loss


def plain(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """Do what the books do."""
    optimizer.zero_grad()
    loss = loss_fn(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss


def in_twos(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """Accumulate over two passes, and clear the gradients after the step."""
    for half in ((part[:3] for part in batch), (part[3:] for part in batch)):
        x, y = half
        loss = loss_fn(model(x), y) / 2
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


SCHEDULERS: list[Any] = []
PARTS = {
    "a constant learning rate": "schedule-reaches-zero",
    "cleared gradients": "accumulated-gradients",
    "gradients as backward leaves them": "clipping-too-tight",
}


@pytest.mark.parametrize(("step", "expected"), [(scheduled, set(PARTS)), (plain, set()), (in_twos, set())])
def test_a_step_is_taken_apart_where_there_is_something_to_exchange(step: Any, expected: set[str]) -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    SCHEDULERS[:] = [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.1)]
    loader = DataLoader(TensorDataset(torch.randn(60, 4), torch.randint(0, 2, (60,))), 6)
    setup = Setup(model, loader, nn.CrossEntropyLoss(), optimizer, train_step=step)
    sandbox = make_sandbox(setup, Control())
    found = {e.name: e.check for e in exchanges_for(sandbox, split_batches(setup, sandbox.device, lambda: None))}
    assert {name: check for name, check in found.items() if name in PARTS} == {n: PARTS[n] for n in expected}


def test_gradients_as_backward_leaves_them_are_what_the_step_uses() -> None:
    """Clipping to nothing moves no weight; with the fix the weights move as without clipping."""
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    SCHEDULERS[:] = [torch.optim.lr_scheduler.StepLR(optimizer, 1000)]
    loader = DataLoader(TensorDataset(torch.randn(60, 4), torch.randint(0, 2, (60,))), 60)
    setup = Setup(model, loader, nn.CrossEntropyLoss(), optimizer, train_step=scheduled)
    moved = []
    for patched in (setup, Remedy("", "", Patch("unclipped-gradients")).apply(setup)):
        sandbox = make_sandbox(patched, Control())
        sandbox.user_step(sandbox.batch())
        moved.append(float((next(iter(sandbox.model.parameters())) - model.weight).detach().abs().max()))
    assert moved[0] < 1e-6 < 1e-3 < moved[1]


def test_alternatives_of_one_finding_have_names_of_their_own() -> None:
    """Curves side by side are told apart by what each fix does; a single one needs no more than its check."""
    wide = Remedy("Standardize the inputs.", "x = (x - mean) / std", Patch("standardize-inputs"))
    small = Remedy("Divide pixels by 255.", "x = x / 255", Patch("scale-inputs", {"factor": 1 / 255}))
    several = Finding("Too large.", check="unnormalized-inputs", where="0", severity="suspect", remedies=(small, wide))
    single = Finding("Differ.", check="feature-scales-differ", where="0", severity="suspect", remedies=(wide,))
    assert [exchange.name for exchange in hypotheses([several, single])] == [
        "unnormalized-inputs fixed (divide pixels by 255)",
        "unnormalized-inputs fixed (standardize the inputs)",
        "feature-scales-differ fixed",
    ]
