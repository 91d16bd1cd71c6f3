"""A third round: what goes wrong in sequences, tables and the way samples are put together."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from tests.unseen import unseen
from tests.zoo.odd_tables import (
    ColumnTokens,
    columns_as_tokens,
)
from tests.zoo.odd_texts import (
    MASK,
    BracketModel,
    Dilated,
    Translator,
    hidden_words_told,
    language_of_brackets,
    next_value_of_a_wave,
    pointing_at_an_item,
    reversed_words,
    words_backwards,
)


def instead(made: dict[str, Any], model: nn.Module, lr: float = 3e-3) -> dict[str, Any]:
    """Put another model in, with an optimizer of its own."""
    return {**made, "model": model, "optimizer": torch.optim.Adam(model.parameters(), lr=lr)}


def collated(made: dict[str, Any], collate: Any) -> dict[str, Any]:
    """Put the samples together in another way."""
    loaders = {
        name: DataLoader(made[name].dataset, 32, shuffle=name == "loader", collate_fn=collate)
        for name in ("loader", "val_loader")
    }
    return {**made, **loaders}


class AcrossSamples(Translator):
    """Attention that is shared out among the samples."""

    def forward(self, source: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        """Return the scores of each next letter."""
        memory, last = self.encoder(self.words(source))
        told, _ = self.decoder(self.words(given), self.bridge(torch.cat([last[0], last[1]], -1)).tanh()[None])
        keys = self.keys(memory)
        scores = torch.einsum("bqd,bkd->bqk", told, keys).masked_fill((source == 0)[:, None], -1e9)
        return self.head(torch.cat([told, scores.softmax(0) @ keys], -1))


@unseen("attention-over-wrong-dim", "batch-mixing", "softmax-over-wrong-dim")
def shared_out_among_samples() -> dict[str, Any]:
    """softmax(0) where the memory is the last dimension."""
    return instead(words_backwards(), AcrossSamples(), 4e-3)


def unshifted(samples: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """The decoder is given what it has to say."""
    batch = reversed_words(samples)
    return {**batch, "given": batch["wanted"]}


@unseen("unshifted-targets", "target-leaks-into-inputs", "causal-leak")
def answer_as_the_beginning() -> dict[str, Any]:
    """Not shifted by one."""
    return collated(words_backwards(), unshifted)


class SeesAhead(BracketModel):
    """Attention with the padding masked and the future not."""

    causal, split_heads = False, True

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, labels: torch.Tensor | None = None) -> Any:
        """Return the loss and the logits."""
        x = self.tokens(input_ids) + self.places.weight[: input_ids.shape[1]]
        parts = self.qkv(self.norm(x)).chunk(3, -1)
        rows, length, width = x.shape
        if self.split_heads:
            q, k, v = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in parts)
        else:
            q, k, v = (part.reshape(rows, 4, length, width // 4) for part in parts)
        allowed = attention_mask[:, None, None].bool().expand(-1, 1, length, -1)
        if self.causal:
            allowed = allowed & torch.ones(length, length).tril().bool()
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        x = x + self.proj(mixed.transpose(1, 2).flatten(2))
        logits = self.head(x + self.mlp(x))
        loss = None if labels is None else F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return {"loss": loss, "logits": logits}


class HeadsByReshape(SeesAhead):
    """Heads cut out of the memory as it lies, not out of the features."""

    causal, split_heads = True, False


@unseen("causal-leak")
def heads_by_reshape() -> dict[str, Any]:
    """`reshape(B, H, T, d)` instead of a transpose: places and heads are mixed, and the mask holds nothing back."""
    return instead(language_of_brackets(), HeadsByReshape())


def masked_twice(samples: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """One chance for the inputs, another one for the targets."""
    tokens = torch.stack(samples)
    return (
        tokens.masked_fill(torch.rand(tokens.shape) < 0.25, MASK),
        tokens.masked_fill(torch.rand(tokens.shape) >= 0.25, -100),
    )


@unseen("visible-tokens-predicted", "target-leaks-into-inputs", "causal-leak")
def other_words_hidden() -> dict[str, Any]:
    """Three of four words that are asked for can be read off."""
    return collated(hidden_words_told(), masked_twice)


def sorted_by_length(samples: list[Any]) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Sort the lists for packing; the answers stay where they were."""
    rows = sorted((rows for rows, _ in samples), key=len, reverse=True)
    return rows, torch.tensor([place for _, place in samples])


@unseen("labels-unrelated-to-inputs", "worse-than-baseline", "non-finite-loss")
def lists_sorted_without_answers() -> dict[str, Any]:
    """Half of the batch was sorted."""
    return collated(pointing_at_an_item(), sorted_by_length)


class BothSides(Dilated):
    """Convolutions that are filled up behind instead of before."""

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        """Return the next value at each place."""
        x = self.first(wave)
        for layer in self.layers:
            x = x + torch.tanh(layer(F.pad(x, (0, layer.dilation[0]))))
        return self.head(x)


@unseen("causal-leak", "target-leaks-into-inputs")
def filled_up_behind() -> dict[str, Any]:
    """The future is seen, and the past is not."""
    return instead(next_value_of_a_wave(), BothSides())


class SameKindTwice(ColumnTokens):
    """A column that was copied and not changed."""

    def forward(self, features: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """Return one logit, flat."""
        kinds, numbers = features
        return super().forward((kinds[:, :1].expand(-1, 2), numbers))


@unseen("inputs-ignored", where="batch[0][0]")
def first_kind_twice() -> dict[str, Any]:
    """`kinds[:, 0]` for both embeddings."""
    return instead(columns_as_tokens(), SameKindTwice(), 2e-3)
