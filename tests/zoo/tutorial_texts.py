"""Healthy set-ups on sequences as tutorials write them: LSTM, GRU, transformer, characters, signals."""

from __future__ import annotations

import math
from typing import Any

import torch
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

from tests.examples import healthy
from tests.zoo.samples import seeded, setup, split

Review = tuple[torch.Tensor, int]


def reviews(count: int = 500) -> list[Review]:
    """Return texts of 4 to 24 words out of 60, which are good or bad by the words of feeling in them."""
    generator = seeded(21)
    made = []
    for _ in range(count):
        good = int(torch.randint(0, 2, (), generator=generator))
        length = int(torch.randint(4, 25, (), generator=generator))
        plain = torch.randint(22, 62, (length,), generator=generator)
        feeling = torch.randint(2, 12, (length,), generator=generator) + 10 * good
        made.append((torch.where(torch.rand(length, generator=generator) < 0.3, feeling, plain), good))
    return made


def padded(samples: list[Review]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Fill the texts up with zeros."""
    texts, labels = zip(*samples, strict=True)
    lengths = torch.tensor([len(text) for text in texts])
    return pad_sequence(list(texts), batch_first=True), lengths, torch.tensor(labels)


def review_loaders(collate: Any = padded) -> tuple[DataLoader[Any], DataLoader[Any]]:
    """Return texts to train on and to judge by."""
    texts: Any = reviews()
    return DataLoader(texts[:400], 32, shuffle=True, collate_fn=collate), DataLoader(
        texts[400:], 64, collate_fn=collate
    )


class Sentiment(nn.Module):
    """A bidirectional LSTM over packed texts."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(62, 32, padding_idx=0)
        self.lstm = nn.LSTM(32, 32, num_layers=2, bidirectional=True, dropout=0.3, batch_first=True)
        self.dropout, self.fc = nn.Dropout(0.3), nn.Linear(64, 2)

    def forward(self, text: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Judge by the last states of both directions."""
        x = self.dropout(self.embedding(text))
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        _, (hidden, _) = self.lstm(packed)
        return self.fc(self.dropout(torch.cat([hidden[-2], hidden[-1]], 1)))


@healthy(epochs=8, accuracy=0.8)
def feeling_of_texts() -> dict[str, Any]:
    """Sentiment by an LSTM that packs."""
    return setup(Sentiment(), review_loaders(), nn.CrossEntropyLoss(), 3e-3)


class Positions(nn.Module):
    """Sines and cosines, as the first transformer had them."""

    pe: torch.Tensor

    def __init__(self, width: int, longest: int = 64) -> None:
        super().__init__()
        position = torch.arange(longest)[:, None]
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        pe = torch.zeros(longest, width)
        pe[:, 0::2], pe[:, 1::2] = torch.sin(position * rate), torch.cos(position * rate)
        self.register_buffer("pe", pe)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add where each word stands."""
        return x + self.pe[: x.shape[1]]


class TextTransformer(nn.Module):
    """An encoder that knows what is padding."""

    def __init__(self, batch_first: bool = True) -> None:
        super().__init__()
        self.embedding, self.positions = nn.Embedding(62, 32, padding_idx=0), Positions(32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=batch_first)
        self.encoder, self.fc = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(32, 2)

    def forward(self, text: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Average over the words, not over the padding."""
        empty = torch.arange(text.shape[1]) >= lengths[:, None]
        x = self.encoder(self.positions(self.embedding(text) * math.sqrt(32)), src_key_padding_mask=empty)
        x = x.masked_fill(empty[:, :, None], 0.0)
        return self.fc(x.sum(1) / lengths[:, None])


def warmed(model: nn.Module) -> dict[str, Any]:
    """Return AdamW with a warm-up and a cosine behind it."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)

    def rate(step: int) -> float:
        return min((step + 1) / 20, 0.5 * (1 + math.cos(math.pi * min(step / 130, 1))))

    return {"optimizer": optimizer, "scheduler": torch.optim.lr_scheduler.LambdaLR(optimizer, rate)}


@healthy(epochs=8, accuracy=0.8)
def transformer_with_a_mask() -> dict[str, Any]:
    """Texts of all lengths under `src_key_padding_mask`."""
    model = TextTransformer()
    return setup(model, review_loaders(), nn.CrossEntropyLoss(label_smoothing=0.05), **warmed(model))


def waves(count: int = 600, length: int = 30) -> torch.Tensor:
    """Return sums of two sines with a little noise."""
    generator = seeded(22)
    rate = 0.2 + 0.4 * torch.rand(count, 2, 1, generator=generator)
    phase = 6.28 * torch.rand(count, 2, 1, generator=generator)
    clean = torch.sin(rate * torch.arange(length) + phase).sum(1)
    return clean + 0.05 * torch.randn(count, length, generator=generator)


class Forecaster(nn.Module):
    """A GRU with a linear head."""

    def __init__(self, ahead: int = 4) -> None:
        super().__init__()
        self.gru, self.head = nn.GRU(1, 48, batch_first=True), nn.Linear(48, ahead)

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        """Foretell the next values."""
        return self.head(self.gru(past)[0][:, -1])


def clipped_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """The step of every recurrent tutorial."""
    x, y = batch
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss


@healthy(epochs=10)
def next_four_values() -> dict[str, Any]:
    """Forecasting with clipped gradients."""
    series = waves()
    data = split(series[:, :26, None], series[:, 26:], batch_size=32)
    return setup(Forecaster(), data, nn.MSELoss(), 5e-3, train_step=clipped_step)


class Characters(Dataset[Any]):
    """Windows of a text, and the same windows one character later."""

    def __init__(self, text: str, window: int = 24, shift: int = 1) -> None:
        self.vocabulary = sorted(set(text))
        place = {character: number for number, character in enumerate(self.vocabulary)}
        self.codes = torch.tensor([place[character] for character in text])
        self.window, self.shift = window, shift

    def __len__(self) -> int:
        """Count the windows, which do not overlap."""
        return (len(self.codes) - self.shift) // self.window

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a window and what follows each of its characters."""
        begin = index * self.window
        return tuple(self.codes[begin + s : begin + s + self.window] for s in (0, self.shift))  # type: ignore[return-value]


def prose() -> str:
    """Return the descriptions of three data sets as one text."""
    text = "".join(load().DESCR for load in (load_breast_cancer, load_diabetes, load_iris)).lower()
    return "".join(c for c in text if c.isalpha() or c in " .,\n")


class CharacterModel(nn.Module):
    """An LSTM that foretells the next character."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(vocabulary, 24), nn.LSTM(24, 96, batch_first=True)
        self.fc = nn.Linear(96, vocabulary)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores for each place: batch, characters, time."""
        return self.fc(self.lstm(self.embedding(x))[0]).transpose(1, 2)


@healthy(epochs=10, good=lambda first, last: last < 0.8 * first)
def next_character() -> dict[str, Any]:
    """A language model over characters of real prose."""
    data = Characters(prose())
    model = CharacterModel(len(data.vocabulary))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    loader = DataLoader(data, 16, shuffle=True)
    return {"model": model, "loader": loader, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


def movements(count: int = 480, length: int = 40) -> tuple[torch.Tensor, torch.Tensor]:
    """Return three channels of a sensor for four ways to move, standardized."""
    generator = seeded(23)
    kind = torch.randint(0, 4, (count,), generator=generator)
    rate = torch.tensor([0.3, 0.5, 0.8, 1.2])[kind][:, None, None] * (
        1 + 0.05 * torch.randn(count, 1, 1, generator=generator)
    )
    phase = 6.28 * torch.rand(count, 3, 1, generator=generator)
    signal = torch.sin(rate * torch.arange(length) + phase) + 0.4 * torch.randn(count, 3, length, generator=generator)
    return (signal - signal.mean((0, 2), keepdim=True)) / signal.std((0, 2), keepdim=True), kind


@healthy(epochs=8, accuracy=0.85)
def movements_of_a_sensor() -> dict[str, Any]:
    """Convolutions over time with BatchNorm, and cross-entropy with smoothed labels."""
    model = nn.Sequential(
        nn.Conv1d(3, 24, 5, padding=2), nn.BatchNorm1d(24), nn.ReLU(), nn.MaxPool1d(2),
        nn.Conv1d(24, 48, 5, padding=2), nn.BatchNorm1d(48), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(),
        nn.Dropout(0.2), nn.Linear(48, 4),
    )  # fmt: skip
    return setup(model, split(*movements(), batch_size=32), nn.CrossEntropyLoss(label_smoothing=0.1), 3e-3)
