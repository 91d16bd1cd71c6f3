"""Healthy readers of sequences: decoders that are told, masked words, brackets, pointers, dilated memories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader

from tests.examples import healthy
from tests.zoo.samples import chain_tokens, seeded, setup, split

START, END, SEEN, MASK = 1, 2, 3, 12


def reversed_words(samples: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Pad words of different lengths; the answer is each word backwards between two marks."""
    backwards = [torch.cat([torch.tensor([START]), word.flip(0), torch.tensor([END])]) for word in samples]
    padded = pad_sequence(backwards, batch_first=True)
    return {"source": pad_sequence(samples, batch_first=True), "given": padded[:, :-1], "wanted": padded[:, 1:]}


class Translator(nn.Module):
    """A recurrent encoder, and a decoder that attends to it while it is told the right beginning."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.words = nn.Embedding(10, width, padding_idx=0)
        self.encoder = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.decoder = nn.GRU(width, width, batch_first=True)
        self.bridge, self.keys = nn.Linear(2 * width, width), nn.Linear(2 * width, width)
        self.head = nn.Linear(2 * width, 10)

    def forward(self, source: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        """Return the scores of each next letter."""
        memory, last = self.encoder(self.words(source))
        state = self.bridge(torch.cat([last[0], last[1]], -1)).tanh()[None]
        told, _ = self.decoder(self.words(given), state)
        keys = self.keys(memory)
        scores = torch.einsum("bqd,bkd->bqk", told, keys).masked_fill((source == 0)[:, None], -1e9)
        return self.head(torch.cat([told, scores.softmax(-1) @ keys], -1))


def told_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Teacher forcing; what was filled up does not count."""
    scores = model(batch["source"], batch["given"])
    return F.cross_entropy(scores.flatten(0, 1), batch["wanted"].flatten(), ignore_index=0)


def words(count: int = 700) -> list[torch.Tensor]:
    """Return words of three to seven letters."""
    generator = seeded(9)
    lengths = torch.randint(3, 8, (count,), generator=generator).tolist()
    return [torch.randint(SEEN, 10, (length,), generator=generator) for length in lengths]


def loaded(samples: list[Any], collate: Any, batch_size: int = 32) -> dict[str, Any]:
    """Return loaders of samples that need putting together."""
    held = len(samples) // 5
    train = DataLoader(samples[held:], batch_size, shuffle=True, collate_fn=collate)  # type: ignore[arg-type]
    return {"loader": train, "val_loader": DataLoader(samples[:held], 64, collate_fn=collate)}  # type: ignore[arg-type]


def words_backwards() -> dict[str, Any]:
    """A sequence to a sequence, by names."""
    model = Translator()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    return {"model": model, "optimizer": optimizer, "compute_loss": told_loss, **loaded(words(), reversed_words)}


@dataclass
class Answer:
    """What the model gives, as a library would."""

    loss: torch.Tensor | None
    logits: torch.Tensor


class BracketModel(nn.Module):
    """A causal transformer that shifts its labels by itself."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(6, width), nn.Embedding(24, width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 6, bias=False)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, labels: torch.Tensor | None = None
    ) -> Answer:
        """Return the loss and the logits."""
        x = self.tokens(input_ids) + self.places.weight[: input_ids.shape[1]]
        q, k, v = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        length = input_ids.shape[1]
        allowed = torch.ones(length, length).tril().bool() & attention_mask[:, None, None].bool()
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        x = x + self.proj(mixed.transpose(1, 2).flatten(2))
        logits = self.head(x + self.mlp(x))
        if labels is None:
            return Answer(None, logits)
        return Answer(F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()), logits)


def brackets(count: int = 500) -> list[list[int]]:
    """Return nested brackets of two kinds, between a start and an end."""
    generator = seeded(10)
    made = []
    for _ in range(count):
        stack, text = [], [0]
        while len(text) < 20:
            if stack and (torch.rand((), generator=generator) < 0.5 or len(stack) + len(text) > 20):
                text.append(stack.pop() + 2)
            elif len(text) + len(stack) < 19 and (len(text) < 4 or torch.rand((), generator=generator) < 0.9):
                stack.append(int(torch.randint(1, 3, (), generator=generator)))
                text.append(stack[-1])
            else:
                break
        made.append([*text, *(kind + 2 for kind in reversed(stack)), 5])
    return made


def with_labels(samples: list[list[int]]) -> dict[str, torch.Tensor]:
    """Pad to the right; what was filled up has the label -100."""
    ids = pad_sequence([torch.tensor(s) for s in samples], batch_first=True)
    seen = pad_sequence([torch.ones(len(s), dtype=torch.long) for s in samples], batch_first=True)
    return {"input_ids": ids, "attention_mask": seen, "labels": ids.masked_fill(seen == 0, -100)}


@healthy(epochs=10, good=lambda first, last: last < 0.75 * first)
def language_of_brackets() -> dict[str, Any]:
    """A language model whose labels are its inputs, with an own loss in an object."""
    model = BracketModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    return {"model": model, "optimizer": optimizer, **loaded(brackets(), with_labels)}


def hidden_words(samples: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Hide a quarter of the words, anew each time they are read."""
    (tokens,) = (torch.stack(samples),)
    hide = torch.rand(tokens.shape) < 0.25
    return tokens.masked_fill(hide, MASK), tokens.masked_fill(~hide, -100)


class FillIn(nn.Module):
    """Convolutions on both sides of a gap."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.words = nn.Embedding(13, width)
        self.layers = nn.Sequential(
            nn.Conv1d(width, width, 3, padding=1), nn.GELU(), nn.Conv1d(width, width, 3, padding=1), nn.GELU()
        )
        self.head = nn.Conv1d(width, 12, 1)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return scores as batch × words × places."""
        x = self.words(tokens).transpose(1, 2)
        return self.head(self.layers(x) + x)


def hidden_words_told() -> dict[str, Any]:
    """Most targets are -100, and others each time."""
    model = FillIn()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    parts = loaded(list(chain_tokens(600)), hidden_words)
    return {"model": model, "optimizer": optimizer, "loss_fn": nn.CrossEntropyLoss(ignore_index=-100), **parts}


class Pointer(nn.Module):
    """Points at one of the items of a list; the answer is a place, and places that are empty cannot be it."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.rows = nn.GRU(3, width, batch_first=True, bidirectional=True)
        self.score = nn.Sequential(nn.Linear(2 * width, width), nn.Tanh(), nn.Linear(width, 1, bias=False))

    def forward(self, lists: list[torch.Tensor]) -> torch.Tensor:
        """Return a score for each place."""
        hidden, lengths = pad_packed_sequence(self.rows(pack_sequence(lists, False))[0], batch_first=True)
        empty = torch.arange(hidden.shape[1]) >= lengths[:, None]
        return self.score(hidden)[..., 0].masked_fill(empty, float("-inf"))


def as_lists(samples: list[Any]) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Leave lists of different lengths as they are."""
    return [rows for rows, _ in samples], torch.tensor([place for _, place in samples])


@healthy(epochs=15, accuracy=0.75)
def pointing_at_an_item() -> dict[str, Any]:
    """Inputs that are a list of tensors, scores of minus infinity, and a class for each place."""
    generator = seeded(11)
    rows = [torch.randn(int(n), 3, generator=generator) for n in torch.randint(3, 9, (700,), generator=generator)]
    samples = [(one, int((one[:, 0] + one[:, 1]).argmax())) for one in rows]
    model = Pointer()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    return {"model": model, "optimizer": optimizer, "loss_fn": nn.CrossEntropyLoss(), **loaded(samples, as_lists)}


class Dilated(nn.Module):
    """A stack of causal convolutions that see ever farther back."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, width, 1)
        self.layers = nn.ModuleList(nn.Conv1d(width, width, 2, dilation=2**k) for k in range(4))
        self.head = nn.Conv1d(width, 1, 1)

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        """Return the next value at each place."""
        x = self.first(wave)
        for layer in self.layers:
            x = x + torch.tanh(layer(F.pad(x, (layer.dilation[0], 0))))
        return self.head(x)


def next_value_of_a_wave() -> dict[str, Any]:
    """The target is the input one step later."""
    phase, rate = torch.rand(2, 500, 1, generator=seeded(12))
    waves = torch.sin(6.28 * phase + torch.arange(33) * (0.3 + 0.4 * rate))[:, None]
    return setup(Dilated(), split(waves[..., :-1], waves[..., 1:]), nn.MSELoss(), lr=2e-3)
