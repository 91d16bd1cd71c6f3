"""Failing examples whose attention weights sum to 1 over the wrong dimension."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from tests.checks.position_programs import SOUND, WRONG_DIM, X, Y, pair_loss, program, texts
from tests.examples import failing_example
from tests.zoo.samples import topic_tokens
from tests.zoo.sequences import digit_sequences


class RowAttention(nn.Module):
    """Attention between the rows of a digit, with the average of what it finds."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.head = nn.Linear(8, 96), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.transpose(1, 2) / 32**0.5
        weights = scores.softmax(dim=1)  # fixed: weights = scores.softmax(dim=-1)
        return self.head((weights @ v).mean(1))


def digits(model: nn.Module) -> dict[str, Any]:
    rows, labels = digit_sequences()
    return {"model": model, "loader": [(rows[:64], labels[:64])], "loss_fn": nn.CrossEntropyLoss()}


@failing_example("attention-over-wrong-dim")
def queries_compete() -> dict[str, Any]:
    """A softmax over the queries."""
    return digits(RowAttention())


class ByEinsum(nn.Module):
    """Heads, and a softmax without a dimension of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.qkv, self.head = nn.Embedding(40, 32), nn.Linear(32, 96), nn.Linear(32, 3)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (4, 8)) for part in self.qkv(self.words(tokens)).chunk(3, -1))
        weights = (torch.einsum("bqhd,bkhd->bhqk", q, k) / 8**0.5).softmax(1)
        return self.head(torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(2).mean(1))


@failing_example("attention-over-wrong-dim")
def heads_compete() -> dict[str, Any]:
    """A softmax over the heads."""
    tokens, _, kinds = topic_tokens()
    return {"model": ByEinsum(), "loader": [(tokens[:32], kinds[:32])], "loss_fn": nn.CrossEntropyLoss()}


def findings(setup: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    report = nbdebug.diagnose(**setup, checks=["attention-over-wrong-dim"], progress=False)
    assert report.results[0].status != "crashed", report.results
    return report.findings


@pytest.mark.parametrize("name", WRONG_DIM)
def test_every_wrong_dimension_is_found(name: str) -> None:
    assert [finding.severity for finding in findings(WRONG_DIM[name]())] == ["suspect"]


class Slots(nn.Module):
    """Slots compete for positions, and their weights are normalized once more over those."""

    def __init__(self) -> None:
        super().__init__()
        self.slots, self.k, self.head = nn.Linear(8, 4 * 16), nn.Linear(8, 16), nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        k, slots = self.k(x), self.slots(x.mean(1)).unflatten(-1, (4, 16))
        weights = (slots @ k.transpose(1, 2) / 4).softmax(1)
        return self.head(((weights / weights.sum(-1, keepdim=True)) @ k).mean(1))


class BothWays(nn.Module):
    """Each side attends to the other by the same scores."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other, self.head = nn.Linear(8, 16), nn.Linear(8, 16), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = self.one(x[:, :4]), self.other(x[:, 4:])
        scores = torch.bmm(a, b.transpose(1, 2)) / 4
        to_b = torch.bmm(scores.softmax(2), b)
        to_a = torch.bmm(scores.softmax(1).transpose(1, 2), a)
        return self.head(torch.cat([to_b, to_a], -1).mean(1))


class Linearized(nn.Module):
    """Attention in the other order: keys are normalized over positions, queries over features."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.head = nn.Linear(8, 48), nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        context = k.softmax(1).transpose(1, 2) @ v
        return self.head((q.softmax(-1) @ context).mean(1))


class Assigned(nn.Module):
    """Positions are assigned to clusters, whose sums are taken."""

    def __init__(self) -> None:
        super().__init__()
        self.clusters, self.head = nn.Linear(8, 4), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head((self.clusters(x).softmax(-1).transpose(1, 2) @ x).flatten(1))


class Capsules(nn.Module):
    """Parts are routed to the wholes that agree with them: each part is shared out among wholes."""

    def __init__(self) -> None:
        super().__init__()
        self.votes, self.head = nn.Linear(8, 4 * 6), nn.Linear(24, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        votes = self.votes(x).unflatten(-1, (4, 6))
        scores = votes.new_zeros(votes.shape[:3])
        for _ in range(3):
            wholes = torch.einsum("bij,bijd->bjd", scores.softmax(2), votes).tanh()
            scores = scores + torch.einsum("bijd,bjd->bij", votes, wholes)
        return self.head(wholes.flatten(1))


@pytest.mark.parametrize("kind", [Capsules, Slots, BothWays, Linearized, Assigned])
def test_other_softmaxes_are_no_attention_or_right(kind: Any) -> None:
    assert not findings(digits(kind()))


@pytest.mark.parametrize("name", ["next-tokens", "gpt2-eager", "written-out", "tiny-gpt"])
def test_attention_over_keys_is_clean(name: str) -> None:
    assert not findings(SOUND[name]())


def test_a_transposed_score_is_followed() -> None:
    class KeysFirst(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.head = nn.Embedding(50, 32), nn.Linear(32, 50)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            x = self.words(tokens)
            weights = (x @ x.mT).view(len(x), 1, 12, 12).softmax(2)  # of (keys, queries)
            return self.head(weights.squeeze(1).permute(0, 2, 1) @ x)

    assert not findings(program(KeysFirst(), X, Y, loss_fn=pair_loss))
    assert not findings(program(KeysFirst(), texts(), texts(), loss_fn=pair_loss))


class AttentivePooling(nn.Module):
    """Weighs the rows of a digit by one score each."""

    def __init__(self, dim: int, by_product: bool = False) -> None:
        super().__init__()
        self.score, self.head, self.dim, self.by_product = nn.Linear(8, 1), nn.Linear(8, 10), dim, by_product

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = self.score(x).softmax(self.dim)
        pooled = (weights.transpose(1, 2) @ x)[:, 0] if self.by_product else (weights * x).sum(dim=1)
        return self.head(pooled)


@failing_example("attention-over-wrong-dim", where="model")
def pooled_with_weights_of_one() -> dict[str, Any]:
    """A softmax over the only score of each row."""
    return digits(AttentivePooling(-1))


@failing_example("attention-over-wrong-dim", where="model")
def product_with_weights_of_one() -> dict[str, Any]:
    """The same, summed by a matrix product."""
    return digits(AttentivePooling(2, by_product=True))


class OneExpert(nn.Module):
    """A mixture that is configured to have a single component, and attention over a single token."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.expert, self.head = nn.Linear(64, 1), nn.Linear(64, 32), nn.Linear(32, 10)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.flatten(1)
        mixed = (self.gate(x).softmax(-1)[..., None] * self.expert(x)[:, None]).sum(1)
        token = mixed[:, None]
        scores = token @ token.transpose(1, 2)
        return self.head((scores.softmax(-1) @ token)[:, 0] + self.attention(token, token, token)[0][:, 0])


@pytest.mark.parametrize("make", [lambda: AttentivePooling(1), lambda: AttentivePooling(1, True), OneExpert])
def test_weights_over_what_is_summed_are_fine(make: Any) -> None:
    assert not findings(digits(make()))
