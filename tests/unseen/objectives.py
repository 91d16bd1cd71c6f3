"""Losses that ask for the wrong thing, and outputs that cannot give it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.unseen import unseen
from tests.zoo.samples import cancer, digit_images, digit_rows, friedman, iris, seeded, setup, split, wine


def conv_net(outputs: int = 10) -> nn.Sequential:
    """A small convolutional network."""
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.LeakyReLU(0.1), nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1), nn.LeakyReLU(0.1),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(96, outputs),
    )  # fmt: skip


class Probabilities(nn.Module):
    """Wraps a network so that its answers can be read as probabilities."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Exponentials over their sum."""
        scores = self.net(x)
        powers = (scores - scores.amax(1, keepdim=True)).exp()
        return powers / powers.sum(1, keepdim=True)


@unseen("softmax-before-cross-entropy")
def probabilities_from_a_wrapper() -> dict[str, Any]:
    """A softmax by hand in a wrapper, then cross-entropy."""
    return setup(Probabilities(conv_net()), split(*digit_images()), nn.CrossEntropyLoss())


@unseen("softmax-before-cross-entropy")
def probabilities_in_the_loss() -> dict[str, Any]:
    """The softmax is in the loss function, in front of cross-entropy."""
    net = nn.Sequential(nn.Linear(13, 32), nn.Mish(), nn.Linear(32, 3))
    return setup(net, split(*wine(), batch_size=24), lambda out, y: F.cross_entropy(torch.softmax(out, -1), y), lr=5e-3)


class Logistic(nn.Module):
    """A logistic end by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(30, 16), nn.SELU(), nn.Linear(16, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One over one plus an exponential."""
        return 1 / (1 + torch.exp(-self.net(x)))


@unseen("sigmoid-before-bce-with-logits")
def logistic_by_hand() -> dict[str, Any]:
    """A sigmoid by hand, then BCE with logits."""
    return setup(Logistic(), split(*cancer(), batch_size=40), nn.BCEWithLogitsLoss())


class Cropped(nn.Module):
    """Scores that are clamped until the loss stops complaining."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(30, 24), nn.ReLU(), nn.Linear(24, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Clamp to [0, 1]."""
        return self.net(x).clamp(0, 1)


@unseen("logits-into-bce", "clamped-output")
def clamped_for_bce() -> dict[str, Any]:
    """`clamp(0, 1)` in place of a sigmoid."""
    return setup(Cropped(), split(*cancer(), batch_size=40), nn.BCELoss())


@unseen("clamped-output")
def tanh_for_wide_targets() -> dict[str, Any]:
    """Targets between -3 and 3 behind a tanh."""
    rows, target = friedman()
    model = nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, 1), nn.Tanh())
    return setup(model, split(rows, 1.5 * target, batch_size=32), nn.MSELoss())


@unseen("incompatible-target-shape")
def squares_of_a_matrix() -> dict[str, Any]:
    """(N, 1) minus (N,) in a loss of one's own."""
    rows, target = friedman()
    model = nn.Sequential(nn.Linear(10, 32), nn.SiLU(), nn.Linear(32, 1))

    def squared(prediction: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
        return ((prediction - truth) ** 2).mean()

    return setup(model, split(rows, target[:, 0], batch_size=32), squared)


@unseen("loss-sign-flipped")
def likelihood_made_small() -> dict[str, Any]:
    """The minus in front of the log-likelihood is missing."""
    model = nn.Sequential(nn.Linear(4, 24), nn.Tanh(), nn.Linear(24, 3), nn.LogSoftmax(-1))

    def likelihood(log_p: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return log_p.gather(1, label[:, None]).mean()

    return setup(model, split(*iris(), batch_size=15), likelihood)


@unseen("loss-ignores-targets")
def its_own_answer_as_truth() -> dict[str, Any]:
    """The loss compares the output with its own best guess."""
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    return setup(model, split(*digit_rows()), lambda out, y: F.cross_entropy(out, out.argmax(1)))


@unseen("wrong-loss-for-task", "invalid-labels")
def binary_loss_for_three_kinds() -> dict[str, Any]:
    """Class numbers 0, 1, 2 as targets of a binary loss."""
    rows, kinds = wine()
    model = nn.Sequential(nn.Linear(13, 24), nn.ReLU(), nn.Linear(24, 1))
    return setup(model, split(rows, kinds.float()[:, None], batch_size=24), nn.BCEWithLogitsLoss())


@unseen("softmax-over-wrong-dim", "wrong-loss-for-task", "incompatible-target-shape", "initial-loss-off")
def classes_in_the_wrong_dimension() -> dict[str, Any]:
    """One-hot targets (N, T, C): cross-entropy takes the steps for classes."""
    tokens = torch.randint(0, 8, (500, 6), generator=seeded(1))
    tags = F.one_hot((tokens + 1) % 4, 4).float()
    model = nn.Sequential(nn.Embedding(8, 16), nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 4))
    return setup(model, split(tokens, tags, batch_size=25), nn.CrossEntropyLoss(), lr=5e-3)


@unseen("softmax-over-wrong-dim", "batch-mixing")
def log_softmax_over_samples() -> dict[str, Any]:
    """`log_softmax(dim=0)` in front of NLL."""
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    return setup(model, split(*digit_rows()), lambda out, y: F.nll_loss(torch.log_softmax(out, 0), y))


class ShareOfInk(nn.Module):
    """Non-negative scores over their sum."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return shares."""
        scores = self.net(x)
        return scores / scores.sum(1, keepdim=True)


@unseen("non-finite-forward", "clamped-output")
def logarithm_of_nothing() -> dict[str, Any]:
    """Shares that may be zero, and then their logarithm."""
    return setup(ShareOfInk(), split(*digit_rows()), lambda share, y: -share.log().gather(1, y[:, None]).mean())


class Distance(nn.Module):
    """The distance of a digit from itself, seen twice."""

    def __init__(self) -> None:
        super().__init__()
        self.code, self.head = nn.Sequential(nn.Linear(64, 32), nn.Tanh()), nn.Linear(2, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compare halves: where both are empty the distance is exactly zero."""
        left, right = x.view(-1, 8, 8)[:, :, :4], x.view(-1, 8, 8)[:, :, 4:].flip(2)
        apart = torch.sqrt(((left - right) ** 2).sum((1, 2)))
        gap = torch.sqrt((self.code(x) - self.code(x.clone())).square().sum(1))
        return self.head(torch.stack([apart, gap], 1))


@unseen("non-finite-backward", where=("model", "code"))
def root_of_zero_backward() -> dict[str, Any]:
    """`sqrt` of a sum of squares that is zero."""
    return setup(Distance(), split(*digit_rows()), nn.CrossEntropyLoss())
