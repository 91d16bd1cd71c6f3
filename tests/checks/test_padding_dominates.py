"""Failing examples that read their padding."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import chain_tokens, digit_rows, seeded, topic_tokens
from tests.zoo.sequences import PackedGru, TransformerClassifier


def padded_topics(length: int = 40) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return sequences of 5 to 20 words, filled up to 40."""
    tokens, lengths, topics = topic_tokens()
    return nn.functional.pad(tokens, (0, length - tokens.shape[1])), lengths, topics


def setup(model: nn.Module, *columns: torch.Tensor, loss_fn: Any = None) -> dict[str, Any]:
    loader = DataLoader(TensorDataset(*columns), 32, shuffle=True)
    return {"model": model, "loader": loader, "loss_fn": loss_fn or nn.CrossEntropyLoss()}


class LastState(nn.Module):
    """Answers from the state after the last place, whatever stands there."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.rnn = nn.Embedding(40, 16), nn.GRU(16, 32, batch_first=True)
        self.head = nn.Linear(32, 3)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(self.words(tokens))[0][:, -1])


@failing_example("padding-dominates", where="batch[0]")
def state_after_the_padding() -> dict[str, Any]:
    """A recurrent network that reads on through the padding."""
    tokens, _, topics = padded_topics()
    return setup(LastState(), tokens, topics)


class Unmasked(nn.Module):
    """Attends to padding, and averages over it."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(40, 32)
        self.body = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.head = nn.Linear(32, 3)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.words(tokens)).mean(1))


@failing_example("padding-dominates", where="batch[0]")
def attention_without_mask() -> dict[str, Any]:
    """A transformer that was not told what is padding."""
    tokens, _, topics = padded_topics()
    return setup(Unmasked(), tokens, topics)


class NextToken(nn.Module):
    """A small language model."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.rnn = nn.Embedding(12, 16), nn.GRU(16, 32, batch_first=True)
        self.head = nn.Linear(32, 12)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(self.words(tokens))[0]).transpose(1, 2)


def padded_chains() -> torch.Tensor:
    tokens = chain_tokens(length=24)
    lengths = torch.randint(4, 20, (len(tokens), 1), generator=seeded())
    return tokens * (torch.arange(24) < lengths)


@failing_example("padding-dominates", where="batch[0]")
def loss_over_padding() -> dict[str, Any]:
    """A language model that is mostly asked for padding."""
    tokens = padded_chains()
    return setup(NextToken(), tokens[:, :-1], tokens[:, 1:])
    # fixed: return setup(NextToken(), tokens[:, :-1], tokens[:, 1:], loss_fn=nn.CrossEntropyLoss(ignore_index=0))


def alarms(setup: dict[str, Any]) -> list[str]:
    report = nbdebug.diagnose(**setup, checks=["padding-dominates"], progress=False)
    assert report.result("padding-dominates").status != "crashed", report.result("padding-dominates")
    return [str(f) for f in report.alarms]


def test_masked_padding_is_healthy() -> None:
    tokens, lengths, topics = padded_topics(20)
    assert not alarms(setup(TransformerClassifier(), tokens, topics))
    tokens, lengths, topics = padded_topics()
    assert not alarms(setup(PackedGru(), tokens, lengths, topics))
    chains = padded_chains()
    loss = nn.CrossEntropyLoss(ignore_index=0)
    assert not alarms(setup(NextToken(), chains[:, :-1], chains[:, 1:], loss_fn=loss))


def test_sequences_without_padding_are_skipped() -> None:
    tokens = chain_tokens()
    assert not alarms(setup(NextToken(), tokens[:, :-1], tokens[:, 1:]))
    rows, labels = digit_rows()
    model = nn.Sequential(nn.Linear(64, 10))
    assert not alarms(setup(model, rows, labels))
    counts = (rows * 16).long()

    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x.float())

    assert not alarms(setup(Counts(), counts, labels))


class Random(nn.Module):
    """Draws in eval mode as well, and averages over what is there, or over the padding too."""

    def __init__(self, masked: bool, dropout: bool) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(40, 32), nn.Linear(32, 3)
        self.masked, self.dropout = masked, dropout

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.words(tokens)
        hidden = nn.functional.dropout(hidden, 0.5, True) if self.dropout else hidden + torch.randn_like(hidden)
        there = (tokens != 0)[..., None] if self.masked else torch.ones_like(tokens)[..., None]
        return self.head((hidden * there).sum(1) / there.sum(1))


@pytest.mark.parametrize("dropout", [True, False], ids=["dropout", "noise"])
@pytest.mark.parametrize("masked", [True, False], ids=["masked", "unmasked"])
def test_noise_in_eval_mode_is_not_taken_for_the_effect_of_padding(masked: bool, dropout: bool) -> None:
    tokens, _, topics = padded_topics()
    torch.manual_seed(0)
    found = alarms(setup(Random(masked, dropout), tokens, topics))
    assert bool(found) is not masked, found


def own_shift(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Compute the loss of a language model from one entry of the batch."""
    ids = batch["ids"]
    return nn.functional.cross_entropy(model(ids)[..., :-1], ids[:, 1:], ignore_index=batch.get("ignored", -100))


def own_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    optimizer.zero_grad()
    loss = own_shift(model, batch, loss_fn)
    loss.backward()
    optimizer.step()
    return loss


@pytest.mark.parametrize("ignored", [0, -100], ids=["ignored", "counted"])
@pytest.mark.parametrize("how", ["compute_loss", "train_step"])
def test_padding_in_the_loss_of_any_program(how: str, ignored: int) -> None:
    torch.manual_seed(0)
    model = NextToken()
    parts: Any = {"compute_loss": own_shift} if how == "compute_loss" else {"train_step": own_step}
    optimizer = torch.optim.Adam(model.parameters())
    batch = {"ids": padded_chains()[:32], "ignored": ignored}
    found = alarms({"model": model, "loader": [batch], "optimizer": optimizer, **parts})
    assert bool(found) is (ignored != 0), found
    assert all("of the loss gradient comes from padding" in says for says in found)
