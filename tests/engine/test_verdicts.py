"""What looks odd is a note where the training learns, and a bug where its fix rescues the training."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug.core.control import Control
from nbdebug.core.registry import registry
from nbdebug.experiments.skill import metric_of
from nbdebug.experiments.tape import compares_with_batch
from nbdebug.sandbox import make_sandbox
from nbdebug.setup import Setup
from tests import loops
from tests.examples import all_failing_examples
from tests.zoo.tabular import digits


def diagnosed(made: dict[str, Any], **options: Any) -> nbdebug.Report:
    """Diagnose everything, quietly."""
    return nbdebug.diagnose(**made, progress=False, **options)


def with_rate(rate: float, make: Any = torch.optim.SGD) -> dict[str, Any]:
    """Return the digits with this learning rate."""
    torch.manual_seed(0)
    return loops.setup(None, rate, make)


def shifted_inputs(offset: float) -> dict[str, Any]:
    """Return two clouds whose inputs lie far from zero."""
    torch.manual_seed(0)
    inputs, labels = torch.randn(960, 8), torch.randint(2, (960,))
    inputs[:, 0] += 4 * labels
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(inputs + offset, labels), 32, shuffle=True)
    return {"model": model, "loader": loader, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


def test_a_statistic_in_a_training_that_learns_is_a_note() -> None:
    """Inputs far from unit scale do no harm to Adam with these, so that they are worth knowing and no alarm."""
    made = shifted_inputs(30.0)
    made["optimizer"] = torch.optim.Adam(made["model"].parameters(), lr=1e-2)
    report = diagnosed(made)
    assert report.result("training-fails").status == "clean"
    assert [f.severity for f in report.result("unnormalized-inputs").findings] == ["note"]
    assert not report.alarms and any("Your training learns" in note for note in report.notes)


def test_the_fix_that_rescues_the_training_makes_it_a_bug() -> None:
    """With inputs at 3,000, plain SGD goes nowhere; standardized, it learns, and both curves are the evidence."""
    first = diagnosed(shifted_inputs(3000.0)).findings[0]
    assert (first.check, first.severity) == ("unnormalized-inputs", "bug")
    assert "training-fails" in first.explains
    proof = first.verifications[0]
    assert proof.verified and len(proof.contests) == 2
    names = [name for name, *_ in proof.exhibit.series]  # type: ignore[union-attr]
    fixed = "with unnormalized-inputs fixed"
    assert names == ["as it is", fixed, f"{fixed}, another seed"]


def test_a_cause_that_no_check_saw_is_named_by_its_exchange() -> None:
    """Every check but the gate is left out, and the rate that rescues the training still names the cause."""
    left_out = [check for check in registry.load().checks if check not in ("training-fails", "forward-fails")]
    report = diagnosed(with_rate(1e-4), skip=left_out)
    first = report.findings[0]
    assert (first.check, first.severity, first.where) == ("learning-rate-too-low", "bug", "optimizer")
    assert first.remedies[0].patch is not None and first.verifications[0].verified
    assert any("exchanges were tried" in note for note in report.notes)


def test_what_nothing_rescues_fails_for_an_unknown_cause() -> None:
    """A model that throws all but one pixel away cannot be rescued by another rate, loss or start."""
    torch.manual_seed(0)

    class OnePixel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = loops.mlp()

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            kept = torch.zeros_like(pixels)
            kept[:, 20] = pixels[:, 20]
            result: torch.Tensor = self.inner(kept)
            return result

    model = OnePixel()
    made = {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}
    report = diagnosed({**made, "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3)})
    fails = report.result("training-fails").findings[0]
    assert fails.severity == "suspect" and any("The cause was not found" in note for note in report.notes)


def test_a_contradiction_stands_although_the_training_learns() -> None:
    """A softmax before CrossEntropyLoss slows the training, which learns all the same."""
    torch.manual_seed(0)
    model = loops.mlp(nn.Softmax(1))
    made = {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss()}
    report = diagnosed({**made, "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3)})
    assert report.result("training-fails").status == "clean"
    assert report.alarms[0].check == "softmax-before-cross-entropy"


@pytest.mark.parametrize("quick", [True, False])
def test_the_user_s_model_is_untouched(quick: bool) -> None:
    """Gate and differential diagnosis train copies only."""
    made = with_rate(1e-4)
    before = {name: value.clone() for name, value in made["model"].state_dict().items()}
    diagnosed(made, quick=quick)
    assert all(torch.equal(value, made["model"].state_dict()[name]) for name, value in before.items())
    assert not made["optimizer"].state


class Players(nn.Module):
    """A generator whose noise has as many values as a sample, and its discriminator."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
        self.discriminator = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, noise: torch.Tensor) -> torch.Tensor:
        """Return generated samples."""
        made: torch.Tensor = self.generator(noise)
        return made


def adversarial_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """Train both players against constants."""
    real, fake = batch[0], model(torch.randn_like(batch[0]))
    ones = torch.ones(len(real), 1)
    optimizer.zero_grad()
    loss = loss_fn(model.discriminator(real), ones) + loss_fn(model.discriminator(fake.detach()), 0 * ones)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    fooled: torch.Tensor = loss_fn(model.discriminator(fake), ones)
    fooled.backward()
    optimizer.step()
    total: torch.Tensor = loss.detach() + fooled.detach()
    return total


def two_players() -> dict[str, Any]:
    """Return a program whose `loss_fn(model(inputs), inputs)` runs, and means nothing."""
    torch.manual_seed(0)
    model, points = Players(), 2 * torch.randn(320, 2) + 1
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = DataLoader(TensorDataset(points), 32, shuffle=True)
    made = {"model": model, "loader": loader, "loss_fn": nn.BCEWithLogitsLoss(), "optimizer": optimizer}
    return {**made, "train_step": adversarial_step}


def supervised_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """Take a plain step."""
    optimizer.zero_grad()
    loss: torch.Tensor = loss_fn(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss.detach()


def test_players_are_not_judged_by_a_loss_that_they_do_not_minimize() -> None:
    """Their outputs are compared with constants; those of a classifier's own step with its labels."""
    setup = Setup(**two_players())
    sandbox = make_sandbox(setup, Control())
    assert not compares_with_batch(sandbox, sandbox.batch()) and not metric_of(sandbox, sandbox.batch())
    sandbox = make_sandbox(Setup(**{**with_rate(0.1), "train_step": supervised_step}), Control())
    assert compares_with_batch(sandbox, sandbox.batch()) and metric_of(sandbox, sandbox.batch())
    report = diagnosed(two_players(), checks=["training-fails", "wrong-loss-for-task", "untrained-parameters"])
    assert not report.alarms


class Centers(nn.Module):
    """Compares features with a center of each class, as margin losses of metric learning do."""

    def __init__(self, classes: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(classes, width))

    def forward(self, features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the cross entropy of the scaled cosines."""
        normalize = nn.functional.normalize
        return nn.functional.cross_entropy(16 * normalize(features) @ normalize(self.weight).T, labels)


def test_features_that_the_loss_classifies_are_no_scores() -> None:
    """Of more features than classes, none is the score of a class: the accuracy is read inside of the loss."""
    torch.manual_seed(0)
    model, loss_fn = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 32)), Centers(10, 32)
    optimizer = torch.optim.Adam([*model.parameters(), *loss_fn.parameters()], 3e-3)
    made = {"model": model, "loader": digits(), "loss_fn": loss_fn, "optimizer": optimizer}
    sandbox = make_sandbox(Setup(**made), Control())
    assert metric_of(sandbox, sandbox.batch()) == "tape"
    assert not diagnosed(made, checks=["training-fails", "wrong-loss-for-task"]).alarms


STATISTICS = [e for e in all_failing_examples() if registry.load().find(e.check).basis == "statistic"]


@pytest.mark.parametrize("example", STATISTICS[::6], ids=lambda e: f"{e.check}:{e.name}")
def test_a_statistic_alone_is_no_bug(example: Any) -> None:
    """Without a training that fails and a fix that rescues it, a statistic is at most a suspect."""
    torch.manual_seed(0)
    report = diagnosed(example.make(), checks=[example.check])
    assert all(f.severity != "bug" or f.is_contradiction or f.verifications for f in report.findings)
