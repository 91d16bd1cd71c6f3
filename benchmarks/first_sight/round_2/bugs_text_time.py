from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from benchmarks.first_sight import pair
from benchmarks.first_sight.round_2._held_helpers import Records, batches


class SelfAttention(nn.Module):
    def __init__(self, width, heads, transpose):
        super().__init__()
        self.qkv, self.proj, self.heads, self.transpose = (
            nn.Linear(width, 3 * width),
            nn.Linear(width, width),
            heads,
            transpose,
        )

    def forward(self, x):
        b, t, c = x.shape
        d = c // self.heads
        if self.transpose:
            q, k, v = (m.view(b, t, self.heads, d).transpose(1, 2) for m in self.qkv(x).chunk(3, dim=-1))
        else:
            q, k, v = (m.reshape(b, self.heads, t, d) for m in self.qkv(x).chunk(3, dim=-1))
        out = (q @ k.transpose(-2, -1) * d**-0.5).softmax(-1) @ v
        out = out.transpose(1, 2).reshape(b, t, c) if self.transpose else out.reshape(b, t, c)
        return self.proj(out)


class RequestModel(nn.Module):
    def __init__(self, vocab, classes, transpose, width=32, length=16):
        super().__init__()
        self.embed, self.pos = nn.Embedding(vocab, width), nn.Parameter(0.02 * torch.randn(1, length, width))
        self.norm1, self.attn = nn.LayerNorm(width), SelfAttention(width, 4, transpose)
        self.norm2, self.ff = nn.LayerNorm(width), nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))
        self.out = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))

    def forward(self, ids):
        x = self.embed(ids) + self.pos
        x = x + self.attn(self.norm1(x))
        x = x + self.ff(self.norm2(x))
        return self.out(x[:, -1])


@pair(
    "the heads are split with a reshape to (batch, heads, time, d) without the transpose, so each 'head' is a slice of the sequence and cannot look beyond it",
    where="attn",
    source="https://github.com/reczoo/FuxiCTR/issues/30; 649453932/Chinese-Text-Classification-Pytorch#53; jsbaan/transformer-from-scratch#6",
    accepted=("inputs-ignored",),
)
def request_attention_heads(broken: bool) -> dict:
    torch.manual_seed(3)
    rng = np.random.default_rng(3)
    n, t = 1400, 16
    ids = rng.integers(6, 40, (n, t))
    speaker, action = rng.integers(0, 4, n), rng.integers(0, 2, n)
    ids[:, 0], ids[:, -1] = speaker, 4 + action
    y = speaker * 2 + action
    model = RequestModel(40, 8, transpose=not broken)
    return {
        "model": model,
        "loader": batches(ids[:1100], y[:1100], size=48),
        "val_loader": batches(ids[1100:], y[1100:], train=False),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=3e-3),
    }


BOS = 12


class Translator(nn.Module):
    def __init__(self, connected):
        super().__init__()
        self.source, self.target = nn.Embedding(12, 24), nn.Embedding(13, 24)
        self.encoder, self.decoder = nn.GRU(24, 64, batch_first=True), nn.GRU(24, 64, batch_first=True)
        self.out, self.connected = nn.Linear(64, 12), connected

    def forward(self, src, tgt_in):
        _, h = self.encoder(self.source(src))
        y, _ = self.decoder(self.target(tgt_in), h if self.connected else None)
        return self.out(y)


@pair(
    "the final state of the encoder is not handed to the decoder: the decoder is a language model of the target side and the encoder gets no gradient",
    where="encoder",
    source="https://github.com/JulesBelveze/time-series-autoencoder/issues/14; keras-team/keras#2995",
    accepted=("inputs-ignored", "untrained-parameters"),
)
def cipher_seq2seq(broken: bool) -> dict:
    torch.manual_seed(3)
    rng = np.random.default_rng(3)
    n, t = 1600, 5
    src = rng.permutation(np.unique(rng.integers(0, 12, (n, t)), axis=0))
    n = len(src)
    key = rng.permutation(12)
    tgt = key[src]
    tgt_in = np.concatenate([np.full((n, 1), BOS), tgt[:, :-1]], axis=1)
    model = Translator(connected=not broken)

    def compute_loss(model, batch, loss_fn):
        logits = model(batch["src"], batch["tgt_in"])
        return loss_fn(logits.flatten(0, 1), batch["tgt"].flatten())

    rows = lambda s: Records(src=src[s], tgt_in=tgt_in[s], tgt=tgt[s])
    return {
        "model": model,
        "loader": DataLoader(rows(slice(0, 1300)), batch_size=64, shuffle=True),
        "val_loader": DataLoader(rows(slice(1300, None)), batch_size=64),
        "loss_fn": nn.CrossEntropyLoss(),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=5e-3),
    }


class MelodyRNN(nn.Module):
    def __init__(self, notes, keep_state):
        super().__init__()
        self.embed, self.lstm, self.out = (
            nn.Embedding(notes, 16),
            nn.LSTM(16, 48, batch_first=True),
            nn.Linear(48, notes),
        )
        self.keep_state, self.state = keep_state, None

    def forward(self, ids):
        y, state = self.lstm(self.embed(ids), self.state)
        if self.keep_state:
            self.state = state
        return self.out(y).transpose(1, 2)


@pair(
    "the LSTM state is kept from batch to batch without detach(): the second backward() runs into the freed graph of the first",
    where="lstm",
    source="https://learn.biosrag.com/ai/rnn-training-4.html; deadends.dev 'backward through the graph a second time'",
    accepted=("forward-fails", "graph-kept-alive"),
)
def melody_state(broken: bool) -> dict:
    torch.manual_seed(3)
    rng = np.random.default_rng(3)
    motifs = [rng.integers(0, 18, 8) for _ in range(6)]
    song = np.concatenate(
        [(motifs[k] + rng.choice([0, 5, 7])) % 18 for k in rng.integers(0, 6, 1500)]
    )  # transposed motifs
    slips = rng.random(len(song)) < 0.05
    song[slips] = rng.integers(0, 18, slips.sum())
    windows = np.lib.stride_tricks.sliding_window_view(song, 25)[::12]
    cut = 800
    x, y = windows[:, :-1], windows[:, 1:]
    model = MelodyRNN(18, keep_state=broken)
    train = DataLoader(
        torch.utils.data.TensorDataset(torch.tensor(x[:cut]), torch.tensor(y[:cut])),
        batch_size=32,
        shuffle=True,
        drop_last=True,
    )
    val = DataLoader(
        torch.utils.data.TensorDataset(torch.tensor(x[cut + 3 :]), torch.tensor(y[cut + 3 :])),
        batch_size=32,
        drop_last=True,
    )
    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=5e-3),
    }


def _waves(n, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(64)
    names, x = rng.choice(["sine", "square", "saw", "chirp", "click"], n), np.zeros((n, 1, 64))
    for i, name in enumerate(names):
        phase = t / rng.uniform(9, 16) + rng.random()
        x[i, 0] = {
            "sine": np.sin(2 * np.pi * phase),
            "square": np.sign(np.sin(2 * np.pi * phase)),
            "saw": 2 * (phase % 1) - 1,
            "chirp": np.sin(2 * np.pi * (phase + (t / 26.0) ** 2)),
            "click": 2.5 * ((t - rng.integers(0, 8)) % 16 == 0),
        }[name]
    return (x + rng.normal(0, 0.25, x.shape)).astype("float32"), names


@pair(
    "the class numbers are assigned in order of appearance, separately for the training and the validation split: the validation labels are permuted",
    where="val_loader",
    source="https://github.com/uzh-rpg/rpg_event_representation_learning/issues/2",
    accepted=("split-shift",),
)
def sound_label_maps(broken: bool) -> dict:
    torch.manual_seed(3)
    xa, na = _waves(900, 1)
    xb, nb = _waves(300, 2)
    numbers = lambda names: {name: i for i, name in enumerate(dict.fromkeys(names))}
    train_map = numbers(na)
    val_map = numbers(nb) if broken else train_map
    ya, yb = np.array([train_map[s] for s in na]), np.array([val_map[s] for s in nb])
    model = nn.Sequential(
        nn.Conv1d(1, 16, 7, padding=3),
        nn.ReLU(),
        nn.MaxPool1d(2),
        nn.Conv1d(16, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool1d(2),
        nn.Conv1d(32, 32, 5, padding=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(32, 5),
    )
    return {
        "model": model,
        "loader": batches(xa, ya, size=48),
        "val_loader": batches(xb, yb, train=False),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


class MotionWindows(Dataset):
    """Cuts a window out of a recording on demand; the buffer saves an allocation per sample."""

    def __init__(self, recordings, labels, copy, jitter):
        self.recordings, self.labels, self.copy, self.jitter = recordings, labels, copy, jitter
        self.buffer = np.zeros((32, 3), np.float32)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        start = np.random.randint(0, 17) if self.jitter else 8
        self.buffer[:] = self.recordings[i, start : start + 32]
        window = torch.from_numpy(self.buffer)
        return (window.clone() if self.copy else window), int(self.labels[i])


class MotionGRU(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.fc = nn.GRU(3, 32, batch_first=True), nn.Linear(32, 4)

    def forward(self, x):
        return self.fc(self.gru(x)[0].mean(1))


@pair(
    "the dataset writes every sample into one buffer and returns a tensor that shares its memory: all samples of a batch equal the last one, the labels do not",
    where="loader",
    source="numpy / torch shared memory threads: https://github.com/pytorch/pytorch/issues/97586; custom datasets that reuse a buffer",
    accepted=("constant-inputs", "duplicate-samples", "preprocessing-mutates-data"),
)
def motion_shared_buffer(broken: bool) -> dict:
    torch.manual_seed(3)
    np.random.seed(3)
    rng = np.random.default_rng(3)
    n = 900
    y, t = rng.integers(0, 4, n), np.arange(48)
    period, shift = np.array([6.0, 9.0, 14.0, 20.0])[y][:, None], rng.uniform(0, 6.28, (n, 1))
    x = np.stack([np.sin(6.28 * t / period + shift), np.cos(6.28 * t / period + shift), np.zeros((n, 48))], axis=2)
    x = (x + rng.normal(0, 0.4, x.shape)).astype("float32")
    train = DataLoader(MotionWindows(x[:700], y[:700], copy=not broken, jitter=True), batch_size=32, shuffle=True)
    val = DataLoader(MotionWindows(x[700:], y[700:], copy=not broken, jitter=False), batch_size=32)
    model = MotionGRU()
    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=5e-3),
    }
