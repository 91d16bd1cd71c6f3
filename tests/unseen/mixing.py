"""Samples, steps and channels that get into each other, or do not get where they should."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.unseen import unseen
from tests.zoo.samples import chain_tokens, digit_images, digit_rows, setup, split
from tests.zoo.sequences import next_token_loss


class TimeFirstByView(nn.Module):
    """A recurrent network that wants time first, and gets it by `view`."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.out = nn.LSTM(8, 32), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Reshape where a transpose is due."""
        states, _ = self.rnn(x.view(x.shape[1], x.shape[0], x.shape[2]))
        return self.out(states[-1])


@unseen("batch-mixing", where=("rnn", "model"))
def view_for_time_first() -> dict[str, Any]:
    """Steps of one sample become steps of others."""
    rows, labels = digit_rows()
    return setup(TimeFirstByView(), split(rows.view(-1, 8, 8), labels), nn.CrossEntropyLoss(), lr=5e-3)


class AttentionOverBatch(nn.Module):
    """Attention that takes the first dimension for time."""

    def __init__(self) -> None:
        super().__init__()
        self.lift, self.attention = nn.Linear(8, 24), nn.MultiheadAttention(24, 4)
        self.norm, self.head = nn.LayerNorm(24), nn.Linear(24, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attend, pool, answer."""
        tokens = self.lift(x)
        seen = self.attention(tokens, tokens, tokens, need_weights=False)[0]
        return self.head(self.norm(tokens + seen).mean(1))


@unseen("batch-mixing", where="attention")
def batch_first_forgotten() -> dict[str, Any]:
    """`batch_first=True` is missing."""
    rows, labels = digit_rows()
    return setup(AttentionOverBatch(), split(rows.view(-1, 8, 8), labels), nn.CrossEntropyLoss(), lr=5e-3)


class OwnAttention(nn.Module):
    """Attention by hand: one matrix for questions, keys and values."""

    def __init__(self, width: int, dim: int = -1, offset: int | None = None) -> None:
        super().__init__()
        self.project, self.dim, self.offset = nn.Linear(width, 3 * width), dim, offset

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Weigh the values by how well keys fit questions."""
        question, key, value = self.project(x).chunk(3, -1)
        fit = question @ key.transpose(1, 2) / x.shape[-1] ** 0.5
        if self.offset is not None:
            future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(self.offset)
            fit = fit.masked_fill(future, -1e9)
        return fit.softmax(self.dim) @ value


@unseen("batch-mixing", where=("1", "1.project"))
def attention_normalized_over_samples() -> dict[str, Any]:
    """`softmax(dim=0)` over the scores."""
    rows, labels = digit_rows()
    model = nn.Sequential(nn.Linear(8, 24), OwnAttention(24, dim=0), nn.Flatten(), nn.Linear(192, 10))
    return setup(model, split(rows.view(-1, 8, 8), labels), nn.CrossEntropyLoss(), lr=5e-3)


class OwnGpt(nn.Module):
    """A small decoder with attention by hand."""

    def __init__(self, offset: int | None) -> None:
        super().__init__()
        self.embed, self.position = nn.Embedding(12, 32), nn.Parameter(0.02 * torch.randn(15, 32))
        self.mix, self.norm1, self.norm2 = OwnAttention(32, offset=offset), nn.LayerNorm(32), nn.LayerNorm(32)
        self.think, self.unembed = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32)), nn.Linear(32, 12)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Score the next token everywhere."""
        x = self.embed(ids) + self.position
        x = x + self.mix(self.norm1(x))
        return self.unembed(x + self.think(self.norm2(x)))


@unseen("causal-leak", where="mix")
def mask_one_too_late() -> dict[str, Any]:
    """`triu(2)` where `triu(1)` is due."""
    tokens = chain_tokens()
    return setup(OwnGpt(2), split(tokens[:, :-1], tokens[:, 1:], batch_size=25), next_token_loss)


@unseen("causal-leak", where="mix")
def no_mask_at_all() -> dict[str, Any]:
    """A decoder that reads the answer."""
    tokens = chain_tokens()
    return setup(OwnGpt(None), split(tokens[:, :-1], tokens[:, 1:], batch_size=25), next_token_loss)


class BatchStandardized(nn.Module):
    """A normalization by hand, over the wrong dimension."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Standardize over dimension 0 where -1 is meant."""
        return self.gain * (x - x.mean(0)) / (x.std(0) + 1e-5) + self.shift


@unseen("batch-mixing", where="norm")
def layer_norm_over_the_batch() -> dict[str, Any]:
    """A layer norm that is a batch norm without a memory."""
    model = nn.Sequential()
    for name, part in (
        ("first", nn.Linear(64, 48)), ("norm", BatchStandardized(48)), ("act", nn.ReLU()), ("last", nn.Linear(48, 10)),
    ):  # fmt: skip
        model.add_module(name, part)
    return setup(model, split(*digit_rows()), nn.CrossEntropyLoss())


class ChannelsIntoSamples(nn.Module):
    """Maps that are flattened after their dimensions were swapped."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.fc1, self.fc2 = nn.Conv2d(1, 8, 3, 2, 1), nn.Linear(128, 48), nn.Linear(48, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Permute, then reshape as if nothing had been permuted."""
        maps = F.relu(self.conv(x)).permute(1, 0, 2, 3)
        return self.fc2(F.relu(self.fc1(maps.reshape(len(x), -1))))


@unseen("batch-mixing", where=("model", "fc1", "conv"))
def channels_before_samples() -> dict[str, Any]:
    """`reshape` of a permuted tensor."""
    return setup(ChannelsIntoSamples(), split(*digit_images(), batch_size=32), nn.CrossEntropyLoss())
