"""Transformers and self-supervised programs of every make, sound and with one fault, close to what the checks judge."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.checks.position_programs import Program, library_model, own_loss, program
from tests.zoo.samples import seeded

MASK = 0


def chains(rows: int = 48, length: int = 12, words: int = 30) -> torch.Tensor:
    """Return tokens of which most follow from the one before."""
    draw, found = seeded(1), torch.randint(1, words, (rows, length), generator=seeded(2))
    for place in range(1, length):
        follows = torch.rand(rows, generator=draw) < 0.8
        found[:, place] = torch.where(follows, (found[:, place - 1] * 3 + 1) % (words - 1) + 1, found[:, place])
    return found


def rises(tokens: torch.Tensor) -> torch.Tensor:
    """Say at each position whether the token is larger than the one before."""
    return torch.cat([torch.zeros(len(tokens), 1), (tokens[:, 1:] > tokens[:, :-1]).float()], 1).long()


class Attend(nn.Module):
    """Attention written out, whose parts can be exchanged."""

    def __init__(self, width: int, heads: int, kind: str, causal: bool) -> None:
        super().__init__()
        few = width // heads if kind in ("one-query", "one-key") else width
        self.q = nn.Linear(width, few if kind == "one-query" else width)
        self.k, self.v, self.o = nn.Linear(width, few), nn.Linear(width, few), nn.Linear(width, width)
        self.heads, self.kind, self.causal = heads, kind, causal

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what each position collects."""
        rows, length, width = x.shape
        size = width // self.heads

        def split(made: torch.Tensor) -> torch.Tensor:
            if made.shape[-1] == size:
                return made[:, None].expand(rows, self.heads, length, size)
            if self.kind == "split-wrong":
                return made.view(rows, self.heads, length, size)
            return made.view(rows, length, self.heads, size).transpose(1, 2)

        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        scores = q @ k.transpose(-1, -2) / size**0.5
        if self.kind == "relative":
            places = torch.arange(length)
            scores = scores - 0.3 * (places[:, None] - places).abs()
        if self.causal:
            scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
        found = scores.softmax(-1) @ v
        merged = found if self.kind == "merge-wrong" else found.transpose(1, 2)
        return self.o(merged.reshape(rows, length, width))


class Texts(nn.Module):
    """A small transformer: with learned, relative or no positions, causal or not, a prediction per token or text."""

    def __init__(
        self,
        out: int = 30,
        positions: str = "learned",
        kind: str = "plain",
        causal: bool = False,
        pool: str = "",
        width: int = 32,
    ) -> None:
        super().__init__()
        self.words, self.positions, self.pool = nn.Embedding(30, width), positions, pool
        self.places = nn.Embedding(64, width) if positions == "learned" else None
        self.attend = nn.ModuleList(Attend(width, 4, kind, causal) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.window = nn.Conv1d(width, width, 3, padding=1) if positions == "convolution" else None
        self.recurrent = nn.GRU(width, width, batch_first=True) if positions == "recurrent" else None
        self.head = nn.Linear(width, out)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Score the classes."""
        x = self.words(tokens)
        if self.places is not None:
            x = x + self.places(torch.arange(tokens.shape[1]))
        if self.positions == "sinusoidal":
            angles = torch.arange(tokens.shape[1])[:, None] / 50 ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1])
            x = x + torch.cat([angles.sin(), angles.cos()], -1)
        if self.window is not None:
            x = self.window(x.transpose(1, 2)).transpose(1, 2)
        if self.recurrent is not None:
            x = self.recurrent(x)[0]
        for attend, norm in zip(self.attend, self.norms, strict=True):
            x = x + attend(norm(x))
        return self.head({"": x, "mean": x.mean(1), "first": x[:, 0], "last": x[:, -1]}[self.pool])


def over_positions(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross-entropy over all positions; -100 does not count."""
    return F.cross_entropy(output.flatten(0, -2), target.flatten())


def tagger(**options: Any) -> Program:
    """Return a program with a target for each token."""
    return program(Texts(out=2, **options), chains(), rises(chains()), loss_fn=over_positions)


def classifier(**options: Any) -> Program:
    """Return a program with a target for each text."""
    tokens = chains()
    return program(Texts(out=2, **options), tokens, (tokens[:, 1] > tokens[:, 0]).long(), loss_fn=nn.CrossEntropyLoss())


def language(**options: Any) -> Program:
    """Return a program that predicts the next token."""
    return program(Texts(causal=True, **options), chains()[:, :-1], chains()[:, 1:], loss_fn=over_positions)


def hidden_words() -> tuple[torch.Tensor, torch.Tensor]:
    """Return tokens of which a quarter are masked, and these as targets."""
    tokens = chains()
    hide = torch.rand(tokens.shape, generator=seeded(5)) < 0.25
    return tokens.masked_fill(hide, MASK), tokens.masked_fill(~hide, -100)


def masked(**options: Any) -> Program:
    """Return a masked language model."""
    return program(Texts(**options), *hidden_words(), loss_fn=over_positions)


def encoder(model: nn.Module) -> Program:
    """Return a masked language model around torch's own encoder, or another model."""
    return program(model, *hidden_words(), loss_fn=over_positions)


class TorchEncoder(nn.Module):
    """torch's own encoder layers, with or without positions and a causal mask, their heads as drawn or copies."""

    def __init__(self, positions: bool = True, causal: bool = False, copies: bool = False, out: int = 30) -> None:
        super().__init__()
        self.words, self.head, self.causal = nn.Embedding(30, 32), nn.Linear(32, out), causal
        self.places = nn.Parameter(0.1 * torch.randn(12, 32)) if positions else None
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        if copies:
            with torch.no_grad():
                weight = self.layer.self_attn.in_proj_weight
                weight.copy_(torch.cat([part[:8].repeat(4, 1) for part in weight.chunk(3)]))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Score the words at each position."""
        x = self.words(tokens)
        x = x + self.places if self.places is not None else x
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1]) if self.causal else None
        return self.head(self.layer(x, src_mask=mask, is_causal=self.causal))


def unordered_sets() -> Program:
    """Return sets whose order says nothing, and a target for each member."""
    tokens = torch.randint(1, 30, (48, 12), generator=seeded(7))
    largest = (tokens == tokens.amax(1, keepdim=True)).long()
    return program(Texts(out=2, positions="none"), tokens, largest, loss_fn=over_positions)


def sorted_sets() -> Program:
    """Return the same as sorted lists."""
    made = unordered_sets()
    ordered = [x.sort(1).values for x, _ in made["loader"]]
    made["loader"] = [(x, (x == x.amax(1, keepdim=True)).long()) for x in ordered]
    return made


def columns_as_tokens() -> Program:
    """Return columns whose values have ids of their own, so that a token tells its column."""
    values = torch.randint(0, 2, (48, 12), generator=seeded(8)) + 2 * torch.arange(12)
    return program(Texts(out=2, positions="none"), values, (values % 2).roll(1, 1), loss_fn=over_positions)


def library_masked(name: str) -> Program:
    """Return a masked language model of transformers."""
    tokens, labels = hidden_words()
    return program(library_model(name), {"input_ids": tokens, "labels": labels}, compute_loss=own_loss)


def copied_heads(**options: Any) -> Program:
    """Return a model whose heads start as copies of the first one."""
    made = tagger(**options)
    with torch.no_grad():
        for attend in made["model"].attend:
            for layer in (attend.q, attend.k):
                layer.weight.copy_(layer.weight[:8].repeat(4, 1))
                layer.bias.copy_(layer.bias[:8].repeat(4))
    return made


def zero_queries() -> Program:
    """Return a model whose queries begin at zero, as some recipes have it."""
    made = language()
    for attend in made["model"].attend:
        nn.init.zeros_(attend.q.weight)
        nn.init.zeros_(attend.q.bias)
    return made


ORDER_SEEN: dict[str, Callable[[], Program]] = {
    "learned": tagger,
    "sinusoidal": lambda: tagger(positions="sinusoidal"),
    "relative-scores": lambda: tagger(positions="none", kind="relative"),
    "convolution": lambda: tagger(positions="convolution"),
    "recurrent": lambda: tagger(positions="recurrent"),
    "causal-without-positions": lambda: language(positions="none"),
    "masked": masked,
    "torch-encoder": lambda: encoder(TorchEncoder()),
    "unordered-sets": unordered_sets,
    "sorted-sets": sorted_sets,
    "columns-as-tokens": columns_as_tokens,
    "pooled-without-positions": lambda: classifier(positions="none", pool="mean"),  # a note: a bag of words
    "bert": lambda: library_masked("bert"),
}
ORDER_IGNORED: dict[str, Callable[[], Program]] = {
    "tagger": lambda: tagger(positions="none"),
    "masked": lambda: masked(positions="none"),
    "torch-encoder": lambda: encoder(TorchEncoder(positions=False)),
}
BOTH_SIDES = {name: ORDER_SEEN[name] for name in ("masked", "torch-encoder", "bert", "causal-without-positions")}
ONE_SIDE: dict[str, Callable[[], Program]] = {
    "written-out": lambda: masked(causal=True),
    "torch-encoder": lambda: encoder(TorchEncoder(causal=True)),
    "without-positions": lambda: masked(causal=True, positions="none"),
}
HEADS_APART: dict[str, Callable[[], Program]] = {
    "plain": tagger,
    "one-key-for-all": lambda: tagger(kind="one-key"),
    "relative": lambda: tagger(kind="relative"),
    "zero-queries": zero_queries,
    "torch-encoder": lambda: encoder(TorchEncoder()),
    "bert": lambda: library_masked("bert"),
    "gpt2": lambda: program(library_model("gpt2"), {"input_ids": chains(), "labels": chains()}, compute_loss=own_loss),
}
HEADS_ALIKE: dict[str, Callable[[], Program]] = {
    "copies": copied_heads,
    "torch-copies": lambda: encoder(TorchEncoder(copies=True)),
    "one-query-for-all": lambda: tagger(kind="one-query"),
}


class Views(nn.Module):
    """One network for two views of a sample; a second one may follow it slowly, or be trained beside it."""

    def __init__(self, teacher: str = "", predictor: bool = False, batch_norm: bool = False) -> None:
        super().__init__()
        norm = nn.BatchNorm1d(32) if batch_norm else nn.Identity()
        self.body = nn.Sequential(nn.Linear(10, 32), norm, nn.ReLU(), nn.Linear(32, 8))
        self.predictor = nn.Linear(8, 8) if predictor else nn.Identity()
        self.teacher = copy.deepcopy(self.body).requires_grad_(teacher != "frozen") if teacher else self.body

    def forward(self, pairs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the representations of both views."""
        return self.predictor(self.body(pairs[:, 0])), self.teacher(pairs[:, 1])


def views(loss: Callable[..., torch.Tensor], members: int = 2, **options: Any) -> Program:
    """Return a self-supervised program whose loss reads the representations alone."""
    samples = torch.randn(96, 1, 10, generator=seeded(9)) + 0.1 * torch.randn(96, members, 10, generator=seeded(10))

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        return loss(*model(batch[0]))

    return program(Views(**options), samples, compute_loss=compute_loss)


def agree(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Ask for the same direction."""
    return -F.cosine_similarity(one, other).mean()


def info_nce(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Tell a sample's other view from those of the other samples."""
    scores = F.normalize(one) @ F.normalize(other).T / 0.2
    return F.cross_entropy(scores, torch.arange(len(scores)))


def nt_xent(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Tell it from both views of all others."""
    z = F.normalize(torch.cat([one, other]))
    scores = (z @ z.T / 0.5).masked_fill(torch.eye(len(z)).bool(), -1e9)
    return F.cross_entropy(scores, torch.arange(len(z)).roll(len(one)))


def vicreg(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Ask for variance beside invariance."""
    return F.mse_loss(one, other) + sum((F.relu(1 - z.std(0)).mean() for z in (one, other)), torch.tensor(0.0))


def barlow(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Decorrelate."""
    one, other = ((z - z.mean(0)) / z.std(0) for z in (one, other))
    return (one.T @ other / len(one) - torch.eye(one.shape[1])).square().sum()


def whitened(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Compare after whitening the batch."""
    z = torch.cat([one, other])
    z = z - z.mean(0)
    lower = torch.linalg.cholesky(z.T @ z / len(z) + 1e-3 * torch.eye(z.shape[1]))
    return F.mse_loss(*torch.linalg.solve_triangular(lower, z.T, upper=False).T.chunk(2))


def margin(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Ask for a distance to the next sample."""
    return F.triplet_margin_loss(one, other, other.roll(1, 0))


def word_pairs(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Tell pairs from others, as word2vec does."""
    apart = (one * other.roll(1, 0)).sum(1)
    return -F.logsigmoid((one * other).sum(1)).mean() - F.logsigmoid(-apart).mean()


def clusters(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Ask for the same cluster, and for all clusters to be used."""
    p, q = one.softmax(-1), other.softmax(-1)
    mean = (p.mean(0) + q.mean(0)) / 2
    return -(p * q).sum(1).log().mean() + (mean * mean.log()).sum()


KEPT_APART: dict[str, Callable[[], Program]] = {
    **{
        loss.__name__: (lambda loss=loss: views(loss))  # type: ignore[misc]
        for loss in (info_nce, nt_xent, vicreg, barlow, whitened, margin, word_pairs, clusters)
    },
    "stopped": lambda: views(lambda p, z: agree(p, z.detach()), predictor=True, batch_norm=True),
    "frozen-teacher": lambda: views(agree, teacher="frozen", predictor=True),
}
COLLAPSES: dict[str, Callable[[], Program]] = {
    "not-stopped": lambda: views(agree, predictor=True, batch_norm=True),
    "pairs": lambda: views(F.mse_loss),
    "second-network": lambda: views(agree, teacher="trained", predictor=True),
    "no-negatives": lambda: views(lambda a, b: (F.normalize(a) - F.normalize(b)).square().sum(1).mean()),
}
