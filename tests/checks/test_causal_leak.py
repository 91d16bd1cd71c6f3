"""Failing examples that see the token they must predict."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.engine.session import Session
from nbdebug.evidence import PositionInfluence
from nbdebug.setup import Setup
from tests.checks.position_programs import LOOKS_AHEAD, SOUND
from tests.examples import failing_example
from tests.zoo.samples import chain_tokens, split
from tests.zoo.sequences import RecurrentLanguageModel, Tagger, TinyGpt, next_token_loss


def language() -> Any:
    """Return inputs, and the same one step later."""
    tokens = chain_tokens()
    return split(tokens[:, :-1], tokens[:, 1:], batch_size=32)[0]


class NoMask(TinyGpt):
    """A decoder without its mask."""

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Let every place see every other."""
        hidden = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        normed = self.norms[0](hidden)
        hidden = hidden + self.attention(normed, normed, normed, need_weights=False)[0]
        return self.head(self.norms[2](hidden + self.mlp(self.norms[1](hidden))))


@failing_example("causal-leak", where="attention")
def mask_forgotten() -> dict[str, Any]:
    """Attention sees the whole sequence."""
    return {"model": NoMask(), "loader": language(), "loss_fn": next_token_loss}
    # fixed: return {"model": TinyGpt(), "loader": language(), "loss_fn": next_token_loss}


@failing_example("causal-leak", where="recurrent")
def both_directions() -> dict[str, Any]:
    """A recurrent network that also reads backwards."""
    model = Tagger()
    model.head = nn.Linear(48, 12)
    return {"model": model, "loader": language(), "loss_fn": next_token_loss}


class Centered(nn.Module):
    """A convolution that looks one step ahead."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.window, self.head = nn.Embedding(12, 16), nn.Conv1d(16, 24, 3, padding=1), nn.Linear(24, 12)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the classes in dimension 1."""
        return self.head(self.window(self.words(tokens).transpose(1, 2)).relu().transpose(1, 2)).transpose(1, 2)


@failing_example("causal-leak", where="window")
def padded_on_both_sides() -> dict[str, Any]:
    """The window reaches into the future."""
    return {"model": Centered(), "loader": language(), "loss_fn": nn.CrossEntropyLoss()}


def result(**setup: Any) -> Any:
    """Run the check alone."""
    return nbdebug.diagnose(**setup, checks=["causal-leak"], progress=False).result("causal-leak")


def test_causal_models_are_clean() -> None:
    assert result(model=TinyGpt(), loader=language(), loss_fn=next_token_loss).status == "clean"
    found = result(model=RecurrentLanguageModel(), loader=language(), loss_fn=nn.CrossEntropyLoss())
    assert found.status == "clean"


def test_a_loss_that_shifts_is_understood() -> None:
    def shifting(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return next_token_loss(output[:, :-1], target[:, 1:])

    tokens = chain_tokens()[:, :15]
    loader = split(tokens, tokens.clone(), batch_size=32)[0]
    assert result(model=TinyGpt(), loader=loader, loss_fn=shifting).status == "clean"
    assert result(model=NoMask(), loader=loader, loss_fn=shifting).findings[0].where == "attention"


def test_tags_are_no_next_tokens() -> None:
    tokens = chain_tokens()
    loader = split(tokens, tokens % 3, batch_size=32)[0]
    assert result(model=Tagger(), loader=loader, loss_fn=next_token_loss).status == "skipped"


def test_reconstruction_is_no_leak() -> None:
    tokens = chain_tokens()[:, :15]
    loader = split(tokens, tokens.clone(), batch_size=32)[0]
    assert result(model=NoMask(), loader=loader, loss_fn=next_token_loss).status == "clean"


@pytest.mark.parametrize("name", LOOKS_AHEAD)
def test_programs_of_every_make_that_look_ahead(name: str) -> None:
    torch.manual_seed(0)
    found = result(**LOOKS_AHEAD[name]()).findings
    assert [finding.severity for finding in found] == ["bug"]
    assert found[0].evidence["share of targets that are the next step"] == 1.0


@pytest.mark.parametrize("name", ["sentence-autoencoder", "sentence-autoencoder-mean"])
def test_a_sentence_in_one_vector_is_no_leak(name: str) -> None:
    torch.manual_seed(0)
    session = Session(Setup(**SOUND[name]()))
    (stream,) = session.measure(PositionInfluence).streams
    assert stream.is_summary and stream.is_next_step and stream.target > 0.01
    assert result(**SOUND[name]()).status == "clean"
