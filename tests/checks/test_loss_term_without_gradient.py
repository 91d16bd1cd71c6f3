"""Failing examples with a term of the loss that trains nothing, and sound losses of several terms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.checks.families import alarms_of
from tests.checks.likelihood_programs import network, rows, soft_labels
from tests.checks.position_programs import Program, program
from tests.examples import failing_example

CHECK = "loss-term-without-gradient"


def distilled(loss: Callable[..., torch.Tensor], **more: Any) -> Program:
    """Return a student with hard labels and a teacher."""
    teacher = network()

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        with torch.no_grad():
            taught = teacher(batch[0])
        return loss(model(batch[0]), taught, batch[1])

    return program(network(), rows(), soft_labels().argmax(-1), compute_loss=compute_loss, **more)


def soft(scores: torch.Tensor, taught: torch.Tensor) -> torch.Tensor:
    """Return the divergence between softened predictions."""
    return F.kl_div((scores / 3).log_softmax(-1), (taught / 3).softmax(-1), reduction="batchmean") * 9


@failing_example("loss-term-without-gradient", where="compute_loss")
def teacher_against_itself() -> dict[str, Any]:
    """A distillation term without the student."""
    torch.manual_seed(0)
    return distilled(lambda s, t, y: 0.5 * F.cross_entropy(s, y) + 0.5 * soft(t, t))
    # fixed: return distilled(lambda s, t, y: 0.5 * F.cross_entropy(s, y) + 0.5 * soft(s, t))


@failing_example("loss-term-without-gradient", where="compute_loss")
def detached_once_too_often() -> dict[str, Any]:
    """The scores of a second term are detached."""
    torch.manual_seed(0)
    return distilled(lambda s, t, y: F.cross_entropy(s, y) + F.mse_loss(s.detach(), t))


def in_a_loop(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """Take a step that compares the network with a frozen copy of its own first scores, and those with themselves."""
    optimizer.zero_grad()
    scores = model(batch[0])
    with torch.no_grad():
        before = model(batch[0])
    total = torch.zeros(())
    for term in (F.cross_entropy(scores, batch[1]), 0.1 * F.smooth_l1_loss(before, before.roll(1, 0))):
        total = total + term
    total.backward()
    optimizer.step()
    return total


FAULTY: dict[str, Program] = {
    "cross entropy of the teacher": distilled(
        lambda s, t, y: F.cross_entropy(s, y) + F.cross_entropy(t, t.softmax(-1))
    ),
    "stacked": distilled(lambda s, t, y: torch.stack([F.cross_entropy(s, y), soft(t, t)]).mean()),
    "summed in a loop": program(network(), rows(), soft_labels().argmax(-1), train_step=in_a_loop),
    "subtracted": distilled(lambda s, t, y: F.cross_entropy(s, y) - 0.1 * F.mse_loss(t.softmax(-1), t)),
}
SOUND: dict[str, Program] = {
    "distilled": distilled(lambda s, t, y: 0.5 * F.cross_entropy(s, y) + 0.5 * soft(s, t)),
    "by scores": distilled(lambda s, t, y: F.cross_entropy(s, y) + F.mse_loss(s, t)),
    "less the entropy of the teacher": distilled(
        lambda s, t, y: F.cross_entropy(s, t.softmax(-1)) + (t.softmax(-1) * t.log_softmax(-1)).sum(-1).mean()
    ),
    "with a constant": distilled(lambda s, t, y: F.cross_entropy(s, y) + 0.5 * torch.tensor(6.28).log()),
    "weighted by what the teacher gets right": distilled(
        lambda s, t, y: F.cross_entropy(s, y) * (1 + F.cross_entropy(t, y).exp().reciprocal())
    ),
    "one term": distilled(lambda s, t, y: F.cross_entropy(s, y)),
    "a detached scale": distilled(lambda s, t, y: (loss := F.cross_entropy(s, y)) / loss.detach() + soft(s, t)),
}


@pytest.mark.parametrize("name", FAULTY)
def test_faults_are_found(name: str) -> None:
    assert alarms_of(lambda: FAULTY[name], CHECK) == ["suspect"]


@pytest.mark.parametrize("name", SOUND)
def test_sound_losses_are_silent(name: str) -> None:
    assert not alarms_of(lambda: SOUND[name], CHECK)
