"""Failing examples whose optimizer was made for something else."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from tests.examples import failing_example
from tests.zoo.tabular import digits


class Parts(nn.Module):
    """A body and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.head = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Body, then head."""
        return self.head(self.body(x))


def setup(model: nn.Module, optimizer: torch.optim.Optimizer, **more: Any) -> dict[str, Any]:
    """Train on digits."""
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **more}


@failing_example("parameters-missing-from-optimizer", where="head")
def head_replaced_after() -> dict[str, Any]:
    """The head was replaced when the optimizer was already made."""
    model = Parts()
    optimizer = torch.optim.Adam(model.parameters())
    model.head = nn.Linear(32, 10)
    return setup(model, optimizer)


@failing_example("parameters-missing-from-optimizer", where="model")
def optimizer_of_another_model() -> dict[str, Any]:
    """The optimizer trains a copy."""
    model = Parts()
    return setup(model, torch.optim.SGD(copy.deepcopy(model).parameters(), lr=0.1))


@failing_example("parameters-missing-from-optimizer", where="body")
def only_the_head_given() -> dict[str, Any]:
    """A fresh body that nobody trains."""
    model = Parts()
    return setup(model, torch.optim.Adam(model.head.parameters()))
    # fixed: return setup(model, torch.optim.Adam(model.parameters()))


class Prototypes(nn.Module):
    """A loss that learns a center for each class."""

    def __init__(self) -> None:
        super().__init__()
        self.centers = nn.Parameter(torch.randn(10, 10))

    def forward(self, points: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the cross-entropy of the negative distances."""
        return nn.functional.cross_entropy(-torch.cdist(points, self.centers), labels)


@failing_example("parameters-missing-from-optimizer", where="loss_fn")
def loss_of_prototypes() -> dict[str, Any]:
    """The centers belong to the loss, and only the network is trained."""
    model = Parts()
    return {**setup(model, torch.optim.Adam(model.parameters())), "loss_fn": Prototypes()}


def severities(**setup: Any) -> list[str]:
    """Run the check alone."""
    report = nbdebug.diagnose(**setup, checks=["parameters-missing-from-optimizer"], progress=False)
    assert report.results[0].status in ("found", "clean"), report.results[0]
    return [finding.severity for finding in report.findings]


def test_frozen_parameters_need_no_optimizer() -> None:
    """A frozen body is not missed."""
    model = Parts()
    model.body.requires_grad_(False)
    assert severities(**setup(model, torch.optim.Adam(model.head.parameters()))) == []


def test_second_optimizer_of_the_step_counts() -> None:
    """A training step with two optimizers covers both parts."""
    model = Parts()
    body, head = torch.optim.Adam(model.body.parameters()), torch.optim.SGD(model.head.parameters(), 0.1)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        for one in (optimizer, head):
            one.step()
            one.zero_grad()
        return loss

    assert severities(**setup(model, body, train_step=step)) == []


def test_trained_body_under_a_new_head_is_a_note() -> None:
    """Features of a trained body are often used as they are, without being frozen."""
    model = Parts()
    trainer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(3):
        for x, y in digits():
            trainer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            trainer.step()
    model.head = nn.Linear(32, 10)
    assert severities(**setup(model, torch.optim.Adam(model.head.parameters()))) == ["note"]


def test_critic_beside_the_generator_is_a_note() -> None:
    """The other network of a pair has an optimizer of its own."""
    model = nn.Sequential()
    model.generator, model.discriminator = nn.Linear(64, 64), nn.Sequential(nn.Linear(64, 32), nn.Linear(32, 10))
    assert severities(**setup(model, torch.optim.Adam(model.generator.parameters()))) == ["note"]


class Scaled(nn.Module):
    """A loss with a temperature of its own, held by the step and not passed as the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.temperature = nn.Parameter(torch.ones(()))

    def forward(self, said: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """Divide by it."""
        return nn.functional.cross_entropy(said / self.temperature, wanted)


@failing_example("parameters-missing-from-optimizer", where="decoder")
def decoder_of_the_loss() -> dict[str, Any]:
    """The decoder lives outside of the model, in the loss."""
    model, decoder = nn.Sequential(nn.Linear(64, 16), nn.ReLU()), nn.Linear(16, 64)

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        return nn.functional.mse_loss(decoder(model(batch[0])), batch[0])

    return {
        "model": model, "loader": digits(), "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), 1e-3),
    }  # fmt: skip


@failing_example("parameters-missing-from-optimizer", where="log_variances")
def weights_of_the_tasks() -> dict[str, Any]:
    """Learned weights of two terms, which nothing learns."""
    model, log_variances = nn.Linear(64, 11), nn.Parameter(torch.zeros(2))

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        said = model(batch[0])
        terms = nn.functional.cross_entropy(said[:, :10], batch[1]), said[:, 10].sub(batch[0].mean(1)).square().mean()
        return sum(term * (-v).exp() + v for term, v in zip(terms, log_variances, strict=True))

    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return {"model": model, "loader": digits(), "compute_loss": compute_loss, "optimizer": optimizer}


@failing_example("parameters-missing-from-optimizer", where="second")
def second_tower() -> dict[str, Any]:
    """A bare step with two towers and one optimizer, found by its name."""
    first, second = nn.Linear(64, 16), nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 16))
    only = torch.optim.Adam(first.parameters(), 1e-3)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        only.zero_grad()
        one, other = first(batch[0]), second(batch[0] + 0.1 * torch.randn_like(batch[0]))
        loss = nn.functional.cross_entropy(one @ other.T, torch.arange(len(one)))
        loss.backward()
        only.step()
        return loss

    return {"model": first, "loader": digits(), "train_step": step}


def center_loss() -> dict[str, Any]:
    """A loss with parameters and an optimizer of its own."""
    model, criterion = Parts(), Scaled()
    second = torch.optim.SGD(criterion.parameters(), 0.1)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        second.zero_grad()
        loss = criterion(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        second.step()
        return loss

    return setup(model, torch.optim.Adam(model.parameters(), 1e-3), train_step=step)


def perceptual_loss() -> dict[str, Any]:
    """A network that judges in eval mode, and whose gradients are of no use."""
    model, features = nn.Linear(64, 64), nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 16)).eval()

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        return (features(model(batch[0])) - features(batch[0]).detach()).square().mean()

    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    return {"model": model, "loader": digits(), "compute_loss": compute_loss, "optimizer": optimizer}


def frozen_second_network() -> dict[str, Any]:
    """A frozen teacher."""
    model, teacher = Parts(), Parts().requires_grad_(False)

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        return nn.functional.mse_loss(model(batch[0]), teacher(batch[0]))

    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    return {"model": model, "loader": digits(), "compute_loss": compute_loss, "optimizer": optimizer}


class Trainer:
    """A user's own trainer, whose method is the step and whose attributes are the networks."""

    def __init__(self, whole: bool) -> None:
        self.encoder, self.decoder = nn.Linear(64, 8), nn.Linear(8, 64)
        parts = [self.encoder, self.decoder] if whole else [self.encoder]
        self.optimizer = torch.optim.Adam([p for part in parts for p in part.parameters()], 1e-3)

    def step(self, model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        """Train both."""
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.decoder(self.encoder(batch[0])), batch[0])
        loss.backward()
        self.optimizer.step()
        return loss


@pytest.mark.parametrize("make", [center_loss, perceptual_loss, frozen_second_network], ids=lambda make: make.__name__)
def test_second_networks_that_need_no_optimizer(make: Any) -> None:
    """Another optimizer holds them, or they are fixed."""
    assert not {"bug", "suspect"} & set(severities(**make()))


def test_attributes_of_a_trainer_are_networks() -> None:
    """The step is a method, and the optimizer an attribute."""
    for whole in (True, False):
        trainer = Trainer(whole)
        found = severities(model=trainer.encoder, loader=digits(), train_step=trainer.step)
        assert found == ([] if whole else ["suspect"])


@pytest.mark.parametrize("as_dict", [True, False], ids=["dict", "list"])
def test_networks_may_be_passed_together(as_dict: bool) -> None:
    """A dict or a list of networks is one model, where the user's own step calls them."""
    parts = {"encoder": nn.Linear(64, 8), "decoder": nn.Linear(8, 64)}
    keys = ("encoder", "decoder") if as_dict else (0, 1)
    optimizer = torch.optim.Adam(parts["encoder"].parameters(), 1e-3)

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model[keys[1]](model[keys[0]](batch[0])), batch[0])
        loss.backward()
        optimizer.step()
        return loss

    model: Any = parts if as_dict else list(parts.values())
    report = nbdebug.diagnose(
        model=model, loader=digits(), optimizer=optimizer, train_step=step,
        checks=["parameters-missing-from-optimizer"], progress=False,
    )  # fmt: skip
    assert [finding.where for finding in report.alarms] == [str(keys[1])]
