"""Failing examples whose cache changes what they say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import nbdebug
from tests.checks.position_programs import labeled, library_model, program, texts
from tests.examples import failing_example
from tests.zoo.samples import chain_tokens


@dataclass
class Output:
    """What a model of a library returns."""

    logits: torch.Tensor
    past_key_values: Any
    loss: torch.Tensor | None = None


class CachedGpt(nn.Module):
    """A decoder of one layer that caches its keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 32), nn.Embedding(32, 32)
        self.qkv, self.head = nn.Linear(32, 96), nn.Linear(32, 50)

    def begin(self, past: Any) -> int:
        """Return how many positions are cached."""
        return 0  # fixed: return 0 if past is None else past[0].shape[1]

    def forward(
        self, input_ids: torch.Tensor, labels: Any = None, past_key_values: Any = None, use_cache: bool = False
    ) -> Output:
        """Attend to what is cached and to what came before."""
        length = input_ids.shape[1]
        cached = 0 if past_key_values is None else past_key_values[0].shape[1]
        x = self.words(input_ids) + self.places(self.begin(past_key_values) + torch.arange(length))
        q, k, v = self.qkv(x).chunk(3, -1)
        if past_key_values is not None:
            k, v = torch.cat([past_key_values[0], k], 1), torch.cat([past_key_values[1], v], 1)
        allowed = torch.ones(length, cached + length).tril(cached).bool()
        logits = self.head(x + F.scaled_dot_product_attention(q, k, v, attn_mask=allowed))
        loss = None if labels is None else F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return Output(logits, (k, v), loss)


def model_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Read `.loss`."""
    loss: torch.Tensor = model(**batch).loss
    return loss


@failing_example("cached-decoding-differs", where="model")
def positions_begin_again() -> dict[str, Any]:
    """The positions of the second part begin at 0."""
    ids = chain_tokens(32)
    return {"model": CachedGpt(), "loader": [{"input_ids": ids, "labels": ids}], "compute_loss": model_loss}


class Fixed(CachedGpt):
    """Counts on from what is cached."""

    def begin(self, past: Any) -> int:
        return 0 if past is None else int(past[0].shape[1])


class Forgetful(Fixed):
    """Passes on the keys of the last part alone."""

    def forward(self, input_ids: torch.Tensor, *args: Any, past_key_values: Any = None, **kwargs: Any) -> Output:
        found = super().forward(input_ids, *args, past_key_values=past_key_values, **kwargs)
        k, v = found.past_key_values
        found.past_key_values = (k[:, -input_ids.shape[1] :], v[:, -input_ids.shape[1] :])
        return found


@failing_example("cached-decoding-differs", where="model")
def only_the_last_part_is_cached() -> dict[str, Any]:
    """The third token does not see the first."""
    ids = chain_tokens(32)
    return {"model": Forgetful(), "loader": [{"input_ids": ids, "labels": ids}], "compute_loss": model_loss}


def result(setup: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    found = nbdebug.diagnose(**setup, checks=["cached-decoding-differs"], progress=False).results[0]
    assert found.status != "crashed", found
    return found


def test_a_cache_that_is_right_is_clean() -> None:
    assert result(labeled(Fixed())).status == "clean"


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_models_of_a_library_are_clean(name: str) -> None:
    assert result(labeled(library_model(name))).status == "clean"


@pytest.mark.parametrize("name", ["bert", "t5"])
def test_models_that_cannot_be_decoded_in_parts_are_skipped(name: str) -> None:
    assert result(labeled(library_model(name))).status in ("skipped", "clean")


def test_a_library_model_with_wrong_positions_is_found() -> None:
    import transformers

    class Wrong(transformers.GPT2LMHeadModel):
        def forward(self, input_ids: Any = None, past_key_values: Any = None, **given: Any) -> Any:
            given["position_ids"] = torch.arange(input_ids.shape[1])[None]
            return super().forward(input_ids, past_key_values=past_key_values, **given)

    assert result(labeled(Wrong(library_model("gpt2").config))).status == "found"


def test_models_without_a_cache_are_skipped() -> None:
    model = nn.Sequential(nn.Embedding(50, 8), nn.Linear(8, 50))
    loss = lambda output, target: F.cross_entropy(output.transpose(1, 2), target)  # noqa: E731
    assert "past_key_values" in result(program(model, texts(), texts(), loss_fn=loss)).reason
