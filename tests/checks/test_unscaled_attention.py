"""Failing examples whose attention scores grow with the size of a head."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import nbdebug
from tests.checks.position_programs import SOUND, UNSCALED
from tests.examples import failing_example
from tests.zoo.samples import topic_tokens


class WordAttention(nn.Module):
    """Attention between the words of a text."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.embed, self.norm = nn.Embedding(40, 96), nn.LayerNorm(96)
        self.q, self.k, self.head, self.scale = nn.Linear(96, 96), nn.Linear(96, 96), nn.Linear(96, 3), scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(self.embed(x))
        weights = (self.q(h) @ self.k(h).transpose(1, 2)).softmax(-1)
        # fixed: weights = (self.q(h) @ self.k(h).transpose(1, 2) / 96**0.5).softmax(-1)
        return self.head((weights @ h).mean(1))


def topics(model: nn.Module) -> dict[str, Any]:
    tokens, _, kinds = topic_tokens()
    return {"model": model, "loader": [(tokens[:64], kinds[:64])], "loss_fn": nn.CrossEntropyLoss()}


@failing_example("unscaled-attention")
def scale_forgotten() -> dict[str, Any]:
    """The product of queries and keys goes into the softmax as it is."""
    return topics(WordAttention())


class Fused(WordAttention):
    """The scale is set to 1, and the queries are not scaled either."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(self.embed(x))
        return self.head(F.scaled_dot_product_attention(self.q(h), self.k(h), h, scale=self.scale).mean(1))


@failing_example("unscaled-attention")
def scale_of_one() -> dict[str, Any]:
    """`scale=1.0` without a scale elsewhere."""
    return topics(Fused())


class ScaledQueries(WordAttention):
    """The scale is in the queries."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(self.embed(x))
        q = self.q(h) * 96**-0.5
        return self.head(F.scaled_dot_product_attention(q, self.k(h), h, scale=1.0).mean(1))


class Normalized(WordAttention):
    """Cosines with a learned temperature."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(self.embed(x))
        q, k = F.normalize(self.q(h), dim=-1), F.normalize(self.k(h), dim=-1)
        return self.head(((q @ k.mT) * 10).softmax(-1).matmul(h).mean(1))


def findings(setup: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    report = nbdebug.diagnose(**setup, checks=["unscaled-attention"], progress=False)
    assert report.results[0].status != "crashed", report.results
    return report.findings


@pytest.mark.parametrize("name", UNSCALED)
def test_large_scores_are_found(name: str) -> None:
    (found,) = findings(UNSCALED[name]())
    assert found.evidence["standard deviation of a query's scores"] > 2


@pytest.mark.parametrize("model", [ScaledQueries(), Normalized(), Fused(scale=96**-0.5)], ids=["q", "cosine", "fused"])
def test_scores_that_are_scaled_elsewhere_are_clean(model: nn.Module) -> None:
    assert not findings(topics(model))


@pytest.mark.parametrize("name", ["next-tokens", "gpt2", "small-heads-without-scale", "written-out", "mha"])
def test_ordinary_attention_is_clean(name: str) -> None:
    assert not findings(SOUND[name]())


@pytest.mark.slow
def test_a_model_made_to_do_without_a_scale_is_clean() -> None:
    assert not findings(SOUND["t5"]())
