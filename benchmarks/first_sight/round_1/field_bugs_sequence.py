"""Sequence models with one fault each, after real issues."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks.first_sight import pair
from benchmarks.first_sight.round_1.fdev_data import reviews

# -- heads by view alone ------------------------------------------------------------------------------------------


class MultiHead(nn.Module):
    def __init__(self, dim, heads, mixed):
        super().__init__()
        self.heads, self.head_dim, self.mixed = heads, dim // heads, mixed
        self.fc_Q, self.fc_K, self.fc_V = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.fc, self.norm = nn.Linear(dim, dim), nn.LayerNorm(dim)

    def split(self, t, b):
        if self.mixed:
            return t.view(b * self.heads, -1, self.head_dim)
        return t.view(b, -1, self.heads, self.head_dim).transpose(1, 2).reshape(b * self.heads, -1, self.head_dim)

    def join(self, t, b):
        if self.mixed:
            return t.view(b, -1, self.heads * self.head_dim)
        return t.view(b, self.heads, -1, self.head_dim).transpose(1, 2).reshape(b, -1, self.heads * self.head_dim)

    def forward(self, x):
        b = len(x)
        q, k, v = (self.split(f(x), b) for f in (self.fc_Q, self.fc_K, self.fc_V))
        att = torch.softmax(q @ k.transpose(1, 2) * self.head_dim**-0.5, dim=-1)
        return self.norm(x + self.fc(self.join(att @ v, b)))


class PairFinder(nn.Module):
    """Tags each token: does the same token stand somewhere else in the sentence?"""

    def __init__(self, mixed, vocab=40, dim=64, heads=4, length=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(0.02 * torch.randn(length, dim))
        self.att1, self.att2 = MultiHead(dim, heads, mixed), MultiHead(dim, heads, mixed)
        self.ff = nn.Sequential(nn.Linear(dim, 128), nn.ReLU(), nn.Linear(128, dim))
        self.out = nn.Linear(dim, 2)

    def forward(self, x):
        h = self.embed(x) + self.pos
        h = self.att1(h)
        h = h + self.ff(h)
        return self.out(self.att2(h)).transpose(1, 2)


def _duplicates(n, seed=0):
    r = np.random.RandomState(seed)
    x = np.stack([r.choice(40, 16, replace=False) for _ in range(n)])
    for row in x:
        spots = r.permutation(16)[:8].reshape(4, 2)
        for a, b in spots[: r.randint(2, 5)]:
            row[b] = row[a]
    y = (x[:, :, None] == x[:, None, :]).sum(-1) > 1
    return torch.tensor(x), torch.tensor(y).long()


@pair(
    "attention heads are cut out with view(batch * heads, -1, head_dim) and no transpose, so a head mixes positions of one token's features",
    where="att1",
    source="649453932/Chinese-Text-Classification-Pytorch#10, #53; reczoo/FuxiCTR#30",
)
def heads_by_view_only(broken: bool) -> dict:
    torch.manual_seed(0)
    x, y = _duplicates(1200)
    vx, vy = _duplicates(300, 1)
    model = PairFinder(mixed=broken)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True),
        "val_loader": DataLoader(TensorDataset(vx, vy), batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


# -- labels shifted twice ------------------------------------------------------------------------------------------


class PretrainSet(Dataset):
    """X and Y for a causal LM from sequences of one order-2 pattern: two steps that alternate, modulo 23."""

    def __init__(self, n, seed, shift):
        r = np.random.RandomState(seed)
        a, d1, d2 = r.randint(23, size=(n, 1)), r.randint(1, 8, size=(n, 1)), r.randint(8, 16, size=(n, 1))
        steps = np.where(np.arange(16)[None] % 2 == 0, d1, d2)
        self.x = torch.tensor((a + np.concatenate([np.zeros((n, 1), int), np.cumsum(steps, 1)], 1)) % 23)
        self.shift = shift

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        s = self.x[i]
        if self.shift:
            return {"input_ids": s[:-1], "labels": s[1:]}
        return {"input_ids": s, "labels": s}


@pair(
    "the dataset shifts the labels by one and GPT2LMHeadModel shifts them again, so it is trained to tell the token after the next",
    where="loader",
    source="wdndev/tiny-llm-zh#10; huggingface/transformers#44642, InternLM#318",
    accepted=("unshifted-targets",),
)
def labels_shifted_twice(broken: bool) -> dict:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=23, n_positions=20, n_embd=64, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0)
    )
    return {
        "model": model,
        "loader": DataLoader(PretrainSet(1200, 0, broken), batch_size=32, shuffle=True),
        "val_loader": DataLoader(PretrainSet(300, 1, broken), batch_size=100),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01),
        "compute_loss": lambda model, batch, loss_fn: model(**batch).loss,
    }


# -- gate with a softmax over one entry ------------------------------------------------------------------------------


class SparseMoE(nn.Module):
    """Top-k mixture of experts over tokens, with the load-balancing loss left out."""

    def __init__(self, dim, experts, k, softmax_after):
        super().__init__()
        self.k, self.softmax_after = k, softmax_after
        self.w_gate = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)) for _ in range(experts)
        )

    def forward(self, x):
        logits = self.w_gate(x)
        if self.softmax_after:
            top, index = logits.topk(self.k, dim=-1)
            gates = torch.softmax(top, dim=-1)
        else:
            gates, index = torch.softmax(logits, dim=-1).topk(self.k, dim=-1)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            weight = (gates * (index == e)).sum(-1, keepdim=True)
            out = out + weight * expert(x)
        return out


class MoEBlock(nn.Module):
    def __init__(self, vocab, dim, softmax_after):
        super().__init__()
        self.embed = nn.EmbeddingBag(vocab, dim, mode="mean")
        self.norm = nn.LayerNorm(dim)
        self.moe = SparseMoE(dim, 4, 1, softmax_after)
        self.out = nn.Linear(dim, 2)

    def forward(self, x):
        h = self.embed(x)
        return self.out(h + self.moe(self.norm(h)))


@pair(
    "with k=1 the gate is softmaxed after top-k, over a single entry: always 1, and w_gate gets no gradient (there is no balancing loss)",
    where="moe.w_gate.weight",
    source="davidmrau/mixture-of-experts#27; jingyaogong/minimind#858",
    accepted=("untrained-parameters", "softmax-over-wrong-dim"),
)
def moe_gate_softmax_of_one(broken: bool) -> dict:
    torch.manual_seed(0)
    rows = [r for r in reviews(1400, 3, min_len=12, max_len=12)]
    x = torch.tensor([t[1:-1] for t, _ in rows])
    y = torch.tensor([c for _, c in rows])
    model = MoEBlock(60, 32, softmax_after=broken)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1100], y[:1100]), batch_size=32, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1100:], y[1100:]), batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


# -- batch_first ------------------------------------------------------------------------------------------------------


class OrderModel(nn.Module):
    """Reads a sequence of vectors (batch, time, features) and tells, at its last step, a fact about the whole."""

    def __init__(self, batch_first, dim=32, length=12):
        super().__init__()
        self.inp = nn.Linear(4, dim)
        self.pos = nn.Parameter(0.1 * torch.randn(1, length, dim))
        layer = nn.TransformerEncoderLayer(dim, 4, 64, dropout=0.0, batch_first=batch_first)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(dim, 3)

    def forward(self, x):
        return self.out(self.encoder(self.inp(x) + self.pos)[:, -1])


def _peaks(n, seed=0):
    """The class is the third (beginning, middle, end) of the series where the first feature is greatest."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 12, 4, generator=g)
    y = torch.randint(3, (n,), generator=g)
    spot = y * 4 + torch.randint(4, (n,), generator=g)
    x[torch.arange(n), spot, 0] = 4 + torch.rand(n, generator=g)
    return x, y


@pair(
    "nn.TransformerEncoderLayer is built without batch_first=True but fed (batch, time, features): it attends across the samples of the batch",
    where="encoder",
    source="Exorust/TorchLeet#5",
    accepted=("batch-mixing",),
)
def encoder_not_batch_first(broken: bool) -> dict:
    torch.manual_seed(0)
    (x, y), (vx, vy) = _peaks(1200), _peaks(300, 1)
    model = OrderModel(batch_first=not broken)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True),
        "val_loader": DataLoader(TensorDataset(vx, vy), batch_size=60),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }
