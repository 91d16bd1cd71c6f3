"""Text and series: recurrent nets and small transformers."""

import math

import numpy as np
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks.first_sight import pair, sound

PAD = 0


def keyword_sentences(n, seed, vocab=40, longest=30, shortest=6, n_classes=4):
    """One keyword per sentence says its class; the rest are filler words."""
    g = np.random.default_rng(seed)
    out = []
    for _ in range(n):
        size = int(g.integers(shortest, longest + 1))
        words = g.integers(1 + n_classes * 2, vocab, size)
        label = int(g.integers(n_classes))
        words[int(g.integers(size))] = 1 + label * 2 + int(g.integers(2))
        out.append((torch.tensor(words), label))
    return out


def order_sentences(n, seed, vocab=20, length=12):
    """Is the word 1 before the word 2?"""
    g = np.random.default_rng(seed)
    x = g.integers(3, vocab, (n, length))
    y = g.integers(0, 2, n)
    for row, label in zip(x, y):
        i, j = sorted(g.choice(length, 2, replace=False))
        row[i], row[j] = (1, 2) if label else (2, 1)
    return torch.tensor(x), torch.tensor(y)


# ---------------------------------------------------------------------------------------------------------------------
def announced_keywords(n, seed, vocab=40, longest=90, shortest=10):
    """The keyword after the word 39 counts; the same keywords stand elsewhere as well."""
    g = np.random.default_rng(seed)
    out = []
    for _ in range(n):
        size, label = int(g.integers(shortest, longest + 1)), int(g.integers(4))
        words = g.integers(9, vocab - 1, size)
        for at in g.choice(size, size // 4, replace=False):
            words[at] = 1 + int(g.integers(8))
        at = int(g.integers(size - 1))
        words[at], words[at + 1] = vocab - 1, 1 + label * 2 + int(g.integers(2))
        out.append((torch.tensor(words), label))
    return out


class AttentiveCNN(nn.Module):
    def __init__(self, vocab, n_classes, softmax_dim):
        super().__init__()
        self.embed = nn.Embedding(vocab, 32, padding_idx=PAD)
        self.conv = nn.Conv1d(32, 64, 3, padding=1)
        self.attn = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 1))
        self.fc = nn.Linear(64, n_classes)
        self.softmax_dim = softmax_dim

    def forward(self, tokens):
        h = torch.relu(self.conv(self.embed(tokens).transpose(1, 2))).transpose(1, 2)
        scores = self.attn(h).masked_fill((tokens == PAD).unsqueeze(-1), -1e4)
        weights = torch.softmax(scores, dim=self.softmax_dim)
        return self.fc((weights * h).sum(dim=1))


def collate_words(batch):
    words, labels = zip(*batch)
    return pad_sequence(words, batch_first=True, padding_value=PAD), torch.tensor(labels)


@pair(
    "the softmax of the attention runs over an axis of length one, so every weight is 1, padding included",
    where="attn",
    source="xhuang31/KEQA_WSDM19 issue 2 and PetrochukM/PyTorch-NLP issue 2: all attention weights are 1.0",
    accepted=("attention-over-wrong-dim", "softmax-over-wrong-dim", "untrained-parameters"),
)
def quay_attention_of_ones(faulty: bool) -> dict:
    torch.manual_seed(3)
    model = AttentiveCNN(40, 4, softmax_dim=-1 if faulty else 1)
    return {
        "model": model,
        "loader": DataLoader(announced_keywords(1600, 1), batch_size=32, shuffle=True, collate_fn=collate_words),
        "val_loader": DataLoader(announced_keywords(400, 2), batch_size=100, collate_fn=collate_words),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


# ---------------------------------------------------------------------------------------------------------------------
class TinyEncoder(nn.Module):
    def __init__(self, vocab, d=32, max_len=64, along=1):
        super().__init__()
        self.tok = nn.Embedding(vocab, d)
        self.pos = nn.Embedding(max_len, d)
        layer = nn.TransformerEncoderLayer(d, 4, 64, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(d, 2)
        self.along = along

    def forward(self, x):
        pos = torch.arange(x.size(self.along), device=x.device)
        pos = pos.unsqueeze(0) if self.along == 1 else pos.unsqueeze(1)
        h = self.tok(x) + self.pos(pos)
        return self.head(self.layers(h).mean(dim=1))


@pair(
    "the positions count the sentences of the batch instead of the words: all words of one sentence get the same position",
    where="pos",
    source="cmu-l3/anlp-fall2025-code issue 1: torch.arange(x.size(0)).unsqueeze(1) in the transformer notebook",
    accepted=("token-order-ignored", "batch-mixing", "loss-depends-on-order"),
)
def quay_positions_along_batch(faulty: bool) -> dict:
    torch.manual_seed(0)
    xt, yt = order_sentences(2000, 0)
    xv, yv = order_sentences(400, 1)
    model = TinyEncoder(20, along=0 if faulty else 1)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(xt, yt), batch_size=50, shuffle=True),
        "val_loader": DataLoader(TensorDataset(xv, yv), batch_size=50),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


# ---------------------------------------------------------------------------------------------------------------------
class SinusoidWithMask(nn.Module):
    def __init__(self, d, max_len=200):
        super().__init__()
        t = torch.arange(max_len).unsqueeze(1)
        div = torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
        table = torch.zeros(max_len, d)
        table[:, 0::2], table[:, 1::2] = torch.sin(t * div), torch.cos(t * div)
        self.register_buffer("table", table)

    def forward(self, mask):
        return self.table[: mask.size(1)].unsqueeze(0) * mask.unsqueeze(-1).float()


class PhoneEncoder(nn.Module):
    def __init__(self, vocab, invert):
        super().__init__()
        self.emb = nn.Embedding(vocab, 32, padding_idx=PAD)
        self.pos = SinusoidWithMask(32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(32, 2)
        self.invert = invert

    def forward(self, tokens):
        srcmask = tokens == PAD
        srcmask_inverted = ~srcmask
        pos = self.pos(srcmask if self.invert else srcmask_inverted)
        h = self.enc(self.emb(tokens) + pos, src_key_padding_mask=srcmask)
        h = h * srcmask_inverted.unsqueeze(-1)
        return self.out(h.sum(1) / srcmask_inverted.sum(1, keepdim=True))


class OrderWords(Dataset):
    def __init__(self, n, seed):
        g = np.random.default_rng(seed)
        x, y = order_sentences(n, seed, length=14)
        self.rows = []
        for row, label in zip(x, y):
            keep = torch.tensor([w.item() in (1, 2) or g.random() < 0.75 for w in row])
            self.rows.append((row[keep], int(label)))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


@pair(
    "the positions are multiplied with the padding mask instead of its inverse, so they are zero for every real token",
    where="pos",
    source="speechbrain/speechbrain issue 2276: pos is unexpectedly all zero",
    accepted=("token-order-ignored",),
)
def quay_positions_masked_away(faulty: bool) -> dict:
    torch.manual_seed(12)
    model = PhoneEncoder(20, invert=faulty)
    return {
        "model": model,
        "loader": DataLoader(OrderWords(2000, 5), batch_size=40, shuffle=True, collate_fn=collate_words),
        "val_loader": DataLoader(OrderWords(400, 6), batch_size=80, collate_fn=collate_words),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


# ---------------------------------------------------------------------------------------------------------------------
class BiLSTMClassifier(nn.Module):
    def __init__(self, n_in, hidden, n_classes, reshape):
        super().__init__()
        self.lstm = nn.LSTM(n_in, hidden, num_layers=1, batch_first=True, bidirectional=True)
        self.fc = nn.Sequential(nn.Linear(2 * hidden, 32), nn.ReLU(), nn.Linear(32, n_classes))
        self.reshape = reshape

    def forward(self, x):
        _, (h_n, _) = self.lstm(x)
        if self.reshape:
            last = h_n.view(x.size(0), -1)
        else:
            last = h_n.transpose(0, 1).reshape(x.size(0), -1)
        return self.fc(last)


def gestures(n, seed, steps=24):
    g = np.random.default_rng(seed)
    t = np.linspace(0, 1, steps)
    x, y = [], g.integers(0, 5, n)
    for k in y:
        f, ph = 1 + 0.6 * k, g.uniform(0, 2 * np.pi)
        xyz = np.stack([np.sin(2 * np.pi * f * t + ph), np.cos(2 * np.pi * f * t + ph), t * (k - 2)], 1)
        x.append(xyz + 0.3 * g.standard_normal(xyz.shape))
    return torch.tensor(np.array(x), dtype=torch.float32), torch.tensor(y)


@pair(
    "the final states of a bidirectional LSTM (directions, batch, hidden) are brought to (batch, 2 * hidden) with view",
    where="lstm",
    source="discuss.pytorch and stackoverflow: h_n.view(batch, -1) of a bidirectional LSTM mixes the samples",
    accepted=("reshape-mixes-axes", "batch-mixing"),
)
def quay_gesture_bilstm(faulty: bool) -> dict:
    torch.manual_seed(14)
    model = BiLSTMClassifier(3, 32, 5, reshape=faulty)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(*gestures(1500, 3)), batch_size=32, shuffle=True, drop_last=True),
        "val_loader": DataLoader(TensorDataset(*gestures(320, 4)), batch_size=32),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


# ---------------------------------------------------------------------------------------------------------------------
class FirstWordLSTM(nn.Module):
    """The state at the end of the sentence decides."""

    def __init__(self, vocab, last_column):
        super().__init__()
        self.embedding = nn.Embedding(vocab, 24, padding_idx=PAD)
        self.lstm = nn.LSTM(24, 32, batch_first=True)
        self.fc = nn.Linear(32, 4)
        self.last_column = last_column

    def forward(self, tokens, lengths):
        out, _ = self.lstm(self.embedding(tokens))
        if self.last_column:
            last = out[:, -1, :]
        else:
            last = out[torch.arange(len(lengths)), lengths - 1]
        return self.fc(last)


def padded_with_lengths(batch, width=80):
    words, labels = zip(*batch)
    grid = torch.zeros(len(words), width, dtype=torch.long)
    for row, w in zip(grid, words):
        row[: len(w)] = w
    return {"tokens": grid, "lengths": torch.tensor([len(w) for w in words]), "label": torch.tensor(labels)}


def step_on_dict(model, batch, loss_fn):
    return loss_fn(model(batch["tokens"], batch["lengths"]), batch["label"])


@pair(
    "the classifier reads the LSTM at the last column, which lies dozens of padding tokens after the end of most sentences",
    where="tokens",
    source="bentrevett/pytorch-sentiment-analysis and stackoverflow: LSTM loss stuck at 0.69 without packed sequences on right-padded reviews",
    accepted=("padding-dominates", "vanishing-gradients", "inputs-ignored"),
)
def quay_lstm_reads_padding(faulty: bool) -> dict:
    torch.manual_seed(31)
    model = FirstWordLSTM(40, last_column=faulty)
    train, val = keyword_sentences(1600, 7, longest=14, shortest=5), keyword_sentences(300, 8, longest=14, shortest=5)
    return {
        "model": model,
        "loader": DataLoader(train, batch_size=32, shuffle=True, collate_fn=padded_with_lengths),
        "val_loader": DataLoader(val, batch_size=100, collate_fn=padded_with_lengths),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=4e-3),
        "compute_loss": step_on_dict,
    }


# ---------------------------------------------------------------------------------------------------------------------
def load_curve(n=1500, seed=0):
    g = np.random.default_rng(seed)
    t = np.arange(n)
    noise = np.zeros(n)
    for i in range(1, n):
        noise[i] = 0.7 * noise[i - 1] + 0.35 * g.standard_normal()
    return (np.sin(2 * np.pi * t / 24) + 0.5 * np.sin(2 * np.pi * t / 7) + noise).astype(np.float32)


class Windows(Dataset):
    def __init__(self, series, seq_len, horizon, overlap=0):
        self.s, self.l, self.h, self.o = series, seq_len, horizon, overlap

    def __len__(self):
        return len(self.s) - self.l - self.h + 1

    def __getitem__(self, i):
        start = i + self.l - self.o
        return torch.from_numpy(self.s[i : i + self.l]).unsqueeze(-1), torch.from_numpy(self.s[start : start + self.h])


class Forecaster(nn.Module):
    def __init__(self, horizon):
        super().__init__()
        self.gru = nn.GRU(1, 32, batch_first=True)
        self.out = nn.Linear(32, horizon)

    def forward(self, x):
        h, _ = self.gru(x)
        return self.out(h[:, -1])


@pair(
    "the target window begins at the last time step of the input window, so the model learns to repeat what it sees",
    where="loader",
    source="lingbai-kong/CausalFormer issue 8 and stackoverflow: input and output windows overlap, predictions are a shifted copy",
    accepted=("unshifted-targets", "target-leaks-into-inputs", "split-treated-differently", "split-shift"),
)
def quay_load_windows_overlap(faulty: bool) -> dict:
    torch.manual_seed(17)
    s = load_curve()
    s = (s - s[:1200].mean()) / s[:1200].std()
    model = Forecaster(1)
    return {
        "model": model,
        "loader": DataLoader(Windows(s[:1200], 36, 1, overlap=1 if faulty else 0), batch_size=32, shuffle=True),
        "val_loader": DataLoader(Windows(s[1200:], 36, 1), batch_size=64),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


# ---------------------------------------------------------------------------------------------------------------------
class SensorSet(Dataset):
    def __init__(self, frame, scaler):
        self.x = torch.tensor(scaler.transform(frame[:, :-1]), dtype=torch.float32)
        self.y = torch.tensor(frame[:, -1:], dtype=torch.float32)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


@pair(
    "a second scaler is fitted on the validation set, whose sensors work in another range",
    where="val_loader",
    source="NetManAIOps/OmniAnomaly issue 39: fitting two different scalers on train and test set",
    accepted=("split-treated-differently", "split-shift"),
)
def quay_two_minmax_scalers(faulty: bool) -> dict:
    from sklearn.preprocessing import MinMaxScaler

    torch.manual_seed(19)
    g = np.random.default_rng(19)

    def plant(n, low, high):
        temp, press, flow = g.uniform(low, high, n), g.uniform(1, 5, n), g.uniform(0, 3, n)
        power = 0.08 * temp + 0.4 * press * flow - 0.3 * flow**2 + 0.1 * g.standard_normal(n)
        return np.stack([temp, press, flow, power], 1)

    train, val = plant(1500, 20, 90), plant(400, 25, 60)
    mean, std = train[:, -1].mean(), train[:, -1].std()
    train[:, -1], val[:, -1] = (train[:, -1] - mean) / std, (val[:, -1] - mean) / std
    scaler = MinMaxScaler().fit(train[:, :-1])
    val_scaler = MinMaxScaler().fit(val[:, :-1]) if faulty else scaler
    model = nn.Sequential(nn.Linear(3, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))
    return {
        "model": model,
        "loader": DataLoader(SensorSet(train, scaler), batch_size=50, shuffle=True),
        "val_loader": DataLoader(SensorSet(val, val_scaler), batch_size=100),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


# ---------------------------------------------------------------------------------------------------------------------
class PaddedDecoderClassifier(nn.Module):
    """The vocabulary has <unk>=0 and <pad>=1, as torchtext makes it."""

    def __init__(self, vocab, pad_idx):
        super().__init__()
        self.pad_idx = pad_idx
        self.emb = nn.Embedding(vocab, 32)
        layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.fc = nn.Linear(32, 4)

    def forward(self, tokens):
        mask = tokens == self.pad_idx
        h = self.enc(self.emb(tokens), src_key_padding_mask=mask)
        w = (~mask).float().unsqueeze(-1)
        return self.fc((h * w).sum(1) / w.sum(1).clamp(min=1))


@pair(
    "the padding mask looks for token 0, which is <unk>; padding is token 1 and stays visible to attention and mean",
    where="",
    source="hyunwoongko/transformer issue 11: potential bug in the pad mask (the other vocabulary's pad index is used)",
    accepted=("padding-dominates", "inverted-attention-mask", "batch-mixing"),
)
def quay_mask_of_unk(faulty: bool) -> dict:
    torch.manual_seed(23)

    def reviews(n, seed):
        """Four grades by the share of good words (30 and above); 0 is <unk>, 1 is <pad>."""
        g = np.random.default_rng(seed)
        rows = []
        for _ in range(n):
            size = int(g.integers(4, 50))
            words = np.where(g.random(size) < g.random(), g.integers(30, 42, size), g.integers(2, 30, size))
            words[g.random(size) < 0.03] = 0
            rows.append((torch.tensor(words), min(3, int(4 * np.mean(words >= 30)))))
        return rows

    def to_width(batch):
        words, labels = zip(*batch)
        grid = torch.ones(len(words), 60, dtype=torch.long)
        for row, w in zip(grid, words):
            row[: len(w)] = w
        return grid, torch.tensor(labels)

    model = PaddedDecoderClassifier(42, pad_idx=0 if faulty else 1)
    return {
        "model": model,
        "loader": DataLoader(reviews(1600, 9), batch_size=32, shuffle=True, collate_fn=to_width),
        "val_loader": DataLoader(reviews(300, 10), batch_size=100, collate_fn=to_width),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }


# ---------------------------------------------------------------------------------------------------------------------
@sound("a packed LSTM on sentences that a batch sampler groups by length", source="torchtext BucketIterator style")
def quay_sound_bucketed_lstm() -> dict:
    torch.manual_seed(0)
    data = keyword_sentences(1500, 41, longest=25)

    class Buckets:
        def __init__(self, sizes, batch_size, seed):
            self.sizes, self.bs, self.g = sizes, batch_size, np.random.default_rng(seed)

        def __len__(self):
            return len(self.sizes) // self.bs

        def __iter__(self):
            noisy = np.array(self.sizes) + self.g.uniform(-2, 2, len(self.sizes))
            order = np.argsort(noisy)[: len(self) * self.bs].reshape(-1, self.bs)
            return iter(self.g.permutation(order).tolist())

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = nn.Embedding(40, 32, padding_idx=PAD)
            self.lstm = nn.LSTM(32, 32, batch_first=True, bidirectional=True)
            self.fc = nn.Linear(64, 4)

        def forward(self, tokens, lengths):
            packed = pack_padded_sequence(self.emb(tokens), lengths, batch_first=True, enforce_sorted=False)
            _, (h, _) = self.lstm(packed)
            return self.fc(torch.cat([h[0], h[1]], dim=1))

    def collate(rows):
        words, labels = zip(*rows)
        return {
            "tokens": pad_sequence(words, batch_first=True),
            "lengths": torch.tensor([len(w) for w in words]),
            "label": torch.tensor(labels),
        }

    model = Net()
    return {
        "model": model,
        "loader": DataLoader(data, batch_sampler=Buckets([len(w) for w, _ in data], 30, 5), collate_fn=collate),
        "val_loader": DataLoader(keyword_sentences(300, 42, longest=25), batch_size=100, collate_fn=collate),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=4e-3),
        "compute_loss": step_on_dict,
    }


@sound("three quantiles of the next hours from a GRU, with the pinball loss", source="quantile forecasting notebooks")
def quay_sound_quantile_gru() -> dict:
    torch.manual_seed(1)
    s = load_curve(seed=3)
    s = (s - s[:1200].mean()) / s[:1200].std()
    quantiles = torch.tensor([0.1, 0.5, 0.9])

    class Net(nn.Module):
        def __init__(self, horizon=4):
            super().__init__()
            self.gru = nn.GRU(1, 32, batch_first=True)
            self.out = nn.Linear(32, horizon * 3)

        def forward(self, x):
            _, h = self.gru(x)
            return self.out(h[-1]).unflatten(1, (-1, 3))

    def pinball(pred, target):
        err = target.unsqueeze(-1) - pred
        return torch.maximum(quantiles * err, (quantiles - 1) * err).mean()

    model = Net()
    return {
        "model": model,
        "loader": DataLoader(Windows(s[:1200], 36, 4), batch_size=32, shuffle=True),
        "val_loader": DataLoader(Windows(s[1200:], 36, 4), batch_size=64),
        "loss_fn": pinball,
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


@sound(
    "a tiny GPT-2 continues noisy counting sequences of different lengths; padding is -100 in the labels",
    source="transformers GPT2LMHeadModel",
)
def quay_sound_gpt2_counting() -> dict:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(2)
    g = np.random.default_rng(2)

    def counting(n):
        rows = []
        for _ in range(n):
            size, start, inc = g.integers(12, 26), g.integers(0, 16), g.integers(1, 4)
            rows.append(torch.tensor((start + inc * np.arange(size)) % 16))
        return rows

    def collate(rows):
        ids = pad_sequence(rows, batch_first=True, padding_value=16)
        return {"input_ids": ids, "attention_mask": (ids != 16).long(), "labels": ids.masked_fill(ids == 16, -100)}

    config = GPT2Config(
        vocab_size=17,
        n_positions=32,
        n_embd=48,
        n_layer=2,
        n_head=4,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=16,
        eos_token_id=16,
    )
    model = GPT2LMHeadModel(config)
    return {
        "model": model,
        "loader": DataLoader(counting(1200), batch_size=32, shuffle=True, collate_fn=collate),
        "val_loader": DataLoader(counting(200), batch_size=50, collate_fn=collate),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=2e-3),
        "compute_loss": lambda model, batch, loss_fn: model(**batch).loss,
    }
