"""Failing examples whose labels are no classes."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.zoo.images import blobs
from tests.zoo.samples import cancer, digit_rows, seeded


def model(outputs: int = 10, inputs: int = 64) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs))


def setup(labels: torch.Tensor, loss_fn: Any = None, net: nn.Module | None = None, **more: Any) -> dict[str, Any]:
    loader = DataLoader(TensorDataset(digit_rows()[0], labels), 64, shuffle=True)
    return {"model": net or model(), "loader": loader, "loss_fn": loss_fn or nn.CrossEntropyLoss(), **more}


@failing_example("invalid-labels", where="batch[1]")
def counted_from_one() -> dict[str, Any]:
    """Labels of 1 to 10 for ten classes."""
    return setup(digit_rows()[1] + 1)


@failing_example("invalid-labels", where="batch[1]")
def a_few_unknown_labels() -> dict[str, Any]:
    """Three samples in 1,797 have the label -1."""
    labels = digit_rows()[1].clone()
    labels[[100, 900, 1500]] = -1
    return setup(labels)


def by_hand(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return -output.log_softmax(1)[torch.arange(len(target)), target].mean()


@failing_example("invalid-labels", where="batch[1]")
def taken_for_the_last_class() -> dict[str, Any]:
    """An index of -1 is the last class, and nothing fails."""
    labels = digit_rows()[1].clone()
    labels[::20] = -1
    return setup(labels, by_hand)


@failing_example("invalid-labels", where="batch[1]")
def class_ids_as_floats() -> dict[str, Any]:
    """Everything was made a float."""
    return setup(digit_rows()[1].float())


@failing_example("invalid-labels", where="batch[1]")
def one_hot_integers() -> dict[str, Any]:
    """One-hot rows where ids are due."""
    return setup(nn.functional.one_hot(digit_rows()[1]))


@failing_example("invalid-labels", where="batch[1]")
def one_and_two_for_binary_cross_entropy() -> dict[str, Any]:
    """Two classes called 1 and 2; the loss falls without end."""
    rows, labels = cancer()
    loader = DataLoader(TensorDataset(rows, labels + 1), 32, shuffle=True)
    return {"model": model(1, 30), "loader": loader, "loss_fn": nn.BCEWithLogitsLoss()}


@failing_example("invalid-labels", where="batch[1]")
def pixels_of_an_unknown_class() -> dict[str, Any]:
    """A mask in which 255 means do not ask, and a loss that was not told."""
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 1))
    loss = nn.CrossEntropyLoss()  # fixed: loss = nn.CrossEntropyLoss(ignore_index=255)
    return {"model": net, "loader": DataLoader(TensorDataset(*blobs()), 16), "loss_fn": loss}


def alarms(setup: dict[str, Any]) -> list[str]:
    report = nbdebug.diagnose(**setup, checks=["invalid-labels"], progress=False)
    assert report.result("invalid-labels").status != "crashed", report.result("invalid-labels")
    return [str(f) for f in report.alarms]


def test_labels_that_the_loss_ignores_are_healthy() -> None:
    labels = digit_rows()[1].clone()
    labels[::10] = -100
    assert not alarms(setup(labels))
    labels[labels == -100] = 255
    assert not alarms(setup(labels, nn.CrossEntropyLoss(ignore_index=255)))
    labels[labels == 255] = -1

    def known_only(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        known = target >= 0
        return nn.functional.cross_entropy(output[known], target[known])

    assert not alarms(setup(labels, known_only))


def test_other_forms_of_labels_are_healthy() -> None:
    labels = digit_rows()[1]
    assert not alarms(setup(nn.functional.one_hot(labels).float()))
    assert not alarms(setup(torch.softmax(torch.randn(1797, 10, generator=seeded()), 1)))
    assert not alarms(setup((torch.rand(1797, 10, generator=seeded()) > 0.7).float(), nn.BCEWithLogitsLoss()))
    assert not alarms(setup(labels.float(), lambda o, y: nn.functional.cross_entropy(o, y.long())))
    assert not alarms(setup(labels.float()[:, None], nn.MSELoss(), model(1)))
    sign = (labels % 2 * 2 - 1).float()[:, None]
    assert not alarms(setup(sign, nn.SoftMarginLoss(), model(1)))
    assert not alarms(setup(sign, nn.MSELoss(), model(1)))


def test_an_unused_class_is_noted_only() -> None:
    report = nbdebug.diagnose(**setup(digit_rows()[1], net=model(12)), checks=["invalid-labels"], progress=False)
    assert [f.severity for f in report.findings] == ["note"]


class Scores(nn.Module):
    """Scores users against items; both are looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(40, 16), nn.Embedding(60, 16)

    def forward(self, user: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
        """Return one score for each pair."""
        found: torch.Tensor = (self.users(user) * self.items(item)).sum(-1)
        return found


def test_ids_that_only_the_model_looks_up_are_no_labels() -> None:
    """The last part of the batch is the item to rank lower; its ids go beyond the 16 outputs of an embedding."""
    drawn = seeded()
    users, likes, others = (torch.randint(0, most, (400,), generator=drawn) for most in (40, 60, 60))

    def ranked(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        user, better, worse = batch
        return -nn.functional.logsigmoid(model(user, better) - model(user, worse)).mean()

    loader = DataLoader(TensorDataset(users, likes, others), 64, shuffle=True)
    assert not alarms({"model": Scores(), "loader": loader, "compute_loss": ranked})


def test_a_term_without_labels_counts_no_label() -> None:
    """Samples without a label have the label -1, which the loss ignores; two views of all samples have to agree."""
    labels = digit_rows()[1].clone()
    labels[torch.rand(len(labels), generator=seeded()) < 0.5] = -1

    def consistent(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        scores = model(batch[0])
        with torch.no_grad():
            wanted = model(batch[0] + 0.1 * torch.randn_like(batch[0])).softmax(1)
        apart = nn.functional.mse_loss(scores.softmax(1), wanted)
        return nn.functional.cross_entropy(scores, batch[1], ignore_index=-1) + 0.5 * apart

    assert not alarms(setup(labels, compute_loss=consistent))
