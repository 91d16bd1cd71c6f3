"""A fifth round: recipes that do not fit. Each has its sound twin, `make(is_faulty=False)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.unseen import unseen
from tests.unseen.fifth_parts import Made, SetNet, SignalNet, clouds, loaders, made, plants, tower, waves


@unseen("learning-rate-too-low", "training-slow", where="optimizer")
def sgd_creeps(is_faulty: bool = True) -> Made:
    """Plain SGD at a rate that was copied from an Adam recipe."""
    model = SignalNet()
    sgd = torch.optim.SGD(model.parameters(), lr=1e-4 if is_faulty else 0.1, momentum=0.9)
    return made(model, loaders(*waves()), nn.CrossEntropyLoss(), sgd)


class Reader(nn.Module):
    """A recurrent network over a signal."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = nn.GRU(4, 40, batch_first=True), nn.Linear(40, 4)

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        """Read four values at a time."""
        return self.out(self.cell(signal.view(len(signal), 12, 4))[0].amax(1))


@unseen("learning-rate-too-low", "training-slow", where="optimizer")
def adam_creeps(is_faulty: bool = True) -> Made:
    """A rate for fine-tuning, on a network that starts from nothing."""
    model = Reader()
    adam = torch.optim.AdamW(model.parameters(), lr=2e-5 if is_faulty else 4e-3)
    return made(model, loaders(*waves()), nn.CrossEntropyLoss(), adam)


class KerasCrossEntropy(nn.Module):
    """Normalize, clip, take the logarithm: for outputs that are probabilities."""

    def forward(self, scores: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        """Return the mean over the batch."""
        share = (scores / scores.sum(1, keepdim=True)).clamp(1e-7, 1 - 1e-7)
        return -share.log().gather(1, kinds[:, None]).mean()


@unseen("wrong-loss-for-task", "logits-into-bce", "probabilities-into-nll", "clamped-output")
def scores_normalized_clipped_logged(is_faulty: bool = True) -> Made:
    """A port from another framework, whose loss takes probabilities."""
    net = tower(48, 48, 4)
    model = net if is_faulty else nn.Sequential(net, nn.Softmax(1))
    adam = torch.optim.Adam(model.parameters(), 2e-3)
    return made(model, loaders(*waves()), KerasCrossEntropy(), adam)


@unseen("clamped-output", "wrong-loss-for-task", "unscaled-targets")
def counts_behind_a_sigmoid(is_faulty: bool = True) -> Made:
    """Counts of 0 to 30, and a last layer between 0 and 1."""
    x, y = plants()
    counts = ((y * 0.7 + 1.5).exp().round()).clamp(0, 30)
    model = nn.Sequential(*tower(), nn.Sigmoid() if is_faulty else nn.Softplus())
    adam = torch.optim.Adam(model.parameters(), 5e-3)
    return made(model, loaders(x, counts), nn.SmoothL1Loss(), adam)


@unseen("loss-sums-over-batch", "learning-rate-too-high")
def errors_summed(is_faulty: bool = True) -> Made:
    """The squared errors of a batch of 128 are added up, under plain SGD."""
    model = tower(act=nn.Tanh)
    sgd = torch.optim.SGD(model.parameters(), 0.1)
    loss = nn.MSELoss(reduction="sum" if is_faulty else "mean")
    return made(model, loaders(*plants(), size=128), loss, sgd)


@unseen("unusual-optimizer", "learning-rate-too-low", "frozen-parameters", "parameters-missing-from-optimizer")
def trunk_at_rate_zero(is_faulty: bool = True) -> Made:
    """The group of the trunk has a rate of 0: it was to be set after a warm-up."""
    model = tower(48, 8, 4)
    groups = [
        {"params": model[:4].parameters(), "lr": 0.0 if is_faulty else 3e-3},
        {"params": model[4].parameters(), "lr": 3e-3},
    ]
    return made(model, loaders(*waves()), nn.CrossEntropyLoss(), torch.optim.Adam(groups))


class Prototypes(nn.Module):
    """Distances to learned prototypes, which belong to the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.centers = nn.Parameter(torch.randn(3, 6))

    def forward(self, points: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        """Return the cross-entropy of the negative distances."""
        return F.cross_entropy(-torch.cdist(points, self.centers), kinds)


@unseen("parameters-missing-from-optimizer", where=("loss_fn", "centers"))
def prototypes_at_rest(is_faulty: bool = True) -> Made:
    """The optimizer holds the network alone."""
    model, loss = SetNet(6), Prototypes()
    held = list(model.parameters()) + ([] if is_faulty else list(loss.parameters()))
    return made(model, loaders(*clouds()), loss, torch.optim.Adam(held, 2e-3))


def every_eighth(divide: bool) -> Callable[..., torch.Tensor]:
    """Return a step that updates once in eight calls."""
    calls = {"n": 0}

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        signal, kind = batch
        loss = loss_fn(model(signal), kind)
        (loss / 8 if divide else loss).backward()
        calls["n"] += 1
        if calls["n"] % 8 == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss

    return train_step


@unseen("accumulation-not-averaged", "learning-rate-too-high")
def eight_added_up(is_faulty: bool = True) -> Made:
    """Eight batches for a step, and the loss is not divided."""
    model = SignalNet()
    sgd = torch.optim.SGD(model.parameters(), 0.4, momentum=0.9)
    step = every_eighth(not is_faulty)
    return made(model, loaders(*waves(), size=8), nn.CrossEntropyLoss(), sgd, train_step=step)


@unseen("schedule-unit-wrong", "schedule-reaches-zero", where=("scheduler", "train_step", "schedule"))
def halved_in_every_batch(is_faulty: bool = True) -> Made:
    """A schedule for epochs inside of the step."""
    model = SetNet()
    adam = torch.optim.Adam(model.parameters(), 3e-3)
    schedule = torch.optim.lr_scheduler.StepLR(adam, 4 if is_faulty else 400, 0.5)

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> float:
        points, kind = batch
        optimizer.zero_grad(set_to_none=True)
        loss = loss_fn(model(points), kind)
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss.item()

    return made(model, loaders(*clouds()), nn.CrossEntropyLoss(), adam, train_step=train_step)


@unseen("schedule-reaches-zero", "schedule-unit-wrong", "learning-rate-too-low", "training-slow")
def decay_for_epochs(is_faulty: bool = True) -> Made:
    """An exponential decay of 0.9, made for epochs and given for batches."""
    model = tower(act=nn.SiLU)
    adam = torch.optim.Adam(model.parameters(), 2e-3)
    decay = torch.optim.lr_scheduler.ExponentialLR(adam, 0.9 if is_faulty else 0.999)

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
        loss = loss_fn(model(batch[0]), batch[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        decay.step()
        return loss

    return made(model, loaders(*plants()), nn.MSELoss(), adam, train_step=train_step)


@unseen("updates-lost-to-rounding")
def all_in_bfloat16(is_faulty: bool = True) -> Made:
    """The weights themselves are in bfloat16, under small steps."""
    x, y = clouds()
    model = SetNet()
    if is_faulty:
        model, x = model.bfloat16(), x.bfloat16()
    adam = torch.optim.SGD(model.parameters(), 2e-3, momentum=0.9)
    return made(model, loaders(x, y), nn.CrossEntropyLoss(), adam)


@unseen("clipping-too-tight")
def clipped_to_nothing(is_faulty: bool = True) -> Made:
    """A clipping norm of 0.001 under SGD."""
    model = SignalNet()
    sgd = torch.optim.SGD(model.parameters(), 0.2)

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1e-3 if is_faulty else 5.0)
        optimizer.step()
        return loss.detach()

    return made(model, loaders(*waves()), nn.CrossEntropyLoss(), sgd, train_step=train_step)


@unseen("left-in-eval-mode", "batchnorm-misused")
def handed_over_in_eval(is_faulty: bool = True) -> Made:
    """The model was validated last, and the step does not switch it back."""
    model = SignalNet(norm=True)
    adam = torch.optim.Adam(model.parameters(), 3e-3)
    model.train(not is_faulty)

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss

    return made(model, loaders(*waves()), nn.CrossEntropyLoss(), adam, train_step=train_step)
