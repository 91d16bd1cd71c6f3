"""Pairs on texts: topics, language models, and a model of Hugging Face."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.bisect_pairs import pair
from tests.zoo.samples import chain_tokens, topic_tokens


class Bag(nn.Module):
    """The mean of the words' embeddings, and a layer."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.words = nn.Embedding(40, width, padding_idx=0)
        self.hidden, self.drop, self.head = nn.Linear(width, width), nn.Dropout(dropout), nn.Linear(width, 3)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        counted = (tokens > 0).float().unsqueeze(-1)
        mean = (self.words(tokens) * counted).sum(1) / counted.sum(1).clamp(min=1)
        return self.head(self.drop(torch.relu(self.hidden(mean))))


def topics(
    *,
    batch: int = 32,
    lr: float = 3e-3,
    decay: float = 0.0,
    seed: int = 0,
    eps: float = 1e-8,
    width: int = 32,
    dropout: float = 0.0,
    only: str = "",
) -> dict[str, Any]:
    """Classify short texts."""
    torch.manual_seed(seed)
    tokens, _, labels = topic_tokens()
    model = Bag(width, dropout)
    trained = [p for name, p in model.named_parameters() if name.startswith(only)]
    optimizer = torch.optim.Adam(trained, lr, weight_decay=decay, eps=eps)
    loader = DataLoader(TensorDataset(tokens, labels), batch, shuffle=True)
    return {"model": model, "loader": loader, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


class Recurrent(nn.Module):
    """A GRU that predicts the next token."""

    def __init__(self, width: int, scale: float) -> None:
        super().__init__()
        self.words, self.rnn = nn.Embedding(12, width), nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, 12)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.mul_(scale)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(self.words(tokens))[0])


def next_token(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Compare every prediction with the token after it."""
    (tokens,) = batch
    output = model(tokens[:, :-1])
    return functional.cross_entropy(output.flatten(0, 1), tokens[:, 1:].flatten())


def order_mixed(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Compare predictions with tokens of other sequences, because one of the two is transposed first."""
    (tokens,) = batch
    output = model(tokens[:, :-1])
    return functional.cross_entropy(output.transpose(0, 1).flatten(0, 1), tokens[:, 1:].flatten())


def language(
    *,
    batch: int = 16,
    lr: float = 5e-3,
    decay: float = 0.0,
    seed: int = 0,
    beta: float = 0.9,
    scale: float = 1.0,
    compute_loss: Any = next_token,
) -> dict[str, Any]:
    """Train a small language model with a loss of its own."""
    torch.manual_seed(seed)
    model = Recurrent(32, scale)
    optimizer = torch.optim.Adam(model.parameters(), lr, betas=(beta, 0.999), weight_decay=decay)
    loader = DataLoader(TensorDataset(chain_tokens()), batch, shuffle=True)
    return {"model": model, "loader": loader, "optimizer": optimizer, "compute_loss": compute_loss}


def bert(
    *, batch: int = 32, lr: float = 2e-3, decay: float = 0.01, seed: int = 0, beta: float = 0.9, only: str = "",
    spread: float = 0.02,
) -> dict[str, Any]:  # fmt: skip
    """Classify short texts with a tiny BERT."""
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(seed)
    tokens, _, labels = topic_tokens()
    config = BertConfig(
        vocab_size=40, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, num_labels=3,
        max_position_embeddings=24, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(spread / 0.02 if parameter.dim() > 1 else 1.0)
    trained = [p for name, p in model.named_parameters() if name.startswith(only)]
    rows = [
        {"input_ids": t, "attention_mask": (t > 0).long(), "labels": y} for t, y in zip(tokens, labels, strict=True)
    ]
    optimizer = torch.optim.AdamW(trained, lr, betas=(beta, 0.999), weight_decay=decay)
    return {"model": model, "loader": DataLoader(rows, batch, shuffle=True), "optimizer": optimizer}


HARMLESS = {"batch": 40, "lr": 2.5e-3, "decay": 1e-6, "seed": 3, "eps": 1e-7}
LANGUAGE_HARMLESS = {"batch": 20, "lr": 4e-3, "decay": 1e-6, "seed": 3, "beta": 0.88}
BERT_HARMLESS = {"batch": 40, "lr": 1.7e-3, "decay": 0.02, "seed": 3, "beta": 0.88}

pair("text, rate", "text", topics, "learning rate", held_out=False, **HARMLESS | {"lr": 1e-7})
pair("language model, transposed", "language model", language, "compute_loss", held_out=False, compute_loss=order_mixed,
     **LANGUAGE_HARMLESS)  # fmt: skip
pair("BERT, head's bias only", "Hugging Face", bert, "trained parameters", held_out=False, only="classifier.bias",
     **BERT_HARMLESS)  # fmt: skip

pair("text, head missing", "text", topics, "trained parameters", held_out=True, only="head.bias", **HARMLESS)
pair("text, both learn", "text", topics, "", held_out=True, width=36, dropout=0.1, **HARMLESS)
pair("language model, weights", "language model", language, "initial weights", held_out=True, scale=30.0,
     **LANGUAGE_HARMLESS)  # fmt: skip
pair("BERT, weight decay", "Hugging Face", bert, "weight decay", held_out=True, **BERT_HARMLESS | {"decay": 400.0})
