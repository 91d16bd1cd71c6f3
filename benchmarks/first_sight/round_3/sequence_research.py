"""Sequence models: taggers, transformers, language models, translation, speech-like and sensor data."""

from dataclasses import dataclass

import math
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks.first_sight import pair

# ------------------------------------------------------------------ transactions (field transformer)


class TransactionEncoder(nn.Module):
    """Rows of an account's history, each a few numeric fields, to a fraud-like label."""

    def __init__(self, fields=6, d_model=32, batch_first=True):
        super().__init__()
        self.inp = nn.Linear(fields, d_model)
        self.pos = nn.Parameter(0.1 * torch.randn(1, 12, d_model))
        layer = nn.TransformerEncoderLayer(d_model, nhead=4, dim_feedforward=64, dropout=0.0, batch_first=batch_first)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.cls = nn.Linear(d_model, 2)

    def forward(self, x):
        h = self.encoder(self.inp(x) + self.pos)
        return self.cls(h[:, -1])


def _transactions(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 12, 6, generator=g)
    # suspicious if the last amount agrees in sign with the mean of the earlier ones
    y = ((x[:, :-1, 0].mean(1) * 3 * torch.sign(x[:, -1, 0])) > 0).long()
    return TensorDataset(x, y)


@pair(
    "the encoder layers are built without batch_first, so attention runs over the samples of the batch",
    where="encoder",
    source="IBM/TabFormer pull request 14: wrong order of dimensions into nn.TransformerEncoder",
    accepted=("batch-mixing", "inputs-ignored"),
)
def seq_account_history(faulty: bool) -> dict:
    torch.manual_seed(11)
    model = TransactionEncoder(batch_first=not faulty)
    return {
        "model": model,
        "loader": DataLoader(_transactions(3000, 1), batch_size=64, shuffle=True),
        "val_loader": DataLoader(_transactions(600, 2), batch_size=64),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }


# ------------------------------------------------------------------ positional encoding


class SinePositions(nn.Module):
    def __init__(self, d_model, max_len, per_batch_row):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div = torch.exp(torch.arange(0, d_model, 2) * (-math.log(1000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div)
        pe[:, 0, 1::2] = torch.cos(position * div)
        self.register_buffer("pe", pe if per_batch_row else pe.transpose(0, 1))
        self.per_batch_row = per_batch_row

    def forward(self, x):
        if self.per_batch_row:
            return x + self.pe[: x.size(0)]
        return x + self.pe[:, : x.size(1)]


class OrderClassifier(nn.Module):
    def __init__(self, vocab, per_batch_row, d=48):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.positions = SinePositions(d, 256, per_batch_row)
        layer = nn.TransformerEncoderLayer(d, 4, 96, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.fc = nn.Linear(d, 2)

    def forward(self, tokens):
        return self.fc(self.encoder(self.positions(self.emb(tokens))).mean(1))


@pair(
    "the sinusoidal table is indexed by the row of the batch (it expects time first), so all tokens of a sentence get the same position",
    where="positions",
    source="AkiRusProd/numpy-transformer issue 1, songyangco/GETNext issue 2: positional encoding added to the batch dimension",
    accepted=("token-order-ignored", "loss-depends-on-order"),
)
def seq_who_comes_first(faulty: bool) -> dict:
    torch.manual_seed(12)
    g = torch.Generator().manual_seed(5)
    n, length = 3000, 10
    tokens = torch.randint(2, 20, (n, length), generator=g)
    spots = torch.rand(n, length, generator=g).argsort(1)[:, :2]
    tokens.scatter_(1, spots, torch.tensor([[0, 1]]).repeat(n, 1))
    label = (spots[:, 0] < spots[:, 1]).long()
    model = OrderClassifier(20, per_batch_row=faulty)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(tokens[:2500], label[:2500]), batch_size=50, shuffle=True),
        "val_loader": DataLoader(TensorDataset(tokens[2500:], label[2500:]), batch_size=50),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }


# ------------------------------------------------------------------ CRF tagger


class LinearChainCRF(nn.Module):
    def __init__(self, tags, masked_score=True):
        super().__init__()
        self.start = nn.Parameter(torch.zeros(tags))
        self.trans = nn.Parameter(torch.randn(tags, tags) * 0.1)
        self.masked_score = masked_score

    def score(self, emit, tags, mask):
        unary = emit.gather(2, tags.unsqueeze(2)).squeeze(2)
        binary = self.trans[tags[:, :-1], tags[:, 1:]]
        if self.masked_score:
            unary, binary = unary * mask, binary * mask[:, 1:]
        return self.start[tags[:, 0]] + unary.sum(1) + binary.sum(1)

    def partition(self, emit, mask):
        alpha = self.start + emit[:, 0]
        for t in range(1, emit.size(1)):
            nxt = torch.logsumexp(alpha.unsqueeze(2) + self.trans, dim=1) + emit[:, t]
            alpha = torch.where(mask[:, t : t + 1] > 0, nxt, alpha)
        return torch.logsumexp(alpha, dim=1)

    def nll(self, emit, tags, mask):
        return (self.partition(emit, mask) - self.score(emit, tags, mask)).mean()


class BiLSTMCRF(nn.Module):
    def __init__(self, vocab=40, tags=4, masked_score=True):
        super().__init__()
        self.emb = nn.Embedding(vocab, 24, padding_idx=0)
        self.rnn = nn.LSTM(24, 24, bidirectional=True, batch_first=True)
        self.out = nn.Linear(48, tags)
        self.crf = LinearChainCRF(tags, masked_score)

    def forward(self, words):
        return self.out(self.rnn(self.emb(words))[0])


def _tagged_sentences(n, seed):
    rng = np.random.RandomState(seed)
    data = []
    for _ in range(n):
        length = rng.randint(4, 15)
        words = rng.randint(1, 40, length)
        tags = np.zeros(length, dtype=np.int64)
        for i, w in enumerate(words):  # B (1) on "titles", then I (2) while words stay large, 3 on numbers
            if w < 8:
                tags[i] = 1
            elif w > 25 and i and tags[i - 1] in (1, 2):
                tags[i] = 2
            elif w in (9, 10, 11):
                tags[i] = 3
        data.append((torch.tensor(words), torch.tensor(tags)))
    return data


def _pad_tagged(samples):
    words = pad_sequence([s[0] for s in samples], batch_first=True)
    tags = pad_sequence([s[1] for s in samples], batch_first=True)
    return {"words": words, "tags": tags, "mask": (words > 0).float()}


@pair(
    "the score of the gold path also runs over the padding, which the partition function masks out: the loss goes far below zero",
    where="crf",
    source="harvardnlp/pytorch-struct issue 110: CRF loss goes to very large negative values with batches larger than one",
    accepted=("loss-unbounded-below", "padding-dominates"),
)
def seq_crf_padding(faulty: bool) -> dict:
    torch.manual_seed(13)
    model = BiLSTMCRF(masked_score=not faulty)

    def compute_loss(model, batch, loss_fn):
        return model.crf.nll(model(batch["words"]), batch["tags"], batch["mask"])

    return {
        "model": model,
        "loader": DataLoader(_tagged_sentences(800, 1), batch_size=16, shuffle=True, collate_fn=_pad_tagged),
        "val_loader": DataLoader(_tagged_sentences(200, 2), batch_size=16, collate_fn=_pad_tagged),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=5e-3),
    }


# ------------------------------------------------------------------ final hidden state


class SentimentGRU(nn.Module):
    def __init__(self, vocab=60, hidden=24, squash=False):
        super().__init__()
        self.embedding = nn.Embedding(vocab, 16, padding_idx=0)
        self.gru = nn.GRU(16, hidden, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * hidden, 2)
        self.squash = squash

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.embedding(tokens), lengths, batch_first=True, enforce_sorted=False)
        _, h_n = self.gru(packed)
        if self.squash:
            features = h_n.reshape(tokens.size(0), -1)
        else:
            features = h_n.transpose(0, 1).reshape(tokens.size(0), -1)
        return self.head(features)


def _reviews(n, seed):
    rng = np.random.RandomState(seed)
    rows = []
    for _ in range(n):
        words = rng.randint(1, 60, rng.randint(5, 20))
        good, bad = (words < 12).sum(), ((words >= 12) & (words < 23)).sum()
        if good == bad:
            words = np.append(words, 3)
            good += 1
        rows.append((torch.tensor(words), int(good > bad)))
    return rows


def _collate_reviews(rows):
    lengths = torch.tensor([len(w) for w, _ in rows])
    return pad_sequence([w for w, _ in rows], batch_first=True), lengths, torch.tensor([y for _, y in rows])


@pair(
    "h_n (directions, batch, hidden) is reshaped to (batch, -1) without a transpose, so states of different reviews end up in one row",
    where="",
    source="pytorch issue 19675 and forum threads on reshaping h_n of a bidirectional network with batch_first",
    accepted=("reshape-mixes-axes", "batch-mixing", "loss-depends-on-order"),
)
def seq_hidden_reshape(faulty: bool) -> dict:
    torch.manual_seed(14)
    model = SentimentGRU(squash=faulty)

    def compute_loss(model, batch, loss_fn):
        tokens, lengths, y = batch
        return loss_fn(model(tokens, lengths), y)

    return {
        "model": model,
        "loader": DataLoader(_reviews(2000, 3), batch_size=32, shuffle=True, collate_fn=_collate_reviews),
        "val_loader": DataLoader(_reviews(400, 4), batch_size=40, collate_fn=_collate_reviews),
        "loss_fn": nn.CrossEntropyLoss(),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


# ------------------------------------------------------------------ GPT-2: end of text


@pair(
    "the pad token is the end-of-text token and the collator masks all of its labels, so the model never learns to stop",
    where="labels",
    source="transformers forum and issues: pad_token = eos_token with DataCollatorForLanguageModeling, generation never ends",
    accepted=("class-ignored-by-loss",),
)
def seq_gpt2_never_stops(faulty: bool) -> dict:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(15)
    eos = 31
    rng = np.random.RandomState(0)
    texts = []
    for _ in range(1500):
        start, step, length = rng.randint(0, 30), rng.randint(1, 4), rng.randint(3, 9)
        texts.append([(start + step * i) % 30 for i in range(length)] + [eos])

    def collate(batch):
        width = max(map(len, batch))
        ids = torch.tensor([t + [eos] * (width - len(t)) for t in batch])
        mask = torch.tensor([[1] * len(t) + [0] * (width - len(t)) for t in batch])
        labels = ids.masked_fill(ids == eos if faulty else mask == 0, -100)
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}

    config = GPT2Config(
        vocab_size=32,
        n_positions=16,
        n_embd=48,
        n_layer=2,
        n_head=4,
        bos_token_id=eos,
        eos_token_id=eos,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    model = GPT2LMHeadModel(config)
    return {
        "model": model,
        "loader": DataLoader(texts, batch_size=32, shuffle=True, collate_fn=collate),
        "compute_loss": lambda model, batch, loss_fn: model(**batch).loss,
        "optimizer": torch.optim.AdamW(model.parameters(), lr=2e-3),
    }


# ------------------------------------------------------------------ seq2seq


class Seq2Seq(nn.Module):
    def __init__(self, vocab=16, d=48):
        super().__init__()
        self.src = nn.Embedding(vocab, d)
        self.tgt = nn.Embedding(vocab, d)
        self.encoder = nn.GRU(d, d, batch_first=True)
        self.decoder = nn.GRU(d, d, batch_first=True)
        self.proj = nn.Linear(d, vocab)

    def forward(self, src, tgt_in):
        _, state = self.encoder(self.src(src))
        return self.proj(self.decoder(self.tgt(tgt_in), state)[0])


BOS = 15


def _reversals(n, seed):
    g = torch.Generator().manual_seed(seed)
    src = torch.randint(0, 10, (n, 5), generator=g)
    return TensorDataset(src, (src.flip(1) + 1) % 10)


@pair(
    "the decoder is fed the target itself instead of the target shifted right behind BOS",
    where="",
    source="forum threads about teacher forcing in seq2seq tutorials: loss near zero, generation is garbage",
    accepted=("unshifted-targets", "causal-leak"),
)
def seq_translation_no_bos(faulty: bool) -> dict:
    torch.manual_seed(16)
    model = Seq2Seq()

    def compute_loss(model, batch, loss_fn):
        src, tgt = batch
        if faulty:
            decoder_input = tgt
        else:
            decoder_input = torch.cat([torch.full_like(tgt[:, :1], BOS), tgt[:, :-1]], dim=1)
        logits = model(src, decoder_input)
        return loss_fn(logits.reshape(-1, logits.size(-1)), tgt.reshape(-1))

    return {
        "model": model,
        "loader": DataLoader(_reversals(3000, 1), batch_size=64, shuffle=True),
        "val_loader": DataLoader(_reversals(500, 2), batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


# ------------------------------------------------------------------ CTC


class ToneSpotter(nn.Module):
    def __init__(self, labels):
        super().__init__()
        self.conv = nn.Conv1d(8, 32, 3, padding=1)
        self.rnn = nn.GRU(32, 32, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(64, labels)

    def forward(self, frames):
        h = F.relu(self.conv(frames.transpose(1, 2))).transpose(1, 2)
        return self.fc(self.rnn(h)[0]).log_softmax(-1)


@pair(
    "the characters are numbered from 0, which is the blank of CTCLoss",
    where="targets",
    source="forum threads and issues about nn.CTCLoss with blank=0 and labels that start at 0",
    accepted=("blank-in-targets",),
)
def seq_ctc_blank(faulty: bool) -> dict:
    torch.manual_seed(17)
    rng = np.random.RandomState(7)
    patterns = rng.randn(5, 8).astype(np.float32)
    samples = []
    for _ in range(800):
        text = rng.randint(0, 5, rng.randint(2, 6))
        frames = [np.repeat(patterns[c][None], rng.randint(2, 4), 0) for c in text]
        gap = np.zeros((1, 8), dtype=np.float32)
        frames = np.concatenate([np.concatenate([f, gap]) for f in frames])
        frames = frames + 0.2 * rng.randn(*frames.shape)
        ids = torch.tensor(text) if faulty else torch.tensor(text) + 1
        samples.append((torch.tensor(frames, dtype=torch.float32), ids))

    def collate(rows):
        return {
            "frames": pad_sequence([r[0] for r in rows], batch_first=True),
            "frame_lengths": torch.tensor([len(r[0]) for r in rows]),
            "targets": torch.cat([r[1] for r in rows]),
            "target_lengths": torch.tensor([len(r[1]) for r in rows]),
        }

    def compute_loss(model, batch, loss_fn):
        logp = model(batch["frames"]).transpose(0, 1)
        return loss_fn(logp, batch["targets"], batch["frame_lengths"], batch["target_lengths"])

    model = ToneSpotter(6)
    return {
        "model": model,
        "loader": DataLoader(samples, batch_size=16, shuffle=True, collate_fn=collate),
        "loss_fn": nn.CTCLoss(blank=0, zero_infinity=True),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


# ------------------------------------------------------------------ sentence pairs with BERT


@pair(
    "token_type_ids are passed in the place of attention_mask, so the first sentence of every pair is hidden",
    where="",
    source="forum threads: model(input_ids, token_type_ids, attention_mask) called by position with BertModel",
    accepted=("inverted-attention-mask", "inputs-ignored", "token-order-ignored"),
)
def seq_bert_pairs(faulty: bool) -> dict:
    from transformers import BertConfig, BertModel

    torch.manual_seed(18)
    rng = np.random.RandomState(3)
    rows = []
    for _ in range(2500):
        a, b = rng.randint(5, 25, rng.randint(3, 6)), rng.randint(5, 25, rng.randint(3, 6))
        asked, other = rng.randint(25, 29, 2)  # the question word is in the first sentence, a distractor in the second
        a[rng.randint(len(a))], b[rng.randint(len(b))] = asked, other
        rows.append((a, b, int(asked >= 27)))

    def collate(batch):
        ids, types = [], []
        for a, b, _ in batch:
            ids.append(torch.tensor([1, *a, 2, *b, 2]))
            types.append(torch.tensor([0] * (len(a) + 2) + [1] * (len(b) + 1)))
        ids = pad_sequence(ids, batch_first=True)
        return {
            "input_ids": ids,
            "token_type_ids": pad_sequence(types, batch_first=True),
            "attention_mask": (ids != 0).long(),
            "labels": torch.tensor([y for *_, y in batch]),
        }

    class PairClassifier(nn.Module):
        def __init__(self):
            super().__init__()
            config = BertConfig(
                vocab_size=30,
                hidden_size=48,
                num_hidden_layers=2,
                num_attention_heads=4,
                intermediate_size=96,
                max_position_embeddings=20,
                hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0,
                initializer_range=0.1,
            )
            self.bert = BertModel(config, add_pooling_layer=False)
            self.classifier = nn.Linear(48, 2)

        def forward(self, input_ids, token_type_ids, attention_mask):
            if faulty:
                hidden = self.bert(input_ids, token_type_ids, attention_mask).last_hidden_state
            else:
                hidden = self.bert(input_ids, attention_mask, token_type_ids).last_hidden_state
            return self.classifier(hidden[:, 0])

    def compute_loss(model, batch, loss_fn):
        logits = model(batch["input_ids"], batch["token_type_ids"], batch["attention_mask"])
        return loss_fn(logits, batch["labels"])

    model = PairClassifier()
    return {
        "model": model,
        "loader": DataLoader(rows[:2200], batch_size=32, shuffle=True, collate_fn=collate),
        "val_loader": DataLoader(rows[2200:], batch_size=50, collate_fn=collate),
        "loss_fn": nn.CrossEntropyLoss(),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.AdamW(model.parameters(), lr=1e-3),
    }


# ------------------------------------------------------------------ forecasting


@dataclass
class ForecastConfig:
    lookback: int = 36
    horizon: int = 12
    hidden: int = 64


class InstanceNormForecaster(nn.Module):
    """An MLP on windows, normalized per window and scaled back at the end."""

    def __init__(self, cfg: ForecastConfig, shift_first: bool):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(cfg.lookback, cfg.hidden), nn.GELU(), nn.Linear(cfg.hidden, cfg.horizon))
        self.shift_first = shift_first

    def forward(self, x):
        mean, std = x.mean(1, keepdim=True), x.std(1, keepdim=True) + 1e-5
        z = self.mlp((x - mean) / std)
        if self.shift_first:
            return (z + mean) * std
        return z * std + mean


class WindowDataset(Dataset):
    def __init__(self, series, cfg):
        self.series, self.cfg = series, cfg

    def __len__(self):
        return len(self.series) - self.cfg.lookback - self.cfg.horizon + 1

    def __getitem__(self, i):
        mid = i + self.cfg.lookback
        return self.series[i:mid], self.series[mid : mid + self.cfg.horizon]


@pair(
    "the forecast is scaled back with (z + mean) * std instead of z * std + mean",
    where="",
    source="tsinghua-fib-lab/Spatio-temporal-Diffusion-Point-Processes issue 9: denormalization in the wrong order",
    accepted=("training-fails", "worse-than-baseline", "unscaled-targets", "initial-loss-off"),
)
def seq_window_denorm(faulty: bool) -> dict:
    torch.manual_seed(19)
    rng = np.random.RandomState(1)
    t = np.arange(2400)
    level = np.cumsum(0.15 * rng.randn(2400)) + 3
    amp = 1 + 0.7 * np.sin(2 * np.pi * t / 400)
    series = torch.tensor(level + amp * np.sin(2 * np.pi * t / 12) + 0.1 * rng.randn(2400), dtype=torch.float32)
    cfg = ForecastConfig()
    model = InstanceNormForecaster(cfg, shift_first=faulty)
    return {
        "model": model,
        "loader": DataLoader(WindowDataset(series[:2000], cfg), batch_size=64, shuffle=True),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }
