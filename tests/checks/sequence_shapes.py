"""Sequences in the shapes that programs give them: time first, loops over cells, interleaved, padded on the left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.zoo.samples import seeded

Program = dict[str, Any]


def tokens(*shape: int, kinds: int = 40, least: int = 0) -> torch.Tensor:
    """Return random tokens."""
    return torch.randint(least, kinds, shape, generator=seeded(sum(shape)))


def made(model: nn.Module, batch: Any, **parts: Any) -> Program:
    """Return a set-up with one batch."""
    return {"model": model, "loader": [batch], "optimizer": torch.optim.Adam(model.parameters()), **parts}


class TimeFirst(nn.Module):
    """A word language model whose batches are (time, samples), and whose outputs are flattened."""

    def __init__(self, bidirectional: bool) -> None:
        super().__init__()
        self.words, self.rnn = nn.Embedding(40, 24), nn.LSTM(24, 24, 2, dropout=0.2, bidirectional=bidirectional)
        self.head = nn.Linear(48 if bidirectional else 24, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return one row for each word."""
        return self.head(self.rnn(self.words(x))[0]).view(-1, 40)


def time_first(shift: int = 1, bidirectional: bool = False) -> Program:
    """Return windows of a text cut into columns."""
    text = tokens(80, 10)
    return made(
        TimeFirst(bidirectional), (text[:16], text[shift : shift + 16].reshape(-1)), loss_fn=nn.CrossEntropyLoss()
    )


class OneHot(nn.Module):
    """Reads characters as one-hot vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.RNN(30, 32, batch_first=True), nn.Linear(32, 30)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return one row for each character."""
        return self.head(self.rnn(x)[0]).reshape(-1, 30)


def one_hot(shift: int) -> Program:
    """Return one-hot characters and the numbers of others."""
    text = tokens(24, 21, kinds=30)
    batch = {"x": F.one_hot(text[:, :20], 30).float(), "y": text[:, shift : 20 + shift]}
    return made(OneHot(), batch, compute_loss=lambda m, b, _: F.cross_entropy(m(b["x"]), b["y"].reshape(-1)))


class Cell(nn.Module):
    """A loop over the time steps."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.cell, self.head = nn.Embedding(40, 16), nn.LSTMCell(16, 24), nn.Linear(24, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (samples, time, words)."""
        state, found = None, []
        for step in range(x.shape[1]):
            state = self.cell(self.words(x[:, step]), state)
            found.append(self.head(state[0]))
        return torch.stack(found, 1)


def cell(shift: int) -> Program:
    """Return a step that adds up one loss for each time step."""

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        text = batch[0]
        optimizer.zero_grad()
        scores = model(text)
        loss = sum(F.cross_entropy(scores[:, t], text[:, t + shift]) for t in range(text.shape[1] - 1))
        loss.backward()  # type: ignore[union-attr]
        optimizer.step()
        return loss  # type: ignore[return-value]

    return made(Cell(), (tokens(32, 12),), train_step=step)


class Decisions(nn.Module):
    """States and actions take turns; the action is predicted where the state stands, or where it stands itself."""

    def __init__(self, begin: int) -> None:
        super().__init__()
        self.states, self.actions, self.begin = nn.Linear(4, 32), nn.Embedding(5, 32), begin
        self.layer, self.head = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), nn.Linear(32, 5)

    def forward(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Score the actions."""
        both = torch.stack([self.states(states), self.actions(actions)], 2).flatten(1, 2)
        future = nn.Transformer.generate_square_subsequent_mask(both.shape[1])
        return self.head(self.layer(both, src_mask=future)[:, self.begin :: 2])


def decisions(begin: int) -> Program:
    """Return states with the actions that followed."""
    batch = {"s": torch.randn(16, 8, 4, generator=seeded()), "a": tokens(16, 8, kinds=5)}
    loss = lambda m, b, _: F.cross_entropy(m(b["s"], b["a"]).transpose(1, 2), b["a"])  # noqa: E731
    return made(Decisions(begin), batch, compute_loss=loss)


class Encoder(nn.Module):
    """An encoder whose mask may be inverted, and which may be causal as well."""

    def __init__(self, inverted: bool, causal: bool) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(40, 32), nn.Parameter(0.1 * torch.randn(14, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True)
        self.layers, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(32, 3)
        self.inverted, self.causal = inverted, causal

    def forward(self, x: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        """Average over the words."""
        future = nn.Transformer.generate_square_subsequent_mask(x.shape[1]) if self.causal else None
        masked = there if self.inverted else ~there
        h = self.layers(self.words(x) + self.places, mask=future, src_key_padding_mask=masked)
        return self.head((h * there[..., None]).sum(1) / there.sum(1, keepdim=True))


def encoder(inverted: bool, left: bool = False, causal: bool = False) -> Program:
    """Return texts that are padded on one side."""
    lengths = torch.randint(4, 13, (16, 1), generator=seeded(3))
    there = torch.arange(14) >= 14 - lengths if left else torch.arange(14) < lengths
    text = tokens(16, 14, least=3) * there
    batch = {"x": text, "there": there, "y": text.amax(1) % 3}
    loss = lambda m, b, _: F.cross_entropy(m(b["x"], b["there"]), b["y"])  # noqa: E731
    return made(Encoder(inverted, causal), batch, compute_loss=loss)


class Translator(nn.Module):
    """`nn.Transformer`, which is told the target, with or without a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(40, 32), nn.Parameter(0.1 * torch.randn(20, 32))
        self.body, self.head = nn.Transformer(32, 4, 1, 1, 64, batch_first=True), nn.Linear(32, 40)

    def forward(self, source: torch.Tensor, told: torch.Tensor, masked: bool = True) -> torch.Tensor:
        """Score the next words."""
        future = nn.Transformer.generate_square_subsequent_mask(told.shape[1]) if masked else None
        x, y = (self.words(t) + self.places[: t.shape[1]] for t in (source, told))
        return self.head(self.body(x, y, tgt_mask=future)).transpose(1, 2)


def translation(how: str) -> Program:
    """Return a source and a target; the target may be the source."""
    source, target = tokens(16, 10, least=3), tokens(16, 12, least=3)
    if how == "copy":
        target = F.pad(source, (1, 1), value=1)

    def loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        told = batch[1][:, 1:] if how == "unshifted" else batch[1][:, :-1]
        return F.cross_entropy(model(batch[0], told, how != "unmasked"), batch[1][:, 1:])

    return made(Translator(), (source, target), compute_loss=loss)


class TextVae(nn.Module):
    """Draws a code of the sentence in training, and decodes it while it is told the words before."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.encoder = nn.Embedding(40, 16), nn.LSTM(16, 16, batch_first=True)
        self.mean, self.log_variance, self.head = nn.Linear(16, 8), nn.Linear(16, 8), nn.Linear(16, 40)
        self.decoder = nn.LSTM(24, 16, batch_first=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Score the next words."""
        words = self.words(x)
        state = self.encoder(words)[1][0][-1]
        mean, log_variance = self.mean(state), self.log_variance(state)
        code = mean + torch.randn_like(mean) * (log_variance / 2).exp() if self.training else mean
        told = torch.cat([words[:, :-1], code[:, None].expand(-1, x.shape[1] - 1, -1)], -1)
        return self.head(self.decoder(told)[0]), mean, log_variance


def text_vae() -> Program:
    """Return the usual two terms."""

    def loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        scores, mean, log_variance = model(batch[0])
        divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).mean()
        return F.cross_entropy(scores.transpose(1, 2), batch[0][:, 1:]) + divergence

    return made(TextVae(), (tokens(16, 12),), compute_loss=loss)


SHAPES: dict[str, tuple[str, Callable[[], Program]]] = {
    "time-first": ("", time_first),
    "time-first-unshifted": ("unshifted-targets", lambda: time_first(shift=0)),
    "time-first-both-directions": ("causal-leak", lambda: time_first(bidirectional=True)),
    "one-hot": ("", lambda: one_hot(1)),
    "one-hot-unshifted": ("unshifted-targets", lambda: one_hot(0)),
    "cell": ("", lambda: cell(1)),
    "cell-unshifted": ("unshifted-targets", lambda: cell(0)),
    "decisions": ("", lambda: decisions(0)),
    "decisions-told": ("unshifted-targets", lambda: decisions(1)),
    "padded-on-the-left": ("", lambda: encoder(False, left=True)),
    "padded-on-the-left-inverted": ("inverted-attention-mask", lambda: encoder(True, left=True)),
    "causal-encoder": ("", lambda: encoder(False, causal=True)),
    "causal-encoder-inverted": ("inverted-attention-mask", lambda: encoder(True, causal=True)),
    "translation": ("", lambda: translation("shifted")),
    "translation-of-the-same": ("", lambda: translation("copy")),
    "translation-unmasked": ("causal-leak", lambda: translation("unmasked")),
    "translation-unshifted": ("unshifted-targets", lambda: translation("unshifted")),
    "text-vae": ("", text_vae),
}


class PlacesOfTheBatch(nn.Module):
    """Adds the encoding of positions along the first dimension, which holds the samples."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(40, 32), nn.Linear(32, 40)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.register_buffer("places", torch.randn(64, 1, 32, generator=seeded()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Score the next words."""
        future = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        h = self.words(x) + self.places[: len(x)]  # type: ignore[index]
        return self.head(self.layer(h, src_mask=future))


class FirstState(nn.Module):
    """Takes the first state of a recurrent network for the last."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.rnn, self.head = nn.Embedding(40, 16), nn.GRU(16, 16, batch_first=True), nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Score the classes."""
        return self.head(self.rnn(self.words(x))[0][:, 0])


def scored(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Compare the scores with the classes, or with the words at each position."""
    scores = model(batch["x"])
    return F.cross_entropy(scores.transpose(1, 2) if scores.dim() == 3 else scores, batch["y"])


def scored_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """Take a step that alone knows the loss."""
    optimizer.zero_grad()
    loss = scored(model, batch, loss_fn)
    loss.backward()
    optimizer.step()
    return loss


def placed(**how: Any) -> Program:
    """Return texts for a model that numbers samples in the place of positions."""
    batches = [{"x": text[:, :-1], "y": text[:, 1:]} for text in tokens(32, 13).split(16)]
    return {**made(PlacesOfTheBatch(), None, **how), "loader": batches}


def first_state(**how: Any) -> Program:
    """Return texts for a model that reads the first word alone."""
    text = tokens(16, 12)
    return made(FirstState(), {"x": text, "y": text[:, 0] % 3}, **how)
