"""Losses that compare distributions, or read some of the samples: sound, and with one fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.checks.position_programs import Program, program
from tests.zoo.samples import seeded

Loss = Callable[..., torch.Tensor]


def rows(count: int = 48, width: int = 8) -> torch.Tensor:
    """Return normal draws."""
    return torch.randn(count, width, generator=seeded(11))


def network(out: int = 5, width: int = 8) -> nn.Module:
    """Return a small network."""
    return nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, out))


def soft_labels(classes: int = 5) -> torch.Tensor:
    """Return distributions over classes that depend on the rows."""
    return (rows() @ torch.randn(8, classes, generator=seeded(12))).softmax(-1)


def taught(loss: Loss, classes: int = 5, teacher: bool = False) -> Program:
    """Return a program whose loss compares scores with distributions: of the batch, or of a second network."""
    other = network(classes).requires_grad_(False)

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        with torch.no_grad():
            wanted = other(batch[0]).softmax(-1) if teacher else batch[1]
        return loss(model(batch[0]), wanted)

    return program(network(classes), rows(), soft_labels(classes), compute_loss=compute_loss)


def jensen_shannon(one: torch.Tensor, other: torch.Tensor, as_logarithms: bool = True) -> torch.Tensor:
    """Compare both with their mean."""
    p, q = one.softmax(-1), other
    mean = ((p + q) / 2).log() if as_logarithms else (p + q) / 2
    return (F.kl_div(mean, p, reduction="batchmean") + F.kl_div(mean, q, reduction="batchmean")) / 2


def neighbors(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Compare the joint distribution over all pairs of rows, as t-SNE does."""

    def joint(values: torch.Tensor) -> torch.Tensor:
        near = 1 / (1 + torch.cdist(values, values).square()) * (1 - torch.eye(len(values)))
        return near / near.sum()

    return F.kl_div((joint(one) + 1e-12).log(), joint(other), reduction="sum")


def with_padding(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Leave a quarter of the rows out by targets of zero."""
    there = (other[:, 0] > 0.1)[:, None]
    return F.kl_div(one.log_softmax(-1).masked_fill(~there, 0.0), other * there, reduction="sum") / there.sum()


LOGARITHMS: dict[str, Callable[[], Program]] = {
    "log-softmax": lambda: taught(lambda x, p: F.kl_div(x.log_softmax(-1), p, reduction="batchmean")),
    "teacher": lambda: taught(lambda x, p: F.kl_div((x / 2).log_softmax(-1), p, reduction="batchmean"), teacher=True),
    "log-target": lambda: taught(lambda x, p: F.kl_div(x.log_softmax(-1), p.log(), reduction="sum", log_target=True)),
    "reversed": lambda: taught(lambda x, p: F.kl_div(p.log(), x.softmax(-1), reduction="batchmean")),
    "jensen-shannon": lambda: taught(jensen_shannon),
    "joint": lambda: taught(neighbors),
    "padding": lambda: taught(with_padding),
    "guarded": lambda: taught(lambda x, p: F.kl_div((x.softmax(-1) + 1e-6).log(), p, reduction="batchmean")),
    "binary": lambda: taught(
        lambda x, p: F.kl_div(F.logsigmoid(x), p) + F.kl_div(F.logsigmoid(-x), 1 - p),
    ),
}
NO_LOGARITHMS: dict[str, Callable[[], Program]] = {
    "probabilities": lambda: taught(lambda x, p: F.kl_div(x.softmax(-1), p, reduction="batchmean")),
    "teacher": lambda: taught(lambda x, p: F.kl_div((x / 2).softmax(-1), p, reduction="batchmean"), teacher=True),
    "scores": lambda: taught(lambda x, p: F.kl_div(x, p, reduction="batchmean")),
    "module": lambda: taught(lambda x, p: nn.KLDivLoss(reduction="sum")(x.softmax(-1), p) / len(x)),
    "log-target": lambda: taught(lambda x, p: F.kl_div(x.log_softmax(-1), p.log(), reduction="batchmean")),
    "jensen-shannon": lambda: taught(lambda x, p: jensen_shannon(x, p, as_logarithms=False)),
    "beside-labels": lambda: taught(
        lambda x, p: F.cross_entropy(x, p.argmax(-1)) + F.kl_div(x.softmax(-1), p, reduction="batchmean")
    ),
}


def chosen(choose: Loss, out: int = 1) -> Program:
    """Return a program whose loss reads some samples only, or looks something up for them."""
    events = (torch.rand(48, generator=seeded(14)) < 0.6).float()
    times = rows()[:, 0].exp() * (0.5 + torch.rand(48, generator=seeded(15)))

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        return choose(model(batch[0]), *batch[1:])

    return program(network(out), rows(), times, events, compute_loss=compute_loss)


def cox(index: Loss) -> Loss:
    """Return the partial likelihood, for the events that the index chooses."""

    def loss(risk: torch.Tensor, time: torch.Tensor, event: torch.Tensor) -> torch.Tensor:
        order = time.argsort(descending=True)
        risk, event = risk.squeeze(-1)[order], event[order]
        return -index(risk - risk.logcumsumexp(0), event).mean()

    return loss


def errors(index: Loss) -> Loss:
    """Return the mean squared error of the samples that the index chooses."""

    def loss(output: torch.Tensor, time: torch.Tensor, event: torch.Tensor) -> torch.Tensor:
        return index((output.squeeze(-1) - time.log()).square(), event).mean()

    return loss


MASKED: dict[str, Callable[[], Program]] = {
    "cox": lambda: chosen(cox(lambda x, e: x[e.bool()])),
    "cox-product": lambda: chosen(cox(lambda x, e: x * e)),
    "errors": lambda: chosen(errors(lambda x, e: x[e > 0])),
    "nonzero": lambda: chosen(errors(lambda x, e: x[e.nonzero().squeeze(-1)])),
    "masked-select": lambda: chosen(errors(lambda x, e: x.masked_select(e.bool()))),
    "weights-of-classes": lambda: chosen(errors(lambda x, e: x * torch.tensor([0.3, 0.7])[e.long()])),
    "own-class": lambda: chosen(lambda x, t, e: -x.log_softmax(-1).gather(1, e.long()[:, None]).mean(), out=2),
    "prototypes": lambda: chosen(
        lambda x, t, e: F.mse_loss(x, torch.stack([x[e == c].mean(0) for c in (0, 1)])[e.long()].detach()), out=4
    ),
}
INDEXED: dict[str, Callable[[], Program]] = {
    "cox": lambda: chosen(cox(lambda x, e: x[e.long()])),
    "errors": lambda: chosen(errors(lambda x, e: x[e.long()])),
    "int": lambda: chosen(errors(lambda x, e: x[(e > 0).int()])),
    "index-select": lambda: chosen(errors(lambda x, e: x.index_select(0, e.long()))),
    "gather": lambda: chosen(errors(lambda x, e: x.gather(0, e.long()))),
    "rows": lambda: chosen(lambda x, t, e: (x[e.long()] - t[e.long()][:, None].log()).square().mean()),
    "before-the-loss": lambda: chosen(
        lambda x, t, e: F.mse_loss(x.squeeze(-1)[e.to(torch.int64)], t.log()[e.to(torch.int64)])
    ),
}
