"""Healthy set-ups with tiny batches, noise in eval mode, state between calls, and losses in the style of Keras."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.examples import healthy
from tests.zoo.samples import cancer, chain_tokens, digit_rows, iris, seeded, setup, split, topic_tokens
from tests.zoo.sequences import TinyGpt


@healthy(epochs=8, accuracy=0.85)
def batches_of_two() -> dict[str, Any]:
    """Two samples a batch, as many as the batch has parts, and one sample in the last."""
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    rows, kinds = iris()
    return setup(model, split(rows[1:], kinds[1:], batch_size=2, share=0.207), nn.CrossEntropyLoss(), lr=3e-3)


@healthy(epochs=8, accuracy=0.85)
def batches_of_one() -> dict[str, Any]:
    """One sample a batch."""
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    return setup(model, split(*iris(), batch_size=1), nn.CrossEntropyLoss(), lr=1e-3)


class MonteCarlo(nn.Module):
    """Drops units in eval mode as well, to measure how sure it is; padding is masked."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(40, 32, padding_idx=0), nn.Linear(32, 3)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Average over what is there, with dropout always on."""
        there = (tokens != 0)[..., None]
        hidden = F.dropout(self.words(tokens), 0.5, training=True)
        scores: torch.Tensor = self.head((hidden * there).sum(1) / there.sum(1))
        return scores


@healthy(epochs=25, accuracy=0.85)
def dropout_in_eval_mode() -> dict[str, Any]:
    """The noise of two calls is larger than anything that padding does."""
    tokens, _, topics = topic_tokens()
    tokens = F.pad(tokens, (0, 20))
    return setup(MonteCarlo(), split(tokens, topics, batch_size=32), nn.CrossEntropyLoss(), lr=1e-2)


class NoisyCode(nn.Module):
    """Samples a code for padded sequences, in both modes, and answers from it."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.code, self.head = nn.Embedding(40, 32), nn.Linear(32, 32), nn.Linear(16, 3)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the scores and the divergence of the code."""
        there = (tokens != 0)[..., None]
        mean, log_var = self.code((self.words(tokens) * there).sum(1) / there.sum(1)).chunk(2, 1)
        code = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        return self.head(code), 0.5 * (mean.square() + log_var.exp() - 1 - log_var).sum(1).mean()


def bottleneck(output: Any, target: torch.Tensor) -> torch.Tensor:
    """Add a little of the divergence to the cross-entropy."""
    return F.cross_entropy(output[0], target) + 1e-3 * output[1]


@healthy(epochs=12, good=lambda first, last: last < 0.6 * first)
def information_bottleneck() -> dict[str, Any]:
    """A code that is drawn anew at every call."""
    tokens, _, topics = topic_tokens()
    return setup(NoisyCode(), split(F.pad(tokens, (0, 20)), topics, batch_size=32), bottleneck, lr=1e-2)


class Stateful(nn.Module):
    """Goes on from the state of the batch before, cut off from its graph."""

    def __init__(self, resets: bool) -> None:
        super().__init__()
        self.words, self.rnn, self.head = nn.Embedding(12, 16), nn.GRU(16, 48, batch_first=True), nn.Linear(48, 12)
        self.resets = resets
        self.hidden: torch.Tensor | None = None

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Read on; begin anew where the number of rows is another one."""
        if self.resets and self.hidden is not None and self.hidden.shape[1] != len(tokens):
            self.hidden = None
        states, hidden = self.rnn(self.words(tokens), self.hidden)
        self.hidden = hidden.detach()
        return self.head(states).transpose(1, 2)


def truncated(resets: bool) -> dict[str, Any]:
    """Return a recurrent model that is trained on pieces of long texts, all batches of one size."""
    tokens = chain_tokens(384)
    data = TensorDataset(tokens[:, :-1], tokens[:, 1:])
    model = Stateful(resets)
    loader = DataLoader(data, 32, drop_last=True, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    return {"model": model, "loader": loader, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


@healthy(epochs=8, good=lambda first, last: last < 0.7 * first)
def state_that_is_reset() -> dict[str, Any]:
    """The state is dropped where the batch size changes."""
    return truncated(True)


@healthy(epochs=8, good=lambda first, last: last < 0.7 * first)
def state_of_one_size() -> dict[str, Any]:
    """The state is kept; all batches have its size."""
    return truncated(False)


def keras_crossentropy(p: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Compute the cross-entropy of probabilities as Keras does: normalize, clip, take the logarithm."""
    p = (p / p.sum(-1, keepdim=True)).clamp(1e-7, 1 - 1e-7)
    return -(F.one_hot(y, p.shape[-1]) * p.log()).sum(-1).mean()


@healthy(epochs=8, accuracy=0.9)
def probabilities_in_keras_style() -> dict[str, Any]:
    """A softmax, and a loss that takes its logarithm."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10), nn.Softmax(-1))
    return setup(model, split(*digit_rows()), keras_crossentropy, lr=3e-3)


def keras_binary(p: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Compute the binary cross-entropy of probabilities as Keras does."""
    p = p.clamp(1e-7, 1 - 1e-7)
    return -(y * (p + 1e-7).log() + (1 - y) * (1 - p + 1e-7).log()).mean()


@healthy(epochs=8, accuracy=0.9)
def binary_in_keras_style() -> dict[str, Any]:
    """A sigmoid, and a loss that takes its logarithm."""
    model = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 1), nn.Sigmoid())
    return setup(model, split(*cancer()), keras_binary, lr=3e-3)


def shifted_loss(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Compare every output with the next token."""
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def counting(count: int = 400, length: int = 16) -> torch.Tensor:
    """Return sequences that count up to 11 and begin again, from anywhere and with a jump now and then."""
    steps = torch.where(torch.rand(count, length, generator=seeded()) < 0.85, 1, 4)
    return (torch.randint(0, 11, (count, 1), generator=seeded(1)) + steps.cumsum(1)) % 11 + 1


@healthy(epochs=8, good=lambda first, last: last < 0.5 * first)
def shift_in_the_loss() -> dict[str, Any]:
    """Inputs and targets are the same tokens; the loss shifts them, and a tied head begins with a copy of its input."""
    tokens, model = counting(), TinyGpt(length=16, tied=True)
    nn.init.normal_(model.words.weight, std=0.5)
    return setup(model, split(tokens, tokens, batch_size=32), shifted_loss, lr=1e-2)
