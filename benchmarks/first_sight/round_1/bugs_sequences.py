from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

from benchmarks.first_sight import pair
from benchmarks.first_sight.round_1._dev_helpers import DictDataset, loaders


class PulseLSTM(nn.Module):
    def __init__(self, channels, classes, batch_first):
        super().__init__()
        self.lstm = nn.LSTM(channels, 48, batch_first=batch_first)
        self.fc = nn.Linear(48, classes)

    def forward(self, x):  # x: batch, time, channels
        out, _ = self.lstm(x)
        return self.fc(out[:, -1])


@pair(
    "the LSTM is built without batch_first=True while the batches are batch x time x channel: it runs along the samples",
    where="lstm",
    source="https://discuss.pytorch.org/t/lstm-change-batch-first-true-loss-does-not-decrease/62364",
    accepted=("batch-mixing", "inputs-ignored"),
)
def pulse_order_lstm(broken: bool) -> dict:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    n, t = 1200, 24
    x = rng.normal(0, 0.3, (n, t, 3)).astype("float32")
    first, second = rng.integers(0, 3, n), rng.integers(0, 3, n)
    for i in range(n):
        x[i, rng.integers(1, 10), first[i]] += 3
        x[i, rng.integers(12, 20), second[i]] += 3
    y = first * 3 + second
    x = (x - x.mean((0, 1))) / x.std((0, 1))
    train, val = loaders((x[:900], y[:900]), (x[900:], y[900:]))
    model = PulseLSTM(3, 9, batch_first=not broken)
    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-2),
    }


PAD, CLS = 0, 1


class ReviewEncoder(nn.Module):
    def __init__(self, vocab, classes, width=32, inverted=False):
        super().__init__()
        self.embed = nn.Embedding(vocab, width, padding_idx=PAD)
        self.pos = nn.Parameter(torch.randn(1, 64, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.norm, self.fc = nn.LayerNorm(width), nn.Linear(width, classes)
        self.inverted = inverted

    def forward(self, ids):
        mask = (ids != PAD) if self.inverted else (ids == PAD)
        h = self.embed(ids) + self.pos[:, : ids.size(1)]
        h = self.encoder(h, src_key_padding_mask=mask)
        return self.fc(self.norm(h[:, 0]))


@pair(
    "src_key_padding_mask is inverted: it is True for the real tokens, so attention sees only the padding",
    where="encoder",
    source="https://github.com/facebookresearch/detr/issues/96; pytorch/pytorch#120488 (True means ignore)",
    accepted=("inputs-ignored", "padding-dominates"),
)
def review_padding_mask(broken: bool) -> dict:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    n, vocab, length = 1200, 160, 20
    y = rng.integers(0, 3, n)
    ids = np.full((n, length), PAD)
    for i in range(n):
        k = rng.integers(6, 17)
        words = rng.integers(2, 100, k)
        topical = rng.random(k) < 0.3
        words[topical] = 100 + 20 * y[i] + rng.integers(0, 20, topical.sum())
        ids[i, 0], ids[i, 1 : k + 1] = CLS, words
    train, val = loaders((ids[:900], y[:900]), (ids[900:], y[900:]), 32)
    model = ReviewEncoder(vocab, 3, inverted=broken)
    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=2e-3),
    }


class PositionalEncoding(nn.Module):
    def __init__(self, width, max_len, time_first):
        super().__init__()
        pos, div = (
            torch.arange(max_len).unsqueeze(1),
            torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width)),
        )
        pe = torch.zeros(max_len, width)
        pe[:, 0::2], pe[:, 1::2] = torch.sin(pos * div), torch.cos(pos * div)
        self.time_first = time_first
        self.register_buffer("pe", pe.unsqueeze(1) if time_first else pe.unsqueeze(0))

    def forward(self, x):
        return x + (self.pe[: x.size(0)] if self.time_first else self.pe[:, : x.size(1)])


class MarkerModel(nn.Module):
    def __init__(self, vocab, classes, time_first_pe, width=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.position = PositionalEncoding(width, 256, time_first_pe)
        self.encoder = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.fc = nn.Linear(width, classes)

    def forward(self, ids):
        return self.fc(self.encoder(self.position(self.embed(ids))).mean(1))


@pair(
    "the positional encoding is written for time-first tensors and added to batch-first ones: it numbers the samples of the batch, not the positions",
    where="position",
    source="https://github.com/tanjimin/C.Origami/issues/42; songyangco/GETNext#2; AkiRusProd/numpy-transformer#1",
    accepted=("batch-mixing",),
)
def marker_position_transformer(broken: bool) -> dict:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    n, t = 1200, 20
    ids = rng.integers(1, 30, (n, t))
    where = rng.integers(0, t, n)
    ids[np.arange(n), where] = 0
    y = where // 5
    train, val = loaders((ids[:900], y[:900]), (ids[900:], y[900:]), 32)
    model = MarkerModel(30, 4, time_first_pe=broken)
    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


class CommandRNN(nn.Module):
    def __init__(self, vocab, classes, last_column):
        super().__init__()
        self.embed = nn.Embedding(vocab, 24, padding_idx=0)
        self.rnn = nn.RNN(24, 40, batch_first=True)
        self.fc = nn.Linear(40, classes)
        self.last_column = last_column

    def forward(self, ids):
        out, _ = self.rnn(self.embed(ids))
        if self.last_column:
            return self.fc(out[:, -1])
        lengths = (ids != 0).sum(1)
        return self.fc(out[torch.arange(len(ids)), lengths - 1])


@pair(
    "the classifier reads the last column of the RNN output, which is padding for nearly every sequence, instead of the last real step",
    where="rnn",
    source="discuss.pytorch.org: 'last output of padded sequences' threads; codemia.io 'How LSTM deal with variable length sequence'",
    accepted=("padding-dominates",),
)
def command_rnn_padding(broken: bool) -> dict:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    n, width = 1200, 40
    ids, y = np.zeros((n, width), int), rng.integers(0, 5, n)
    for i in range(n):
        k = rng.integers(4, 13)
        ids[i, :k] = rng.integers(11, 60, k)
        spot = np.sort(rng.choice(np.arange(k), 2, replace=False))
        ids[i, spot] = 1 + 2 * y[i] + rng.integers(0, 2, 2)
    train, val = loaders((ids[:900], y[:900]), (ids[900:], y[900:]))
    model = CommandRNN(60, 5, last_column=broken)
    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


def _sentences(n, seed=0):
    rng = np.random.default_rng(seed)
    who, verb, what = (
        ["the cat", "a dog", "my sister", "the old man", "she", "our guest", "the baker", "tom"],
        ["saw", "took", "likes", "painted", "lost", "sold", "found"],
        ["the boat", "a red hat", "some bread", "the moon", "her key", "a map", "ten eggs"],
    )
    return " ".join(
        f"{rng.choice(who)} {rng.choice(verb)} {rng.choice(what)} at {rng.integers(1, 13)}:{rng.integers(10, 60)}."
        for _ in range(n)
    )


class CharLM(nn.Module):
    def __init__(self, vocab, shift):
        super().__init__()
        self.embed, self.gru, self.head = (
            nn.Embedding(vocab, 24),
            nn.GRU(24, 48, batch_first=True),
            nn.Linear(48, vocab),
        )
        self.shift = shift

    def forward(self, input_ids, labels=None):
        logits = self.head(self.gru(self.embed(input_ids))[0])
        loss = None
        if labels is not None:
            a, b = (logits[:, :-1], labels[:, 1:]) if self.shift else (logits, labels)
            loss = F.cross_entropy(a.reshape(-1, a.size(-1)), b.reshape(-1))
        return logits, loss


@pair(
    "the language model is trained to output the character it has just read: labels are a copy of the inputs and nothing shifts them",
    where="compute_loss",
    source="https://github.com/KempnerInstitute/KempnerForge/issues/154; huggingface/transformers#27517",
    accepted=("causal-leak", "target-leaks-into-inputs"),
)
def char_lm_shift(broken: bool) -> dict:
    torch.manual_seed(0)
    text = _sentences(700, seed=4)
    chars = sorted(set(text))
    ids = torch.tensor([chars.index(c) for c in text])
    windows = ids.unfold(0, 32, 16)
    cut = int(0.8 * len(windows))
    train = DataLoader(DictDataset(input_ids=windows[:cut], labels=windows[:cut].clone()), batch_size=16, shuffle=True)
    val = DataLoader(DictDataset(input_ids=windows[cut + 2 :], labels=windows[cut + 2 :].clone()), batch_size=32)
    model = CharLM(len(chars), shift=not broken)

    def compute_loss(model, batch, loss_fn=None):
        _, loss = model(batch["input_ids"], labels=batch["labels"])
        return loss

    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=5e-3),
    }


class Tagger(nn.Module):
    def __init__(self, vocab, tags):
        super().__init__()
        self.embed, self.lstm = (
            nn.Embedding(vocab, 24, padding_idx=0),
            nn.LSTM(24, 24, batch_first=True, bidirectional=True),
        )
        self.out = nn.Linear(48, tags)

    def forward(self, tokens):
        return self.out(self.lstm(self.embed(tokens))[0])  # batch, time, tags


@pair(
    "the logits (batch, time, tag) are brought to (batch, tag, time) with view instead of a transpose, so scores and tags are mixed up",
    where="compute_loss",
    source="discuss.pytorch.org: cross entropy for sequences, view vs permute (b, t, c) -> (b, c, t)",
    accepted=("softmax-over-wrong-dim",),
)
def tagger_view(broken: bool) -> dict:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    n, t, tags = 800, 16, 5
    tokens, labels = np.zeros((n, t), int), np.full((n, t), -100)
    for i in range(n):
        k = rng.integers(7, t + 1)
        words = rng.integers(1, 80, k)
        tag = words % 4
        tag[1:][words[:-1] >= 60] = 4  # after a "title" word comes a name
        tokens[i, :k], labels[i, :k] = words, tag
    tokens, labels = torch.tensor(tokens), torch.tensor(labels)
    train = DataLoader(DictDataset(tokens=tokens[:600], tags=labels[:600]), batch_size=32, shuffle=True)
    val = DataLoader(DictDataset(tokens=tokens[600:], tags=labels[600:]), batch_size=32)
    model = Tagger(80, tags)

    def compute_loss(model, batch, loss_fn):
        logits = model(batch["tokens"])
        b, t, c = logits.shape
        logits = logits.view(b, c, t) if broken else logits.transpose(1, 2)
        return loss_fn(logits, batch["tags"])

    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(ignore_index=-100),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=5e-3),
    }


class LoadForecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.out = nn.GRU(1, 32, batch_first=True), nn.Linear(32, 1)

    def forward(self, x):
        return self.out(self.gru(x)[0][:, -1])


@pair(
    "off by one when the windows are cut: the value to be forecast is the last value of the input window",
    where="loader",
    source="stats.stackexchange / forum threads 'LSTM forecast just copies the last value'; Taxonomy of real faults: training data, target leak",
    accepted=("target-leaks-into-inputs", "causal-leak"),
)
def load_forecast_window(broken: bool) -> dict:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    hours = np.arange(1300)
    noise = np.zeros(len(hours))
    for i in range(1, len(hours)):
        noise[i] = 0.7 * noise[i - 1] + rng.normal(0, 0.25)
    load = 50 + 10 * (np.sin(2 * np.pi * hours / 24) + 0.5 * np.sin(2 * np.pi * hours / 12 + 1) + noise)
    past = load[:1000]
    s = ((load - past.mean()) / past.std()).astype("float32")
    width = 24
    x = np.stack([s[i : i + width] for i in range(len(s) - width)])[..., None]
    y = np.stack([s[i + width - 1] if broken else s[i + width] for i in range(len(s) - width)])[:, None]
    cut = 1000 - width
    train, val = loaders((x[:cut], y[:cut]), (x[1000:], y[1000:]))
    model = LoadForecaster()
    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=5e-3),
    }
