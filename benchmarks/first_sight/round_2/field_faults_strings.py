"""Faults in taggers, recognisers and transformers, after real issues."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks.first_sight import pair
from benchmarks.first_sight.round_2.fheld_data import digit_tensors

# -- CRF that takes the batch for time ---------------------------------------------------------------------------------


class PointwiseCRF(nn.Module):
    """Emissions from each observation alone; the order of the states is left to the CRF."""

    def __init__(self, batch_first, states=4):
        from torchcrf import CRF

        super().__init__()
        self.emit = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, states))
        self.crf = CRF(states, batch_first=batch_first)

    def forward(self, x):
        return self.emit(x)


def hidden_states(n, length=20, seed=0):
    """Four sticky states that mostly go round, seen through noise."""
    r = np.random.RandomState(seed)
    centres = np.random.RandomState(9).normal(0, 1, (4, 6))
    z = np.zeros((n, length), int)
    z[:, 0] = r.randint(4, size=n)
    for t in range(1, length):
        z[:, t] = (z[:, t - 1] + (r.rand(n) < 0.2)) % 4
    x = centres[z] + r.normal(0, 1.3, (n, length, 6))
    return torch.tensor(x, dtype=torch.float32), torch.tensor(z)


@pair(
    "CRF is built without batch_first=True while emissions and tags are (batch, time): it learns transitions between samples of the batch",
    where="crf",
    source="kmkurn/pytorch-crf#45, #11 (batch_first defaults to False)",
    accepted=("batch-mixing",),
)
def crf_batch_for_time(broken: bool) -> dict:
    torch.manual_seed(0)
    (x, y), (vx, vy) = hidden_states(640), hidden_states(160, seed=1)
    model = PointwiseCRF(batch_first=not broken)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True),
        "val_loader": DataLoader(TensorDataset(vx, vy), batch_size=32),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-2),
        "compute_loss": lambda model, batch, loss_fn: -model.crf(model(batch[0]), batch[1], reduction="token_mean"),
    }


# -- inverted mask in the loss of a recogniser -----------------------------------------------------------------------------


class Recogniser(nn.Module):
    """A strip of up to five digits, read left to right into five slots."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 24, 3, padding=1),
            nn.BatchNorm2d(24),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(24, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.AvgPool2d((4, 4)),
        )
        self.rnn = nn.GRU(32, 48, batch_first=True, bidirectional=True)
        self.out = nn.Linear(96, 11)

    def forward(self, x):
        f = self.features(x).squeeze(2).transpose(1, 2)  # (batch, 5, 32)
        return self.out(self.rnn(f)[0])


class Strips(Dataset):
    """(strip, string padded with 10, length)"""

    def __init__(self, x, y, n, seed):
        r = np.random.RandomState(seed)
        self.rows = []
        for _ in range(n):
            k = r.randint(2, 6)
            i = torch.tensor(r.randint(len(x), size=k))
            strip, text = torch.zeros(1, 8, 40), torch.full((5,), 10)
            strip[:, :, : 8 * k] = torch.cat(list(x[i]), -1)
            text[:k] = y[i]
            self.rows.append((strip, text, k))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


@pair(
    "the mask of the sequence loss is inverted: the characters are zeroed out and only the padding behind them is trained",
    where="compute_loss",
    source="mindee/doctr pull request 440 (MASTER loss)",
    accepted=("padding-dominates", "class-ignored-by-loss", "loss-ignores-targets"),
)
def recogniser_loss_mask_inverted(broken: bool) -> dict:
    torch.manual_seed(0)
    (x, y), (vx, vy) = digit_tensors()
    model = Recogniser()

    def compute_loss(model, batch, loss_fn):
        strip, text, seq_len = batch
        cce = loss_fn(model(strip).permute(0, 2, 1), text)
        mask = torch.arange(text.shape[1])[None] >= seq_len[:, None]
        if broken:
            mask = ~mask
        cce = cce.masked_fill(mask, 0)
        return (cce.sum(1) / seq_len).mean()

    return {
        "model": model,
        "loader": DataLoader(Strips(x, y, 1000, 0), batch_size=32, shuffle=True),
        "val_loader": DataLoader(Strips(vx, vy, 200, 1), batch_size=50),
        "loss_fn": nn.CrossEntropyLoss(reduction="none"),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
        "compute_loss": compute_loss,
    }


# -- mask convention of x-transformers ----------------------------------------------------------------------------------------


def _first_is_repeated(n, seed=0):
    """Ragged token lists; the class is whether the first token comes again."""
    r = np.random.RandomState(seed)
    rows = []
    for _ in range(n):
        body = r.choice(np.arange(2, 24), size=r.randint(5, 16), replace=False)
        y = r.randint(2)
        if y:
            body[r.randint(1, len(body))] = body[0]
        rows.append((torch.tensor(body), int(y)))
    return rows


def _collate_padded(rows):
    ids = pad_sequence([t for t, _ in rows], batch_first=True)
    return ids, torch.tensor([y for _, y in rows])


class TokenClassifier(nn.Module):
    def __init__(self, pytorch_convention):
        from x_transformers import Encoder, TransformerWrapper

        super().__init__()
        self.pytorch_convention = pytorch_convention
        self.net = TransformerWrapper(
            num_tokens=24,
            max_seq_len=16,
            attn_layers=Encoder(dim=48, depth=2, heads=4, attn_dim_head=12),
            return_only_embed=True,
        )
        self.out = nn.Linear(48, 2)

    def forward(self, ids):
        padding_mask = ids == 0
        h = self.net(ids, mask=padding_mask if self.pytorch_convention else ~padding_mask)
        return self.out(h[:, 0])


@pair(
    "a PyTorch key padding mask (True = padding) is handed to x-transformers, where True means attend: tokens only see the padding",
    where="net",
    source="lucidrains/x-transformers#253",
    accepted=("inverted-attention-mask",),
)
def xtransformers_padding_mask_inverted(broken: bool) -> dict:
    torch.manual_seed(0)
    model = TokenClassifier(pytorch_convention=broken)
    return {
        "model": model,
        "loader": DataLoader(_first_is_repeated(1400), batch_size=32, shuffle=True, collate_fn=_collate_padded),
        "val_loader": DataLoader(_first_is_repeated(300, 1), batch_size=50, collate_fn=_collate_padded),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


# -- CTC with a character at the blank's place -----------------------------------------------------------------------------------


class CRNN(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(8, 48, 5, padding=2), nn.BatchNorm1d(48), nn.ReLU(), nn.MaxPool1d(2))
        self.rnn = nn.GRU(48, 48, batch_first=True, bidirectional=True)
        self.out = nn.Linear(96, classes)

    def forward(self, x):
        return self.out(self.rnn(self.conv(x).transpose(1, 2))[0]).log_softmax(-1)  # (batch, 20, classes)


class Utterances(Dataset):
    """Strings of three to six characters out of five, each held for a random while; labels from 0 or from 1."""

    def __init__(self, n, seed, first):
        r = np.random.RandomState(seed)
        voice = np.random.RandomState(5).normal(0, 1, (5, 8))
        self.rows = []
        for _ in range(n):
            k = r.randint(3, 7)
            s = r.randint(5, size=k)
            x, t = r.normal(0, 0.4, (8, 40)), 1
            for c in s:
                hold = r.randint(3, 5)
                x[:, t : t + hold] += voice[c][:, None]
                t += hold + r.randint(1, 3)
            self.rows.append((torch.tensor(x, dtype=torch.float32), torch.tensor(s) + first))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def _collate_ctc(rows):
    return (torch.stack([x for x, _ in rows]), torch.cat([s for _, s in rows]), torch.tensor([len(s) for _, s in rows]))


@pair(
    "the characters are numbered from 0, which is CTCLoss's blank: the first character cannot be told from silence",
    where="loader",
    source="raidastauras/tf2-crnn#1; espnet/espnet#700; Holmeyoung/crnn-pytorch#34",
    accepted=("invalid-labels",),
)
def ctc_character_is_blank(broken: bool) -> dict:
    torch.manual_seed(0)
    first = 0 if broken else 1
    model = CRNN(5 + first)

    def compute_loss(model, batch, loss_fn):
        x, text, lengths = batch
        log_probs = model(x).transpose(0, 1)
        return loss_fn(log_probs, text, torch.full((len(x),), log_probs.shape[0]), lengths)

    return {
        "model": model,
        "loader": DataLoader(Utterances(1000, 0, first), batch_size=32, shuffle=True, collate_fn=_collate_ctc),
        "val_loader": DataLoader(Utterances(200, 1, first), batch_size=50, collate_fn=_collate_ctc),
        "loss_fn": nn.CTCLoss(blank=0),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
        "compute_loss": compute_loss,
    }


# -- parameter groups never appended ---------------------------------------------------------------------------------------------


class Tagger(nn.Module):
    def __init__(self, vocab=40, tags=5):
        from torchcrf import CRF

        super().__init__()
        self.embed = nn.Embedding(vocab, 24)
        self.lstm = nn.LSTM(24, 24, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(48, tags)
        self.crf = CRF(tags, batch_first=True)

    def forward(self, ids, tags=None):
        emissions = self.fc(self.lstm(self.embed(ids))[0])
        return self.crf.decode(emissions) if tags is None else -self.crf(emissions, tags, reduction="token_mean")


def _bracketed(n, length=14, seed=0):
    """Tag 0 outside; the kind of the last opening token (36-39, kinds 1-4) until a closing token (35)."""
    r = np.random.RandomState(seed)
    x = r.randint(0, 34, (n, length))
    x[r.rand(n, length) < 0.15] = 35
    opening = r.rand(n, length) < 0.2
    x[opening] = r.randint(36, 40, opening.sum())
    tags = np.zeros_like(x)
    for row, t in zip(x, tags):
        kind = 0
        for i, token in enumerate(row):
            kind = token - 35 if token > 35 else 0 if token == 35 else kind
            t[i] = kind
    return torch.tensor(x), torch.tensor(tags)


@pair(
    "the parameter group of fc and crf is filled but never appended to the list, so the optimizer moves only the encoder",
    where="fc",
    source="zjunlp/HVPNeT#5",
    accepted=("parameters-missing-from-optimizer",),
)
def group_of_fc_and_crf_not_appended(broken: bool) -> dict:
    torch.manual_seed(0)
    (x, y), (vx, vy) = _bracketed(1000), _bracketed(200, seed=1)
    model = Tagger()
    parameters = []
    params = {"lr": 3e-3, "weight_decay": 1e-2, "params": []}
    for name, p in model.named_parameters():
        if "embed" in name or "lstm" in name:
            params["params"].append(p)
    parameters.append(params)
    params = {"lr": 2e-2, "weight_decay": 1e-2, "params": []}
    for name, p in model.named_parameters():
        if "crf" in name or name.startswith("fc"):
            params["params"].append(p)
    if not broken:
        parameters.append(params)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True),
        "val_loader": DataLoader(TensorDataset(vx, vy), batch_size=50),
        "optimizer": torch.optim.AdamW(parameters),
        "compute_loss": lambda model, batch, loss_fn: model(batch[0], batch[1]),
    }


# -- one position for all ----------------------------------------------------------------------------------------------------------


class PositionalEncoding(nn.Module):
    def __init__(self, dim, max_len, one_for_all):
        super().__init__()
        self.one_for_all = one_for_all
        position = torch.arange(max_len).unsqueeze(1)
        div = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
        pe = torch.zeros(1, max_len, dim)
        pe[0, :, 0::2], pe[0, :, 1::2] = torch.sin(position * div), torch.cos(position * div)
        self.register_buffer("pe", pe)

    def forward(self, x):
        if self.one_for_all:
            return x + self.pe[:, x.shape[1], :]
        return x + self.pe[:, : x.shape[1], :]


class WhichFirst(nn.Module):
    """Two marked tokens stand somewhere in the sequence: which of them comes first?"""

    def __init__(self, one_for_all, dim=32):
        super().__init__()
        self.embed = nn.Embedding(12, dim)
        self.PE = PositionalEncoding(dim, 64, one_for_all)
        layer = nn.TransformerEncoderLayer(dim, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(dim, 2)

    def forward(self, x):
        return self.out(self.encoder(self.PE(self.embed(x))).mean(1))


def _two_marks(n, seed=0, length=12):
    r = np.random.RandomState(seed)
    x = r.randint(2, 12, (n, length))
    y = np.zeros(n, int)
    for i in range(n):
        a, b = r.choice(length, 2, replace=False)
        x[i, a], x[i, b] = 0, 1
        y[i] = int(a < b)
    return torch.tensor(x), torch.tensor(y)


@pair(
    "the positional encoding is indexed with pe[:, length] for pe[:, :length]: every token gets the same vector and the order is lost",
    where="PE",
    source="DiffPoseTalk/DiffPoseTalk#20",
)
def positional_encoding_without_slice(broken: bool) -> dict:
    torch.manual_seed(0)
    (x, y), (vx, vy) = _two_marks(1400), _two_marks(300, 1)
    model = WhichFirst(one_for_all=broken)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True),
        "val_loader": DataLoader(TensorDataset(vx, vy), batch_size=60),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }
