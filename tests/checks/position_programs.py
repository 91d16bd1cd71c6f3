"""Programs on sequences of every make, sound and with one fault, for the checks of positions and of attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.zoo.odd_texts import Translator, hidden_words_told, told_loss, words_backwards
from tests.zoo.samples import chain_tokens, digit_rows, seeded, split
from tests.zoo.sequences import Tagger, TinyGpt, next_token_loss
from tests.zoo.tutorial_texts import Forecaster, waves

Program = dict[str, Any]


def program(model: nn.Module, *columns: Any, **parts: Any) -> Program:
    """Return a set-up whose batches are rows of these columns, under names where they have any."""
    rows: Any = list(zip(*columns, strict=True)) if not isinstance(columns[0], dict) else columns[0]
    if isinstance(rows, dict):
        names, values = list(rows), list(rows.values())
        loader: Any = [dict(zip(names, (v[i : i + 16] for v in values), strict=True)) for i in (0, 16, 32)]
    else:
        loader = [tuple(c[i : i + 16] for c in columns) for i in (0, 16, 32)]
    return {"model": model, "loader": loader, "optimizer": torch.optim.Adam(model.parameters()), **parts}


def own_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Return the loss of a model that computes it."""
    found = model(**batch)
    loss: torch.Tensor = found[1] if isinstance(found, tuple) else found.loss
    return loss


def own_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """Take a step that alone knows the loss."""
    model.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(batch["x"]).flatten(0, 1), batch["y"].flatten())
    loss.backward()
    optimizer.step()
    return loss


def texts(length: int = 12) -> torch.Tensor:
    """Return tokens from 3 to 49."""
    return torch.randint(3, 50, (48, length), generator=seeded(3))


def padded_texts(length: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    """Return tokens that end in zeros, and which of them are words."""
    lengths = torch.randint(4, length - 1, (48, 1), generator=seeded(4))
    there = torch.arange(length) < lengths
    return texts(length) * there, there


def library_model(name: str, **changes: Any) -> nn.Module:
    """Return an untrained model of transformers."""
    import transformers as hf

    sizes = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4} | changes
    if name == "gpt2":
        ends = {"bos_token_id": 1, "eos_token_id": 2}
        return hf.GPT2LMHeadModel(
            hf.GPT2Config(vocab_size=50, n_positions=32, n_embd=32, n_layer=2, n_head=4, **ends, **changes)
        )
    if name == "t5":
        return hf.T5ForConditionalGeneration(
            hf.T5Config(vocab_size=50, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0)
        )
    if name == "bert":
        return hf.BertForMaskedLM(hf.BertConfig(intermediate_size=64, **sizes))
    return hf.LlamaForCausalLM(hf.LlamaConfig(intermediate_size=64, **sizes))


class OwnAttention(nn.Module):
    """A causal language model with attention written out, whose parts can be exchanged."""

    def __init__(
        self, dim: int = -1, scale: bool = True, diagonal: int = 1, width: int = 32, heads: int = 1, offset: int = 1
    ) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, width), nn.Parameter(0.1 * torch.randn(64, width))
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 50)
        self.dim, self.scale, self.diagonal, self.heads, self.offset = dim, scale, diagonal, heads, offset

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor | None = None) -> Any:
        """Return the logits, and the loss where there are labels."""
        rows, length = input_ids.shape
        x = self.words(input_ids) + self.places[:length]
        parts = (layer(self.norm(x)).view(rows, length, self.heads, -1) for layer in (self.q, self.k, self.v))
        q, k, v = (part.transpose(1, 2) for part in parts)
        scores = q @ k.transpose(-2, -1)
        if self.scale:
            scores = scores / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(torch.ones(length, length).triu(self.diagonal).bool(), float("-inf"))
        weights = F.softmax(scores, dim=self.dim).nan_to_num(0)
        logits = self.head(x + (weights @ v).transpose(1, 2).flatten(2))
        if labels is None:
            return logits
        shift = self.offset
        return logits, F.cross_entropy(logits[:, : length - shift].flatten(0, 1), labels[:, shift:].flatten())


class Convolutions(nn.Module):
    """A convolution over the past, padded on both sides and cut at one end."""

    def __init__(self, cut: str) -> None:
        super().__init__()
        self.words, self.window, self.head = nn.Embedding(50, 16), nn.Conv1d(16, 24, 3, padding=2), nn.Linear(24, 50)
        self.cut = cut

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return (samples, positions, words)."""
        x = self.window(self.words(tokens).transpose(1, 2))
        x = x[..., :-2] if self.cut == "behind" else x[..., 2:] if self.cut == "before" else x[..., 1:-1]
        return self.head(x.relu().transpose(1, 2))


class Recurrent(nn.Module):
    """A recurrent network with one prediction per position, or one per sequence."""

    def __init__(self, words: int = 50, out: int = 50, last: bool = False, bidirectional: bool = False) -> None:
        super().__init__()
        self.words = nn.Embedding(words, 16)
        self.rnn = nn.LSTM(16, 24, batch_first=True, bidirectional=bidirectional)
        self.head, self.last = nn.Linear(48 if bidirectional else 24, out), last

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return (samples, positions, words), or (samples, classes)."""
        states = self.rnn(self.words(tokens))[0]
        return self.head(states[:, -1] if self.last else states)


class SentenceAutoencoder(nn.Module):
    """Encodes a sentence in one vector, and decodes it while it is told the beginning."""

    def __init__(self, latent: str = "state") -> None:
        super().__init__()
        self.words, self.encoder = nn.Embedding(50, 16), nn.GRU(16, 24, batch_first=True, bidirectional=True)
        self.code, self.decoder = nn.Linear(48, 24), nn.GRU(16, 24, batch_first=True)
        self.head, self.latent = nn.Linear(24, 50), latent

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Score the next words."""
        states, last = self.encoder(self.words(tokens))
        code = states.mean(1) if self.latent == "mean" else torch.cat([last[0], last[1]], -1)
        return self.head(self.decoder(self.words(tokens), self.code(code).tanh()[None])[0])


class Denoiser(nn.Module):
    """An encoder that sees all positions."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 32), nn.Parameter(0.1 * torch.randn(12, 32))
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.head = nn.Linear(32, 50)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Score the words at each position."""
        return self.head(self.layer(self.words(tokens) + self.places))


class WithoutTheFirst(Denoiser):
    """An autoencoder whose first output stands for the whole sentence, and is not compared."""

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> Any:  # type: ignore[override]
        """Return logits and loss."""
        logits = super().forward(input_ids)
        return logits, F.cross_entropy(logits[:, 1:].flatten(0, 1), labels[:, 1:].flatten())


class OneTooLate(OwnAttention):
    """Compares each output with the token that it has just read."""

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor | None = None) -> Any:
        """Return logits and loss."""
        logits = super().forward(input_ids)
        return logits, F.cross_entropy(logits[:, 1:].flatten(0, 1), input_ids[:, 1:].flatten())


class Prefix(OwnAttention):
    """A prefix of four words is seen by all, and does not count."""

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor | None = None) -> Any:
        """Return logits and loss."""
        length = input_ids.shape[1]
        q, k, v = (layer(x := self.words(input_ids) + self.places[:length]) for layer in (self.q, self.k, self.v))
        allowed = torch.ones(length, length).tril().bool()
        allowed[:, :4] = True
        logits = self.head(x + F.scaled_dot_product_attention(q, k, v, attn_mask=allowed))
        return logits, F.cross_entropy(logits[:, 3:-1].flatten(0, 1), input_ids[:, 4:].flatten())


class MaskedColumns(nn.Module):
    """Each output depends on the inputs before it alone, as in a masked autoencoder of densities."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(width, width) / 4), nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Predict each column."""
        return F.linear(x, self.weight.tril(-1), self.bias).tanh()


class Padded(nn.Module):
    """A classifier of padded texts whose attention is told what is padding, or the reverse."""

    def __init__(self, kind: str, inverted: bool, classes: int = 3) -> None:
        super().__init__()
        self.words, self.kind, self.inverted = nn.Embedding(50, 32), kind, inverted
        self.mha = nn.MultiheadAttention(32, 4, batch_first=True)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 1, enable_nested_tensor=False
        )
        self.q, self.k, self.v = (nn.Linear(32, 32) for _ in range(3))
        self.head = nn.Linear(32, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Attend, then average over the words."""
        x, empty = self.words(tokens), tokens == 0
        masked = ~empty if self.inverted else empty
        if self.kind == "mha":
            h = x + self.mha(x, x, x, key_padding_mask=masked)[0]
        elif self.kind == "encoder":
            h = self.encoder(x, src_key_padding_mask=masked)
        elif self.kind == "sdpa":
            h = x + F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x), attn_mask=~masked[:, None])
        else:
            scores = torch.einsum("bqd,bkd->bqk", self.q(x), self.k(x)) * 32**-0.5
            weights = (scores + masked[:, None] * -1e9).softmax(-1)
            h = x + torch.einsum("bqk,bkd->bqd", weights, self.v(x))
        return self.head((h * ~empty[..., None]).sum(1) / (~empty).sum(1, keepdim=True))


def shifted_pairs() -> tuple[torch.Tensor, torch.Tensor]:
    """Return tokens and the next ones."""
    return texts(13)[:, :-1], texts(13)[:, 1:]


def pair_loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross-entropy over all positions."""
    return F.cross_entropy(output.flatten(0, 1), target.flatten())


def labeled(model: nn.Module, **more: torch.Tensor) -> Program:
    """Return a model that gets labels which are its tokens."""
    return program(model, {"input_ids": texts(), "labels": texts(), **more}, compute_loss=own_loss)


def own_words(samples: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return words that a translator only has to repeat."""
    source = torch.stack(samples)
    begun = torch.cat([torch.full_like(source[:, :1], 1), source[:, :-1]], 1)
    return {"source": source, "given": begun, "wanted": source}


def repeated(unshifted: bool) -> Program:
    """Return a decoder that is told its own output, shifted or not."""
    batch = own_words(list(torch.randint(3, 10, (48, 8), generator=seeded(5))))
    batch["source"] = batch["source"].flip(1)
    if unshifted:
        batch["given"] = batch["wanted"]
    return program(Translator(), batch, compute_loss=told_loss)


def pre_shifted() -> Program:
    """Labels that the data have shifted, for a model that shifts them."""
    ids = texts(13)
    return program(library_model("llama"), {"input_ids": ids[:, :-1], "labels": ids[:, 1:]}, compute_loss=own_loss)


def forecast(window: int, begin: int, ahead: int, named: bool = True) -> Program:
    """Return a window of a series and what follows, or what begins within the window."""
    series = waves(48)
    x, y = series[:, :window, None], series[:, begin : begin + ahead]
    if not named:
        return program(Forecaster(ahead), x, y, loss_fn=nn.MSELoss())

    def error(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        return F.mse_loss(model(batch["past"]), batch["future"])

    return program(Forecaster(ahead), {"past": x, "future": y}, compute_loss=error)


def several_ahead() -> Program:
    """Two heads, for the next token and the one behind it."""

    class Two(Recurrent):
        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return super().forward(tokens).unflatten(-1, (2, 50))

    def both(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        scores, ids = model(batch[0]), batch[0]
        first = F.cross_entropy(scores[:, :-1, 0].flatten(0, 1), ids[:, 1:].flatten())
        return 0.3 * first + F.cross_entropy(scores[:, :-2, 1].flatten(0, 1), ids[:, 2:].flatten())

    return program(Two(out=100), texts(), compute_loss=both)


def padded_library_texts(name: str, inverted: bool = False) -> Program:
    """Padded texts for a model of transformers."""
    ids, there = padded_texts()
    mask = ~there if inverted else there
    labels = ids.masked_fill(~there, -100)
    return program(
        library_model(name), {"input_ids": ids, "attention_mask": mask.long(), "labels": labels}, compute_loss=own_loss
    )


def classified(model: nn.Module) -> Program:
    """Padded texts of three classes."""
    ids, _ = padded_texts()
    return program(model, ids, ids[:, 0] % 3, loss_fn=nn.CrossEntropyLoss())


X, Y = shifted_pairs()

UNSHIFTED: dict[str, Callable[[], Program]] = {
    "pairs-gpt": lambda: program(OwnAttention(), texts(), texts(), loss_fn=pair_loss),
    "pairs-lstm": lambda: program(Recurrent(), texts(), texts(), loss_fn=pair_loss),
    "step-convolutions": lambda: program(Convolutions("behind"), {"x": texts(), "y": texts()}, train_step=own_step),
    "own-loss-without-a-shift": lambda: labeled(OwnAttention(offset=0)),
    "own-loss-cut-at-the-wrong-end": lambda: labeled(OneTooLate()),
    "decoder-told-the-answer": lambda: repeated(unshifted=True),
    "llama-shifts-again": pre_shifted,
    "answer-in-the-window": lambda: forecast(26, 25, 1),
    "horizon-in-the-window": lambda: forecast(26, 22, 4),
}
LOOKS_AHEAD: dict[str, Callable[[], Program]] = {
    "mask-without-its-diagonal": lambda: program(OwnAttention(diagonal=2), X, Y, loss_fn=pair_loss),
    "no-mask": lambda: labeled(OwnAttention(diagonal=64)),
    "convolution-cut-before": lambda: program(Convolutions("before"), X, Y, loss_fn=pair_loss),
    "convolution-cut-on-both-sides": lambda: program(Convolutions("both"), {"x": X, "y": Y}, train_step=own_step),
    "both-directions": lambda: program(Recurrent(bidirectional=True), X, Y, loss_fn=pair_loss),
    "softmax-over-queries": lambda: program(OwnAttention(dim=-2, diagonal=64), X, Y, loss_fn=pair_loss),
    "bert-asked-for-the-next": lambda: program(
        library_model("bert"), {"input_ids": X, "labels": Y}, compute_loss=own_loss
    ),
    "encoder-without-a-mask": lambda: program(Denoiser(), X, Y, loss_fn=pair_loss),
}
INVERTED: dict[str, Callable[[], Program]] = {
    "mha": lambda: classified(Padded("mha", True)),
    "encoder": lambda: classified(Padded("encoder", True)),
    "sdpa": lambda: classified(Padded("sdpa", True)),
    "written-out": lambda: classified(Padded("own", True)),
    "bert": lambda: padded_library_texts("bert", inverted=True),
    "t5": lambda: padded_library_texts("t5", inverted=True),
}
WRONG_DIM: dict[str, Callable[[], Program]] = {
    "queries": lambda: program(OwnAttention(dim=-2), X, Y, loss_fn=pair_loss),
    "heads": lambda: program(OwnAttention(dim=1, heads=4), X, Y, loss_fn=pair_loss),
    "samples": lambda: labeled(OwnAttention(dim=0)),
}
UNSCALED: dict[str, Callable[[], Program]] = {
    "one-head": lambda: program(OwnAttention(scale=False, width=64), X, Y, loss_fn=pair_loss),
    "two-heads": lambda: program(OwnAttention(scale=False, width=128, heads=2), X, Y, loss_fn=pair_loss),
    "own-loss": lambda: labeled(OwnAttention(scale=False, width=96)),
}
SOUND: dict[str, Callable[[], Program]] = {
    "next-tokens": lambda: program(OwnAttention(heads=4), X, Y, loss_fn=pair_loss),
    "loss-that-shifts": lambda: labeled(OwnAttention()),
    "step": lambda: program(Convolutions("behind"), {"x": X, "y": Y}, train_step=own_step),
    "gpt2": lambda: labeled(library_model("gpt2")),
    "gpt2-eager": lambda: labeled(library_model("gpt2", attn_implementation="eager")),
    "llama": lambda: labeled(library_model("llama")),
    "t5": lambda: labeled(library_model("t5")),
    "padded-bert": lambda: padded_library_texts("bert"),
    "padded-t5": lambda: padded_library_texts("t5"),
    "padded-gpt2": lambda: padded_library_texts("gpt2"),
    "autoencoder-of-tokens": lambda: program(Denoiser(), texts(), texts(), loss_fn=pair_loss),
    "autoencoder-without-its-first": lambda: labeled(WithoutTheFirst()),
    "denoiser-of-tokens": lambda: program(
        Denoiser(), texts().where(torch.rand(48, 12, generator=seeded(6)) > 0.2, 3), texts(), loss_fn=pair_loss
    ),
    "masked-words": hidden_words_told,
    "words-backwards": words_backwards,
    "copying": lambda: repeated(unshifted=False),
    "first-word-recalled": lambda: program(Recurrent(last=True), texts(), texts()[:, 0], loss_fn=nn.CrossEntropyLoss()),
    "echo-after-three-steps": lambda: program(
        Recurrent(),
        texts(),
        F.pad(texts()[:, :-3], (3, 0)),
        loss_fn=nn.CrossEntropyLoss(ignore_index=0),
        compute_loss=lambda model, batch, loss_fn: loss_fn(model(batch[0]).flatten(0, 1), batch[1].flatten()),
    ),
    "tags": lambda: program(Tagger(), texts() % 12, texts() % 3, loss_fn=next_token_loss),
    "sentence-autoencoder": lambda: program(SentenceAutoencoder(), X, Y, loss_fn=pair_loss),
    "sentence-autoencoder-mean": lambda: program(SentenceAutoencoder("mean"), X, Y, loss_fn=pair_loss),
    "prefix": lambda: labeled(Prefix()),
    "several-ahead": several_ahead,
    "densities": lambda: program(
        MaskedColumns(), torch.randn(48, 16), compute_loss=lambda m, b, _: F.mse_loss(m(b[0]), b[0])
    ),
    "autoencoder": lambda: program(
        nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 64)),
        digit_rows()[0][:48],
        digit_rows()[0][:48],
        loss_fn=nn.MSELoss(),
    ),
    "first-value-recalled": lambda: program(
        Forecaster(1), waves(48)[:, :26, None], waves(48)[:, :1], loss_fn=nn.MSELoss()
    ),
    "forecast": lambda: forecast(26, 26, 4),
    "forecast-that-overlaps": lambda: forecast(26, 24, 6),
    "waves-one-step-later": lambda: program(
        nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1)),
        waves(48)[:, :-1, None],
        waves(48)[:, 1:, None],
        loss_fn=nn.MSELoss(),
    ),
    "mha": lambda: classified(Padded("mha", False)),
    "encoder": lambda: classified(Padded("encoder", False)),
    "sdpa": lambda: classified(Padded("sdpa", False)),
    "written-out": lambda: classified(Padded("own", False)),
    "small-heads-without-scale": lambda: program(OwnAttention(scale=False, heads=4), X, Y, loss_fn=pair_loss),
    "tiny-gpt": lambda: program(TinyGpt(words=50), X, Y, loss_fn=next_token_loss),
    "chains": lambda: {
        **program(TinyGpt(), X, Y),
        "loader": split(chain_tokens()[:, :-1], chain_tokens()[:, 1:])[0],
        "loss_fn": next_token_loss,
    },
}
