"""Healthy set-ups on sequences: recurrent networks, attention, language models, tags."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from tests.examples import healthy
from tests.zoo.samples import chain_tokens, digit_rows, seeded, setup, split, topic_tokens


def digit_sequences() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the digits as eight steps of eight pixels."""
    rows, labels = digit_rows()
    return rows.view(-1, 8, 8), labels


class LastState(nn.Module):
    """A recurrent network whose last state is classified; with time first, if the network wants it so."""

    def __init__(self, recurrent: nn.RNNBase, classes: int = 10) -> None:
        super().__init__()
        self.recurrent, self.head = recurrent, nn.Linear(recurrent.hidden_size, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Read the whole sequence, then answer."""
        if not self.recurrent.batch_first:
            x = x.transpose(0, 1)
        states, _ = self.recurrent(x)
        return self.head(states[:, -1] if self.recurrent.batch_first else states[-1])


@healthy(epochs=7, accuracy=0.85)
def lstm_batch_first() -> dict[str, Any]:
    """An LSTM that reads a digit line by line."""
    model = LastState(nn.LSTM(8, 32, batch_first=True))
    return setup(model, split(*digit_sequences()), nn.CrossEntropyLoss(), lr=1e-2)


@healthy(epochs=7, accuracy=0.85)
def gru_time_first() -> dict[str, Any]:
    """A GRU that wants time first, and is given it."""
    return setup(LastState(nn.GRU(8, 32)), split(*digit_sequences()), nn.CrossEntropyLoss(), lr=1e-2)


@healthy(epochs=8, accuracy=0.8)
def tanh_rnn() -> dict[str, Any]:
    """The plain recurrent network, with clipped gradients as it likes them."""
    model = LastState(nn.RNN(8, 48, batch_first=True))
    return setup(model, split(*digit_sequences()), nn.CrossEntropyLoss(), lr=3e-3, train_step=clipped_step)


def clipped_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """Take one step with the gradient's norm held at 1."""
    x, y = batch
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss


class TransformerClassifier(nn.Module):
    """Self-attention over padded tokens, pooled by the mean over the tokens that are there."""

    def __init__(self, words: int = 40, width: int = 32, classes: int = 3) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width, padding_idx=0)
        self.places = nn.Parameter(0.02 * torch.randn(1, 20, width))
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.1, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Attend to real tokens only."""
        padding = tokens == 0
        hidden = self.body(self.words(tokens) + self.places[:, : tokens.shape[1]], src_key_padding_mask=padding)
        there = (~padding)[..., None]
        return self.head((hidden * there).sum(1) / there.sum(1))


@healthy(epochs=6, accuracy=0.9)
def transformer_with_padding() -> dict[str, Any]:
    """Padding is masked in the attention and in the pooling."""
    tokens, _, topics = topic_tokens()
    return setup(TransformerClassifier(), split(tokens, topics, batch_size=32), nn.CrossEntropyLoss(), lr=1e-3)


class PackedGru(nn.Module):
    """A GRU that is told the length of every sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(40, 16, padding_idx=0)
        self.recurrent = nn.GRU(16, 32, batch_first=True, bidirectional=True)
        self.head = nn.Linear(64, 3)

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Pack, read, and answer from the last states of both directions."""
        packed = pack_padded_sequence(self.words(tokens), lengths.cpu(), batch_first=True, enforce_sorted=False)
        _, last = self.recurrent(packed)
        return self.head(torch.cat([last[0], last[1]], 1))


@healthy(epochs=6, accuracy=0.9)
def packed_sequences() -> dict[str, Any]:
    """Sequences of different lengths, packed; the batch is (tokens, lengths, topic)."""
    return setup(PackedGru(), split(*topic_tokens(), batch_size=32), nn.CrossEntropyLoss(), lr=5e-3)


class TinyGpt(nn.Module):
    """A causal decoder; its head is tied to its embedding where asked."""

    def __init__(self, words: int = 12, width: int = 32, length: int = 15, tied: bool = False) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        for table in (self.words, self.places):
            nn.init.normal_(table.weight, std=0.05)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.mlp = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))
        self.head = nn.Linear(width, words, bias=False)
        if tied:
            self.head.weight = self.words.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Let every place see itself and what came before."""
        length = tokens.shape[1]
        hidden = self.words(tokens) + self.places(torch.arange(length, device=tokens.device))
        future = torch.full((length, length), float("-inf"), device=tokens.device).triu(1)
        normed = self.norms[0](hidden)
        hidden = hidden + self.attention(normed, normed, normed, attn_mask=future, need_weights=False)[0]
        hidden = hidden + self.mlp(self.norms[1](hidden))
        return self.head(self.norms[2](hidden))


def next_token_loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross-entropy over all places of all sequences."""
    return nn.functional.cross_entropy(output.flatten(0, 1), target.flatten())


@healthy(epochs=8, good=lambda first, last: last < 0.6 * first)
def causal_language_model() -> dict[str, Any]:
    """Next-token prediction behind a mask of minus infinity."""
    tokens = chain_tokens()
    return setup(TinyGpt(), split(tokens[:, :-1], tokens[:, 1:], batch_size=32), next_token_loss)


@healthy(epochs=8, good=lambda first, last: last < 0.6 * first)
def tied_weights() -> dict[str, Any]:
    """Embedding and head share one matrix."""
    tokens = chain_tokens()
    return setup(TinyGpt(tied=True), split(tokens[:, :-1], tokens[:, 1:], batch_size=32), next_token_loss)


class RecurrentLanguageModel(nn.Module):
    """Next tokens from an LSTM, with the classes in dimension 1 as cross-entropy wants them."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.recurrent = nn.Embedding(12, 16), nn.LSTM(16, 48, batch_first=True)
        self.head = nn.Linear(48, 12)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Score the next token at every place."""
        return self.head(self.recurrent(self.words(tokens))[0]).transpose(1, 2)


@healthy(epochs=8, good=lambda first, last: last < 0.6 * first)
def recurrent_language_model() -> dict[str, Any]:
    """A language model that needs no mask."""
    tokens = chain_tokens()
    data = split(tokens[:, :-1], tokens[:, 1:], batch_size=32)
    return setup(RecurrentLanguageModel(), data, nn.CrossEntropyLoss(), lr=1e-2)


class Tagger(nn.Module):
    """One tag for every token, from both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(12, 16)
        self.recurrent = nn.LSTM(16, 24, batch_first=True, bidirectional=True)
        self.head = nn.Linear(48, 3)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return scores of shape (samples, tokens, tags)."""
        return self.head(self.recurrent(self.words(tokens))[0])


@healthy(epochs=8, accuracy=0.9)
def sequence_tagging() -> dict[str, Any]:
    """The tag depends on the token and on the one before it; a tenth of the tags are ignored."""
    tokens = torch.randint(0, 12, (400, 10), generator=seeded(4))
    tags = (tokens % 2 + torch.roll(tokens, 1, 1) % 2 * (torch.arange(10) > 0)) % 3
    tags = tags.masked_fill(torch.rand(tags.shape, generator=seeded(5)) < 0.1, -100)
    return setup(Tagger(), split(tokens, tags, batch_size=32), next_token_loss, lr=1e-2)


@healthy(epochs=6, accuracy=0.9)
def one_dimensional_convolution() -> dict[str, Any]:
    """Noisy waves of three frequencies with a phase of their own."""
    kinds = torch.randint(0, 3, (500,), generator=seeded(6))
    phase = 6.28 * torch.rand(500, 1, generator=seeded(7))
    times = torch.linspace(0, 6.28, 48)
    waves = torch.sin((kinds[:, None] + 2) * times + phase) + 0.3 * torch.randn(500, 48, generator=seeded(8))
    model = nn.Sequential(
        nn.Conv1d(1, 16, 7, padding=3), nn.ReLU(), nn.MaxPool1d(2),
        nn.Conv1d(16, 32, 5, padding=2), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(32, 3),
    )  # fmt: skip
    return setup(model, split(waves[:, None], kinds, batch_size=32), nn.CrossEntropyLoss())
