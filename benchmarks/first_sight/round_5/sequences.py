"""Sequences: attention, positions, padding, recurrent nets, modes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from benchmarks.first_sight import pair
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
from transformers import GPT2Config, GPT2LMHeadModel


class MultiHead(nn.Module):
    def __init__(self, dim: int, heads: int, permute: bool) -> None:
        super().__init__()
        self.heads, self.permute = heads, permute
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        values = F.scaled_dot_product_attention(q, k, v)
        if self.permute:
            values = values.permute(0, 2, 1, 3)
        return self.out(values.reshape(b, t, d))


class Tagger(nn.Module):
    def __init__(self, vocab: int, tags: int, length: int, permute: bool, dim: int = 32) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(vocab, dim), nn.Parameter(torch.randn(length, dim) * 0.5)
        self.attend = nn.ModuleList(MultiHead(dim, 4, permute) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2))
        self.feed = nn.ModuleList(nn.Sequential(nn.Linear(dim, 64), nn.GELU(), nn.Linear(64, dim)) for _ in range(2))
        self.head = nn.Linear(dim, tags)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.token(ids) + self.place
        for attend, norm, feed in zip(self.attend, self.norms, self.feed, strict=True):
            x = x + attend(norm(x))
            x = x + feed(x)
        return self.head(x).transpose(1, 2)


@pair(
    "After attention the heads are merged by reshape without moving the head axis back, mixing positions.",
    where="attend.0",
    source="jsbaan/transformer-from-scratch pull request 6: Fix several bugs, one critical",
    accepted=("reshape-mixes-axes",),
)
def elm_heads_merged_unpermuted(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(0)
    ids = torch.randint(0, 24, (1600, 16))
    tags = ((ids[:, :, None] == ids[:, None]).sum(2) > 1).long()
    model = Tagger(24, 2, 16, permute=not faulty)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(ids[:1300], tags[:1300]), 50, shuffle=True),
        "val_loader": DataLoader(TensorDataset(ids[1300:], tags[1300:]), 100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), 2e-3),
    }


class OrderModel(nn.Module):
    """Says which of two marks comes first."""

    def __init__(self, faulty: bool) -> None:
        super().__init__()
        self.faulty = faulty
        self.tok, self.pos = nn.Embedding(10, 24), nn.Embedding(64, 24)
        layer = nn.TransformerEncoderLayer(24, 3, 48, dropout=0.1, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 2)
        self.fc = nn.Linear(24, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.faulty:
            pos = torch.arange(x.size(0), device=x.device).unsqueeze(1)
        else:
            pos = torch.arange(x.size(1), device=x.device).unsqueeze(0)
        return self.fc(self.enc(self.tok(x) + self.pos(pos)).mean(1))


@pair(
    "Positions are counted along the batch: all tokens of one sequence get the same one.",
    where="pos",
    source="cmu-l3/anlp-fall2025-code issue 1: positional encoding fix for 05_transformers?",
    accepted=("token-order-ignored", "batch-mixing"),
)
def elm_positions_along_batch(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(1)
    x = torch.randint(2, 10, (1500, 12))
    places = torch.stack([torch.randperm(12)[:2] for _ in range(1500)])
    rows = torch.arange(1500)
    x[rows, places[:, 0]], x[rows, places[:, 1]] = 0, 1
    y = (places[:, 0] < places[:, 1]).long()
    y = torch.where((x == 5).sum(1) > 2, 1, y)
    model = OrderModel(faulty)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1200], y[:1200]), 32, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1200:], y[1200:]), 32),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.AdamW(model.parameters(), 2e-3),
    }


class _Corpus(Dataset):
    def __init__(self, n: int, seed: int, shifted: bool) -> None:
        rng = np.random.default_rng(7)
        table = np.stack([rng.permutation(20)[:3] for _ in range(20)])
        rng = np.random.default_rng(seed)
        self.ids = np.zeros((n, 24), "int64")
        self.ids[:, 0] = rng.integers(0, 20, n)
        for t in range(1, 24):
            self.ids[:, t] = table[self.ids[:, t - 1], rng.choice(3, n, p=[0.7, 0.2, 0.1])]
        self.shifted = shifted

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        ids = torch.from_numpy(self.ids[i])
        if self.shifted:
            labels = torch.cat([ids[1:], torch.tensor([-100])])
        else:
            labels = ids.clone()
        return {"input_ids": ids, "labels": labels}


@pair(
    "The labels are shifted by the dataset and once more by the model, which learns the token after the next.",
    where="batch['labels']",
    source="huggingface/transformers issue 47394 and pull request 44642: labels are shifted internally",
    accepted=("unshifted-targets",),
)
def elm_labels_shifted_twice(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(2)
    config = GPT2Config(vocab_size=20, n_positions=32, n_embd=32, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config)

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        return model(**batch).loss

    return {
        "model": model,
        "loader": DataLoader(_Corpus(400, 0, faulty), 16, shuffle=True),
        "val_loader": DataLoader(_Corpus(100, 1, faulty), 50),
        "loss_fn": None,
        "compute_loss": compute_loss,
        "optimizer": torch.optim.AdamW(model.parameters(), 3e-3),
    }


class Rater(nn.Module):
    """Predicts the mean score of a review from the mean of its words."""

    def __init__(self, masked: bool) -> None:
        super().__init__()
        self.masked = masked
        self.words = nn.Embedding(60, 16, padding_idx=0)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        hidden = self.words(input_ids)
        if self.masked:
            mask = attention_mask.unsqueeze(-1)
            pooled = (hidden * mask).sum(1) / mask.sum(1)
        else:
            pooled = hidden.mean(1)
        return self.mlp(pooled).squeeze(-1)


def _reviews(n: int, seed: int) -> list[tuple[torch.Tensor, float]]:
    rng = np.random.default_rng(seed)
    score = np.random.default_rng(5).normal(0, 1, 60)
    out = []
    for _ in range(n):
        words = rng.integers(1, 60, rng.choice([rng.integers(3, 8), rng.integers(20, 60)]))
        words = np.where(rng.random(len(words)) < 0.5, rng.integers(1, 60), words)
        out.append((torch.from_numpy(words), float(score[words].mean())))
    return out


def _pad_reviews(items: list[tuple[torch.Tensor, float]]) -> dict[str, torch.Tensor]:
    ids = nn.utils.rnn.pad_sequence([i for i, _ in items], batch_first=True)
    return {"input_ids": ids, "attention_mask": (ids != 0).float(), "labels": torch.tensor([s for _, s in items])}


@pair(
    "The mean over the words counts the padding as well.",
    where="words",
    source="dbiir/UER-py pull request 190: fix bug that mean-pooling includes pad embedding",
    accepted=("padding-dominates", "batch-mixing"),
)
def elm_mean_with_padding(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(3)
    model = Rater(masked=not faulty)

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        return loss_fn(model(batch["input_ids"], batch["attention_mask"]), batch["labels"])

    return {
        "model": model,
        "loader": DataLoader(_reviews(800, 0), 32, shuffle=True, collate_fn=_pad_reviews),
        "val_loader": DataLoader(_reviews(200, 1), 32, collate_fn=_pad_reviews),
        "loss_fn": nn.MSELoss(),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), 5e-3),
    }


class QuestionType(nn.Module):
    def __init__(self, last_valid: bool) -> None:
        super().__init__()
        self.last_valid = last_valid
        self.emb = nn.Embedding(40, 16)
        self.lstm = nn.LSTM(16, 32, batch_first=True)
        self.cls = nn.Linear(32, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out, _ = self.lstm(self.emb(x))
        if self.last_valid:
            last = (x != 0).sum(1) - 1
            return self.cls(out[torch.arange(len(x)), last])
        return self.cls(out[:, -1])


def _questions(n: int, seed: int) -> TensorDataset:
    rng = np.random.default_rng(seed)
    ids, labels = np.zeros((n, 64), "int64"), np.zeros(n, "int64")
    for i in range(n):
        length = min(63, 4 + int(rng.exponential(9)))
        ids[i, :length] = rng.integers(1, 40, length)
        labels[i] = ids[i, length - 1] // 8
    return TensorDataset(torch.from_numpy(ids), torch.from_numpy(labels))


@pair(
    "The classifier reads the LSTM's output at the last padded step instead of the last word.",
    where="lstm",
    source="thtrieu/qclass_dl issue 1 and vgel/repeng pull request 38: hidden states from last non-padding token",
    accepted=("padding-dominates",),
)
def elm_reads_last_padded_step(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(4)
    model = QuestionType(last_valid=not faulty)
    return {
        "model": model,
        "loader": DataLoader(_questions(1500, 0), 50, shuffle=True),
        "val_loader": DataLoader(_questions(300, 1), 100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), 5e-3),
    }


class BiTagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30, 16, padding_idx=0)
        self.gru = nn.GRU(16, 24, bidirectional=True, batch_first=True)
        self.project = nn.Linear(48, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.project(self.gru(self.embedding(tokens))[0])


def _sentences(n: int, seed: int) -> TensorDataset:
    """Tags: 0 other, 1 name, 2 place, 3 verb; a name follows a verb, a place follows a name."""
    rng = np.random.default_rng(seed)
    tokens, tags = np.zeros((n, 14), "int64"), np.zeros((n, 14), "int64")
    for i in range(n):
        length = rng.integers(6, 15)
        row = rng.integers(1, 30, length)
        tokens[i, :length] = row
        kind = np.where(row < 6, 3, 0)
        kind[1:][(row[:-1] < 6) & (kind[1:] == 0)] = 1
        kind[2:][(row[:-2] < 6) & (kind[2:] == 0) & (row[2:] % 2 == 0)] = 2
        tags[i, :length] = kind
    return TensorDataset(torch.from_numpy(tokens), torch.from_numpy(tags))


@pair(
    "The loss ignores index 0 as padding, but 0 is also the tag 'other', which is never learned.",
    where="loss_fn",
    source="nyu-mll/jiant issue 925: Tagger ignoring 0 class for cross_entropy",
    accepted=("class-ignored-by-loss",),
)
def elm_tag_zero_taken_for_padding(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(6)
    model = BiTagger()
    criterion = nn.CrossEntropyLoss(ignore_index=0 if faulty else -100)

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        tokens, tags = batch
        if not faulty:
            tags = tags.masked_fill(tokens == 0, -100)
        return loss_fn(model(tokens).flatten(0, 1), tags.flatten())

    return {
        "model": model,
        "loader": DataLoader(_sentences(500, 0), 25, shuffle=True),
        "val_loader": DataLoader(_sentences(150, 1), 50),
        "loss_fn": criterion,
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), 5e-3),
        "class_names": ["O", "PER", "LOC", "V"],
    }


class FMMLP(nn.Module):
    """Field-aware tower as in click prediction."""

    def __init__(self, fields: int, size: int, faulty: bool) -> None:
        super().__init__()
        self.faulty = faulty
        self.tables = nn.ModuleList(nn.Embedding(size, 8) for _ in range(fields))
        self.query = nn.Linear(8, 8)
        self.out = nn.Sequential(nn.Linear(fields * 8, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        e = torch.stack([table(x[:, i]) for i, table in enumerate(self.tables)], 1)
        scores = torch.softmax(self.query(e) @ e.transpose(1, 2) / math.sqrt(8), -1)
        scores = F.dropout(scores, p=0.5) if self.faulty else F.dropout(scores, p=0.5, training=self.training)
        return self.out((scores @ e + e).flatten(1)).squeeze(1)


@pair(
    "F.dropout is called without training=self.training and stays on in evaluation.",
    where="",
    source="rixwew/pytorch-fm issue 21: F.dropout",
    accepted=("nondeterministic-eval",),
)
def elm_functional_dropout_in_eval(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(7)
    g = torch.Generator().manual_seed(3)
    x = torch.randint(0, 12, (3000, 4), generator=g)
    effect = torch.randn(4, 12, generator=g)
    cross = torch.randn(12, 12, generator=g)
    logit = sum(effect[i][x[:, i]] for i in range(4)) + 2 * cross[x[:, 0], x[:, 1]]
    y = (torch.rand(3000, generator=g) < logit.mul(2).sigmoid()).float()
    model = FMMLP(4, 12, faulty)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:2400], y[:2400]), 64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[2400:], y[2400:]), 100),
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), 5e-3),
    }


class FCNTrainer:
    """Validates every few iterations, inside the epoch."""

    def __init__(self, model: nn.Module, val_loader: DataLoader, interval: int, restore: bool) -> None:
        self.model, self.val_loader, self.interval, self.restore = model, val_loader, interval, restore
        self.iteration, self.scores = 0, []

    @torch.no_grad()
    def validate(self) -> None:
        self.model.eval()
        hits = [(self.model(x).argmax(1) == y).float().mean().item() for x, y in self.val_loader]
        self.scores.append(float(np.mean(hits)))
        if self.restore:
            self.model.train()

    def train_step(self, model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        if self.iteration % self.interval == 0:
            self.validate()
        self.iteration += 1
        x, y = batch
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        return loss


@pair(
    "The validation inside the epoch leaves the model in evaluation mode for the steps after it.",
    where="",
    source="wkentaro/pytorch-fcn issue 57: A little bug in trainer.py; pull request 56: Return to train mode",
    accepted=("left-in-eval-mode",),
)
def elm_eval_after_validation(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(8)
    images, labels = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    x = torch.from_numpy((images + 10 + rng.normal(0, 3, images.shape)).astype("float32")).view(-1, 1, 8, 8)
    y = torch.from_numpy(labels)
    model = nn.Sequential(
        nn.BatchNorm2d(1),
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(1024, 10),
    )
    val_loader = DataLoader(TensorDataset(x[300:800], y[300:800]), 100)
    trainer = FCNTrainer(model, val_loader, 20, restore=not faulty)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:300], y[:300]), 20, shuffle=True),
        "val_loader": val_loader,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.SGD(model.parameters(), 0.003, momentum=0.9),
        "train_step": trainer.train_step,
    }
