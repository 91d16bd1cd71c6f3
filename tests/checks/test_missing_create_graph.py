"""Derivatives in the loss that cannot be trained."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.checks.networks import LATENT, WIDTH, alarms, classifier, critic_net, generator_net, loader
from tests.examples import failing_example

CHECK = "missing-create-graph"


def penalized(create: bool) -> dict[str, Any]:
    """Return a bare step of a Wasserstein GAN with a gradient penalty."""
    G, D = generator_net(), critic_net()
    opt_g, opt_d = torch.optim.Adam(G.parameters(), 1e-3), torch.optim.Adam(D.parameters(), 1e-3)

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        x = batch[0]
        fake = G(torch.randn(len(x), LATENT)).detach()
        mixed = (x + torch.rand(len(x), 1) * (fake - x)).requires_grad_()
        (slope,) = torch.autograd.grad(D(mixed).sum(), mixed, create_graph=create)
        opt_d.zero_grad()
        loss = D(fake).mean() - D(x).mean() + 10 * (slope.norm(dim=1) - 1).square().mean()
        loss.backward()
        opt_d.step()
        opt_g.zero_grad()
        (-D(G(torch.randn(len(x), LATENT))).mean()).backward()
        opt_g.step()
        return loss

    return {"model": G, "loader": loader(), "optimizer": opt_g, "train_step": step}


@failing_example(CHECK, where="loss")
def gradient_penalty() -> dict[str, Any]:
    """The penalty of a critic."""
    return penalized(False)  # fixed: return penalized(True)


def equation(create: bool) -> dict[str, Any]:
    """Return the loss of a differential equation with a boundary value."""
    model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        t = batch[0].clone().requires_grad_()
        (slope,) = torch.autograd.grad(model(t).sum(), t, create_graph=create)
        return (slope - t.cos()).square().mean() + model(torch.zeros(1, 1)).square().mean()

    times = DataLoader(TensorDataset(torch.linspace(0, 3, 64)[:, None]), 16, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    return {"model": model, "loader": times, "compute_loss": compute_loss, "optimizer": optimizer}


@failing_example(CHECK, where="loss")
def differential_equation() -> dict[str, Any]:
    """The residual is a constant, and only the boundary value is trained."""
    return equation(False)


def smooth_classifier(create: bool) -> dict[str, Any]:
    """Return a classifier with a penalty on its input gradient."""
    model = classifier()

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        x = batch[0].clone().requires_grad_()
        terms = [nn.functional.cross_entropy(model(x), batch[1])]
        slope = torch.autograd.grad(terms[0], x, create_graph=create, retain_graph=True)[0]
        terms.append(0.1 * slope.square().sum(1).mean())
        return torch.stack(terms).sum()

    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    return {
        "model": model, "loader": loader(targets=True), "compute_loss": compute_loss, "optimizer": optimizer,
    }  # fmt: skip


@failing_example(CHECK, where="loss")
def input_gradients_penalized() -> dict[str, Any]:
    """A term in a stack."""
    return smooth_classifier(False)


def attacked() -> dict[str, Any]:
    """The sign of a gradient moves the inputs (FGSM)."""
    model = classifier()

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        x = batch[0].clone().requires_grad_()
        (slope,) = torch.autograd.grad(nn.functional.cross_entropy(model(x), batch[1]), x)
        clean = nn.functional.cross_entropy(model(batch[0]), batch[1])
        return clean + nn.functional.cross_entropy(model(batch[0] + 0.1 * slope.sign()), batch[1])

    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    return {"model": model, "loader": loader(targets=True), "compute_loss": compute_loss, "optimizer": optimizer}


def weighted_adaptively() -> dict[str, Any]:
    """The weight of a term is a ratio of gradients, as in VQGAN."""
    model = nn.Sequential(nn.Linear(WIDTH, 16), nn.ReLU(), nn.Linear(16, WIDTH))

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        said = model(batch[0])
        one, two = (said - batch[0]).square().mean(), said.abs().mean()
        slopes = [torch.autograd.grad(term, model[2].weight, retain_graph=True)[0].norm() for term in (one, two)]
        return one + 0.1 * (slopes[0] / (slopes[1] + 1e-4)) * two

    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    return {"model": model, "loader": loader(), "compute_loss": compute_loss, "optimizer": optimizer}


@pytest.mark.parametrize(
    "make",
    [
        lambda: penalized(True),
        lambda: equation(True),
        lambda: smooth_classifier(True),
        attacked,
        weighted_adaptively,
    ],
    ids=["penalty", "equation", "smooth", "attacked", "weighted"],
)
def test_silent(make: Any) -> None:
    assert not alarms(CHECK, **make())
