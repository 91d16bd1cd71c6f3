"""Failing examples whose attention sees the padding and not the words."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.checks.position_programs import INVERTED, SOUND
from tests.examples import failing_example
from tests.zoo.samples import topic_tokens


class MaskedWords(nn.Module):
    """Takes True for what counts."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(40, 32), nn.Linear(32, 3)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        hidden = x + self.attention(x, x, x, key_padding_mask=tokens != 0)[0]  # fixed: key_padding_mask=tokens == 0
        return self.head(hidden.mean(1))


def topics(model: nn.Module) -> dict[str, Any]:
    tokens, _, kinds = topic_tokens()
    loader = DataLoader(TensorDataset(tokens, kinds), 32, shuffle=True)
    return {"model": model, "loader": loader, "loss_fn": nn.CrossEntropyLoss()}


@failing_example("inverted-attention-mask", where="attention")
def words_as_padding() -> dict[str, Any]:
    """`key_padding_mask` is True for what is not to be seen."""
    return topics(MaskedWords())


class Pooled(nn.Module):
    """Asks one question of all words, with the meaning of the mask reversed."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.query, self.head = nn.Embedding(40, 32), nn.Linear(32, 32), nn.Linear(32, 3)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        found = F.scaled_dot_product_attention(self.query(x), x, x, attn_mask=(tokens == 0)[:, None])
        return self.head((x + found).mean(1))


@failing_example("inverted-attention-mask")
def padding_as_words() -> dict[str, Any]:
    """A boolean `attn_mask` is True for what is to be seen."""
    return topics(Pooled())


def findings(setup: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    report = nbdebug.diagnose(**setup, checks=["inverted-attention-mask"], progress=False)
    assert report.results[0].status != "crashed", report.results
    return report.findings


SLOW = {"t5": [pytest.mark.slow]}


@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW.get(name, [])) for name in INVERTED])
def test_masks_of_every_make_are_found(name: str) -> None:
    (found,) = findings(INVERTED[name]())
    assert found.severity == "bug" and found.evidence["share of padding seen"] > 0.98


@pytest.mark.parametrize("name", ["mha", "encoder", "sdpa", "written-out", "padded-bert", "padded-gpt2"])
def test_masks_that_hide_padding_are_clean(name: str) -> None:
    assert not findings(SOUND[name]())


class Unmasked(MaskedWords):
    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        return self.head((x + self.attention(x, x, x)[0]).mean(1))


def test_attention_without_a_mask_is_another_problem() -> None:
    assert not findings(topics(Unmasked()))


class MeanOfWords(nn.Module):
    """Averages the words of a text, without attention; `keep` chooses the tokens that count."""

    def __init__(self, keep: Any, fill: bool = False) -> None:
        super().__init__()
        self.words, self.mix, self.head = nn.Embedding(40, 32), nn.Linear(32, 32), nn.Linear(32, 3)
        self.keep, self.fill = keep, fill

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        kept = self.keep(tokens)[..., None]
        x = self.words(tokens) + torch.linspace(0, 1, tokens.shape[1])[:, None]
        x = self.mix(x).masked_fill(~kept, 0.0) if self.fill else self.mix(x) * kept
        return self.head(x.sum(1) / kept.sum(1).clamp(min=1))


@failing_example("inverted-attention-mask", where="model")
def padding_is_averaged() -> dict[str, Any]:
    """The mean is taken over the padding."""
    return topics(MeanOfWords(lambda tokens: tokens == 0))


@failing_example("inverted-attention-mask", where="model")
def words_are_filled() -> dict[str, Any]:
    """`masked_fill` fills where the mask is True, and is given the words."""
    return topics(MeanOfWords(lambda tokens: tokens == 0, fill=True))


class MaskedPositions(nn.Module):
    """Multiplies positions with a mask, and adds them to embeddings that are zero at padding."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(40, 32, padding_idx=0), nn.Linear(32, 3)
        self.register_buffer("waves", torch.randn(1, 64, 32))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        padding = (tokens == 0)[..., None]
        x = (self.words(tokens) + self.waves[:, : tokens.shape[1]] * padding) * ~padding
        return self.head(x.sum(1) / (~padding).sum(1))


@failing_example("inverted-attention-mask", where="model")
def positions_of_padding_alone() -> dict[str, Any]:
    """Positions are zero at every word."""
    return topics(MaskedPositions())


class FilledUp(MeanOfWords):
    """Exchanges padding for a vector that is learned for each position."""

    def __init__(self) -> None:
        super().__init__(lambda tokens: tokens != 0)
        self.filler = nn.Parameter(torch.randn(64, 32))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        kept = self.keep(tokens)[..., None]
        x = self.words(tokens) * kept + self.filler[: tokens.shape[1]] * ~kept
        return self.head(self.mix(x).mean(1))


@pytest.mark.parametrize(
    "make",
    [
        lambda: MeanOfWords(lambda tokens: tokens != 0),
        lambda: MeanOfWords(lambda tokens: tokens != 0, fill=True),
        FilledUp,
    ],
    ids=["product", "fill", "exchanged"],
)
def test_masks_that_keep_words_are_fine(make: Any) -> None:
    assert not findings(topics(make()))
