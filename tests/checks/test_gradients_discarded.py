"""Loops that make gradients and clear them again, and loops that only seem to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.watch.judging import judged
from tests.examples import failing_recording
from tests.real_runs import endless, mlp
from tests.zoo.tabular import digits

cross_entropy = nn.functional.cross_entropy


def stepped(step: Callable[[nn.Module, Any, Any], None], steps: int = 60) -> dict[str, Any]:
    """Train under watch; the step draws its batches itself."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    batches = iter(endless(digits()))
    with nbdebug.watch(model, optimizer) as live:
        for _ in range(steps):
            step(model, optimizer, batches)
    return {"recording": live.recording()}


@failing_recording("gradients-discarded", where="your loop")
def cleared_for_each_part() -> dict[str, Any]:
    """Four small batches should make one step, and three of them are forgotten."""

    def step(model: nn.Module, optimizer: Any, batches: Any) -> None:
        optimizer.zero_grad()
        for _ in range(4):
            optimizer.zero_grad()  # fixed: pass
            x, y = next(batches)
            (cross_entropy(model(x), y) / 4).backward()
        optimizer.step()

    return stepped(step)


@failing_recording("gradients-discarded", where="your loop")
def cleared_between_two_losses() -> dict[str, Any]:
    """The gradient of the first loss is gone when the second one comes."""

    def step(model: nn.Module, optimizer: Any, batches: Any) -> None:
        x, y = next(batches)
        model.zero_grad()
        model(x).square().mean().backward()
        model.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()

    return stepped(step)


def added_up(model: nn.Module, optimizer: Any, batches: Any) -> None:
    optimizer.zero_grad()
    for _ in range(4):
        x, y = next(batches)
        (cross_entropy(model(x), y) / 4).backward()
    optimizer.step()


def attacked(model: nn.Module, optimizer: Any, batches: Any) -> None:
    """FGSM: the gradient of the inputs is wanted first."""
    x, y = next(batches)
    x = x.clone().requires_grad_()
    cross_entropy(model(x), y).backward()
    optimizer.zero_grad()
    assert x.grad is not None
    cross_entropy(model((x + 0.05 * x.grad.sign()).detach()), y).backward()
    optimizer.step()


def sharpness_aware(model: nn.Module, optimizer: Any, batches: Any) -> None:
    """SAM: the gradient that is used is that of weights a little way up the hill."""
    x, y = next(batches)
    optimizer.zero_grad()
    cross_entropy(model(x), y).backward()
    before = [p.detach().clone() for p in model.parameters()]
    moves = [0.02 * p.grad / (p.grad.norm() + 1e-8) for p in model.parameters() if p.grad is not None]
    for parameter, move in zip(model.parameters(), moves, strict=True):
        parameter.data.add_(move)
    optimizer.zero_grad()
    cross_entropy(model(x), y).backward()
    for parameter, old in zip(model.parameters(), before, strict=True):
        parameter.data.copy_(old)
    optimizer.step()


def clipped_one_by_one(model: nn.Module, optimizer: Any, batches: Any) -> None:
    """The gradient of each sample is clipped, and their mean is put there by hand."""
    x, y = next(batches)
    kept = [torch.zeros_like(p) for p in model.parameters()]
    for one in range(4):
        optimizer.zero_grad()
        cross_entropy(model(x[one : one + 1]), y[one : one + 1]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for total, parameter in zip(kept, model.parameters(), strict=True):
            total += parameter.grad / 4
    for total, parameter in zip(kept, model.parameters(), strict=True):
        parameter.grad = total
    optimizer.step()


def now_and_then(model: nn.Module, optimizer: Any, batches: Any) -> None:
    """A step is left out where the loss is too large."""
    for _ in range(2):
        x, y = next(batches)
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y)
        loss.backward()
        if loss < 2.28:
            break
    optimizer.step()


@pytest.mark.parametrize("step", [added_up, attacked, sharpness_aware, clipped_one_by_one, now_and_then])
def test_passes_that_serve_another_end_are_no_waste(step: Callable[..., None]) -> None:
    report = judged(stepped(step)["recording"])
    assert report.result("gradients-discarded").status == "clean", [str(finding) for finding in report.findings]


def test_it_tells_how_many_were_lost() -> None:
    finding = next(f for f in judged(cleared_for_each_part()["recording"]).findings if f.check == "gradients-discarded")
    assert finding.severity == "bug" and finding.evidence["passes in vain a step"] == 3
