"""Failing examples that compare samples with the targets of others, and losses that look at the whole batch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import nbdebug
from tests.checks.chain_programs import ALONG_BATCH, ALONG_TIME
from tests.checks.families import alarms_of
from tests.examples import failing_example
from tests.programs import SHAPES, Loss, program
from tests.zoo.samples import digit_rows, friedman, seeded

CHECK = "loss-depends-on-order"


def digits(shape: str, loss: Loss) -> dict[str, Any]:
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    return program(shape, net, *digit_rows(), loss)


class Words(nn.Module):
    """A recurrent model of the next token."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.rnn, self.head = nn.Embedding(12, 16), nn.GRU(16, 16, batch_first=True), nn.Linear(16, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits for each position."""
        return self.head(self.rnn(self.embed(x))[0])


def words(shape: str, loss: Loss) -> dict[str, Any]:
    x = torch.randint(0, 12, (64, 9), generator=seeded(0)).cumsum(1) % 12
    return program(shape, Words(), x, x, loss, size=16)


@failing_example(CHECK, where="compute_loss")
def next_token_of_the_next_sample() -> dict[str, Any]:
    """The shift by one is along the batch."""

    def loss(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits[:-1].flatten(0, 1), ids[1:].flatten())  # fixed: return shifted(logits, ids)

    return words("compute_loss", loss)


def shifted(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


@failing_example(CHECK, where="loss_fn")
def errors_of_the_neighbor() -> dict[str, Any]:
    """A lag that was made for time series, on rows that have no order."""
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
    return program("plain", net, *friedman(), lambda o, y: ((o - y.roll(1, 0)) ** 2).mean())


@failing_example(CHECK, where="train_step")
def one_target_for_all() -> dict[str, Any]:
    """The first target of the batch is compared with every output."""
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
    return program("train_step", net, *friedman(), lambda o, y: F.mse_loss(o, y[:1].expand_as(o)))


def cox(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    risk = output[y.argsort(descending=True, stable=True), 0]
    return (risk.logcumsumexp(0) - risk).mean()


def supervised_contrastive(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    codes = F.normalize(output, dim=1)
    alike = (codes @ codes.T / 0.5).masked_fill(torch.eye(len(codes), dtype=torch.bool), -1e9)
    same = (y[:, None] == y[None, :]).float() - torch.eye(len(y))
    return -((alike.log_softmax(1) * same).sum(1) / same.sum(1).clamp_min(1)).mean()


def pairs(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    half = len(output) // 2
    far = (output[:half] - output[half : 2 * half]).square().sum(1)
    return F.binary_cross_entropy_with_logits(1 - far, (y[:half] == y[half : 2 * half]).float())


def triplets(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.triplet_margin_loss(output, output.roll(1, 0), output.roll(2, 0))


def ranks(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    gaps, signs = output[:, :1] - output[:, :1].T, (y[:, None] - y[None, :]).sign()
    return (F.softplus(-gaps * signs) * signs.abs()).mean()


def balanced(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(output, y, weight=1 / torch.bincount(y, minlength=10).clamp_min(1).float())


HEALTHY = (F.cross_entropy, cox, supervised_contrastive, pairs, triplets, ranks, balanced)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("loss", HEALTHY, ids=lambda loss: loss.__name__)
def test_losses_of_whole_batches_are_healthy(loss: Loss, shape: str) -> None:
    """Rankings, pairs, contrasts and weights by the counts of the batch."""
    torch.manual_seed(0)
    report = nbdebug.diagnose(**digits(shape, loss), progress=False, checks=[CHECK])
    assert report.result(CHECK).status in ("clean", "skipped"), report.result(CHECK)


def test_a_shift_in_time_is_healthy() -> None:
    """The next token of the same sample."""
    torch.manual_seed(0)
    assert (
        nbdebug.diagnose(**words("own_loss", shifted), progress=False, checks=[CHECK]).result(CHECK).status == "clean"
    )


def test_mixup_is_healthy() -> None:
    """Inputs and targets are mixed with those of the same other sample."""

    def compute(model: nn.Module, batch: Any, _: Any) -> torch.Tensor:
        x, y = batch
        output = model(0.7 * x + 0.3 * x.flip(0))
        return 0.7 * F.cross_entropy(output, y) + 0.3 * F.cross_entropy(output, y.flip(0))

    setup = {**digits("plain", F.cross_entropy), "compute_loss": compute}
    assert not nbdebug.diagnose(**setup, progress=False, checks=[CHECK]).alarms


@pytest.mark.parametrize("name", ALONG_TIME)
def test_losses_along_time_are_silent(name: str) -> None:
    assert not alarms_of(ALONG_TIME[name], "loss-depends-on-order")


@pytest.mark.parametrize("name", ALONG_BATCH)
def test_losses_along_the_batch_are_found(name: str) -> None:
    assert alarms_of(ALONG_BATCH[name], "loss-depends-on-order") == ["suspect"]
