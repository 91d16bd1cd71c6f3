"""What the wizard understands before any click, and what holds on the walk: nothing twice, and nothing out of date."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
from ipywidgets.widgets.widget import _instances
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug.core.journal import Event
from nbdebug.widgets.explore import TABS
from nbdebug.widgets.live_loss import LiveLoss
from tests import loops
from tests.widgets.test_wizard import softmaxed, state_of, wait
from tests.zoo.tabular import digits

OWN = ("ranks", "speed", "several-networks")  # steps that no source advises
INJECTED = "<img src=x onerror=alert(1)>"


def probes_of(wizard: Any, act: Any) -> list[str]:
    """Return the probes that an action runs."""
    seen: list[str] = []
    stop = wizard.session.journal.subscribe(lambda e: seen.append(e.name) if e.kind == "probe-started" else None)
    act()
    wait(wizard)
    stop()
    return seen


def test_the_first_screen_says_what_was_understood() -> None:
    wizard = nbdebug.wizard(loops.mlp(), digits(), time_limit=60)
    face = wizard.face
    assert face.screen == "start" and not wizard.report.results
    assert "8,970 parameters" in face.chips.value and face.optimizer.options[0] == ("Adam, lr 0.0003 (assumed)", "")
    assert face.layout.options[0] == ("64×64 → 64", "") and "target: batch[1]" in face.layout.tooltip
    assert "for at most about 60 s" in face.plan.value
    assert face.task.options[0] == ("10 classes", "") and face.loss.options[0] == ("CrossEntropyLoss", "")
    assert "logits of 10 classes" in face.loss.tooltip
    assert face.batch.value.count("<figure>") == 16 and "values 0 … 1, float32" in face.batch.value
    wizard.close()


def test_loss_and_task_are_corrected_in_their_place() -> None:
    """Another task means another loss, for every result from then on; what was passed can be chosen again."""
    wizard = nbdebug.wizard(nn.Linear(64, 10), digits(), nn.CrossEntropyLoss())
    wizard.face.tree.selected = "one-pass"
    wizard.face.run_step.click()
    wait(wizard)
    wizard.face.loss.value = "NLLLoss"
    assert isinstance(wizard.session.setup.loss_fn, nn.NLLLoss) and state_of(wizard, "one-pass") == "stale"
    assert wizard.face.loss.options[0] == ("NLLLoss", "")
    wizard.face.task.value = "classification"
    assert isinstance(wizard.session.setup.loss_fn, nn.CrossEntropyLoss)
    wizard.close()


def test_optimizer_and_batch_are_corrected_in_their_place() -> None:
    """Another optimizer is made for the copy only; another target is read from the same batches."""
    x = torch.randn(256, 8)
    data = DataLoader(TensorDataset(x, x.flip(1)), 32)
    model = nn.Linear(8, 8)
    before = [p.detach().clone() for p in model.parameters()]
    wizard = nbdebug.wizard(model, data)
    wizard.face.tree.selected = "one-pass"
    wizard.face.run_step.click()
    wait(wizard)
    wizard.face.optimizer.value = "SGD, lr 0.1"
    assert type(wizard.session.setup.optimizer) is torch.optim.SGD and state_of(wizard, "one-pass") == "stale"
    assert wizard.face.optimizer.options[0] == ("SGD, lr 0.1", "")
    assert [name for name, _ in wizard.face.layout.options][1:] == ["batch[1] → batch[0]", "batch[0], no target"]
    wizard.face.layout.value = "batch[1] → batch[0]"
    first = wizard.session.setup.batches(1)[0]
    assert torch.equal(first.args[0], x[:32].flip(1)) and torch.equal(first.target, x[:32])
    wizard.face.run_step.click()
    wait(wizard)
    assert state_of(wizard, "one-pass") == "clean"
    wizard.face.loss.value = "L1Loss"  # what was chosen before stays
    assert torch.equal(wizard.session.setup.batches(1)[0].target, x[:32])
    assert type(wizard.session.setup.optimizer) is torch.optim.SGD
    wizard.update(loader=DataLoader(TensorDataset(x, x.flip(1)), 16))
    assert torch.equal(wizard.session.setup.batches(1)[0].args[0], x[:16])
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    wizard.close()


def test_what_reads_a_batch_itself_has_no_other_reading() -> None:
    wizard = nbdebug.wizard(
        loops.mlp(), digits(), compute_loss=lambda m, b, f: nn.functional.cross_entropy(m(b[0]), b[1])
    )
    assert wizard.face.layout.disabled and wizard.face.loss.disabled and not wizard.face.optimizer.disabled
    wizard.close()


@pytest.mark.parametrize(
    ("inputs", "targets", "shown"),
    [
        (torch.randn(32, 3), torch.randn(32, 1), "<th>label</th>"),
        (torch.randint(0, 9, (32, 7)), torch.randint(0, 2, (32,)), "label"),
    ],
    ids=["rows", "tokens"],
)
def test_a_batch_that_is_no_picture_is_shown_as_what_it_is(
    inputs: torch.Tensor, targets: torch.Tensor, shown: str
) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(inputs.shape[1], targets.shape[1] if targets.dim() > 1 else 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.last(x.float())
            return result

    wizard = nbdebug.wizard(Net(), DataLoader(TensorDataset(inputs, targets), 8))
    assert shown in wizard.face.batch.value
    wizard.close()


def test_a_model_that_fails_still_has_a_first_screen() -> None:
    """The chips say what is known, the batch is shown, and the error stands beside it as text."""

    class Broken(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise RuntimeError(INJECTED)

    wizard = nbdebug.wizard(Broken(), digits(), class_names=[INJECTED] * 10)
    assert "onerror" in wizard.face.batch.value and "<img src=x" not in wizard.face.batch.value
    assert wizard.face.loss.options[0] == ("unknown", "") and wizard.face.screen == "start"
    wizard.close()


def test_every_step_can_be_opened_with_its_question_and_its_source() -> None:
    """Also those that only a person can answer; Next and Back walk along the tree."""
    wizard = nbdebug.wizard(**softmaxed())
    wizard.face.tree.selected = wizard.face.tree.stages[0]["id"]
    walked = [wizard.face.tree.selected]
    while not wizard.face.forward.disabled:
        assert wizard.face.question.value and ("Source: " in wizard.face.why.value or walked[-1] in OWN)
        wizard.face.forward.click()
        walked.append(wizard.face.tree.selected)
    assert walked == [step["id"] for stage in wizard.face.tree.stages for step in stage["steps"]]
    wizard.face.back.click()
    assert wizard.face.tree.selected == walked[-2]
    wizard.face.tree.selected = "known-result"
    assert wizard.face.questions.children[0].children and wizard.face.run_step.layout.display == "none"
    wizard.close()


def test_nothing_is_run_twice() -> None:
    """Run diagnosis leaves out what the walk has done, and a step that has its result asks for no probe."""
    wizard = nbdebug.wizard(**softmaxed())
    wizard.face.tree.selected = "memorize"
    assert probes_of(wizard, wizard.face.run_step.click).count("overfit_one_batch") == 1
    assert probes_of(wizard, wizard.face.run_step.click) == []
    wizard.face.tree.selected = "own-loop"
    assert "overfit_one_batch" not in probes_of(wizard, wizard.face.run_rest.click)
    assert state_of(wizard, "short-run") != "not-run"
    assert "overfit_one_batch" not in probes_of(wizard, wizard.face.run_all.click)
    assert probes_of(wizard, wizard.face.run_all.click) == []
    assert "Nothing has changed" in wizard.face.status.value
    wizard.close()


def test_a_model_that_was_trained_since_is_noticed() -> None:
    """Its results are out of date and said to be; those about the data alone are kept."""
    setup = softmaxed()
    wizard = nbdebug.wizard(**setup)
    for step in ("readable", "first-loss"):
        wizard.face.tree.selected = step
        wizard.face.run_step.click()
        wait(wizard)
    wizard.face.tree.selected = "one-pass"
    assert state_of(wizard, "first-loss") == "clean"
    with torch.no_grad():
        setup["model"][0].weight.add_(0.1)
    wizard.face.tree.selected = "first-loss"
    assert state_of(wizard, "first-loss") == "stale" and state_of(wizard, "readable") == "clean"
    assert "changed or trained since" in wizard.face.status.value and "out of date" in wizard.face.why.value
    assert probes_of(wizard, wizard.face.run_step.click)
    assert state_of(wizard, "first-loss") == "clean"
    wizard.close()


def test_a_clean_step_shows_what_it_measured() -> None:
    wizard = nbdebug.wizard(**softmaxed())
    wizard.face.tree.selected = "first-loss"
    wizard.face.run_step.click()
    wait(wizard)
    assert state_of(wizard, "first-loss") == "clean"
    assert "<img" in wizard.face.picture.value and "Initial loss" in wizard.face.picture.value
    wizard.close()


def test_tabs_are_made_when_they_are_opened_and_taken_down_with_the_wizard() -> None:
    before = len(_instances)
    wizard = nbdebug.wizard(**softmaxed())
    assert all(wizard.explored.content(tab) is None for tab in TABS if tab != "Training")
    for tab in TABS:
        wizard.face.tabs[tab].click()
        wait(wizard)
        assert wizard.face.screen == "explore" and wizard.face.explored.children, wizard.face.status.value
    assert probes_of(wizard, wizard.face.tabs["Activations"].click) == []
    wizard.face.tabs["Verdict"].click()
    assert wizard.face.screen == "start"
    wizard.close()
    assert len(_instances) == before


def test_the_loss_of_a_training_is_drawn_while_it_falls() -> None:
    live = LiveLoss()
    live.hear(Event("progress", "x", 0.1, "loading samples"))
    assert live.curve() is None
    for step in range(5):
        live.hear(Event("progress", "x", 0.1, f"overfitting one batch · loss {2.3 - step / 10:.4g}"))
    curve = live.curve(2.3)
    assert curve is not None and [name for name, _, _ in curve.series] == ["overfitting one batch", "chance level 2.3"]
    assert curve.series[0][2] == (2.3, 2.2, 2.1, 2.0, 1.9) and live.curve() is None  # nothing new since
    live.hear(Event("progress", "x", 0.1, "overfitting two samples · loss nan"))
    assert live.curve() is None  # another curve begins


def test_the_curve_is_on_the_screen_of_the_run() -> None:
    wizard = nbdebug.wizard(**softmaxed())
    seen: list[bool] = []
    wizard.session.journal.subscribe(lambda _: seen.append("Loss of " in wizard.face.picture.value))
    wizard.face.run_all.click()
    wait(wizard, 300)
    assert any(seen) and wizard.face.screen == "verdict"
    wizard.close()


def test_the_first_screen_comes_at_once() -> None:
    """It draws one batch and runs the model once; the limit is far above that, because machines are busy."""
    nbdebug.wizard(**softmaxed()).close()
    begun = time.thread_time()
    nbdebug.wizard(**softmaxed()).close()
    assert time.thread_time() - begun < 5


def test_a_training_step_of_the_users_own_is_what_was_understood() -> None:
    """Nothing is offered that would change nothing: the step brings its own loss, optimizers and reading."""
    x = torch.randn(64, 4)
    nets = {"a": nn.Linear(4, 4), "b": nn.Linear(4, 4)}
    steps = {name: torch.optim.SGD(net.parameters(), 0.1) for name, net in nets.items()}

    def step(models: Any, batch: Any, loss_fn: Any, optimizers: Any) -> Any:
        loss = models["b"](models["a"](batch[0])).pow(2).mean()
        for optimizer in optimizers.values():
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers.values():
            optimizer.step()
        return loss

    wizard = nbdebug.wizard(nets, DataLoader(TensorDataset(x), 16), optimizer=steps, train_step=step)
    face = wizard.face
    assert "a: Linear, b: Linear" in face.chips.value
    assert face.optimizer.options[0][0] == "a: SGD, b: SGD, lr 0.1" and face.task.options[0][0] == "your own train_step"
    assert all(chip.disabled for chip in (face.task, face.loss, face.optimizer, face.layout))
    wizard.close()
