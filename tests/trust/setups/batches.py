"""Batches of every shape, and models that eat them."""

from __future__ import annotations

from collections import UserDict, namedtuple
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence, pad_sequence

from tests.trust.setups import case, loader, mlp, rows

VALUES, LABELS = rows().tensors
Pair = namedtuple("Pair", ["x", "y"])


class Pick(nn.Module):
    """Eats a batch whole and takes the values out by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.body = mlp()

    def forward(self, batch: Any) -> torch.Tensor:
        return self.body(batch["values"] if hasattr(batch, "keys") else batch.values)


class Named(nn.Module):
    """Eats two named inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.body = mlp()

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return self.body(torch.cat([left, right], 1))


def two(batch: Any) -> list[Any]:
    """Return a short list of batches."""
    return [batch, batch]


@case()
def tuple_batches() -> dict[str, Any]:
    return {"model": mlp(), "loader": two((VALUES[:8].clone(), LABELS[:8].clone()))}


@case()
def list_batches() -> dict[str, Any]:
    return {"model": mlp(), "loader": two([VALUES[:8].clone(), LABELS[:8].clone()])}


@case()
def with_meta() -> dict[str, Any]:
    return {"model": mlp(), "loader": two((VALUES[:8], LABELS[:8], {"path": ["a"] * 8}))}


@case(quick=True)
def dict_with_labels() -> dict[str, Any]:
    return {"model": Named(), "loader": two({"left": VALUES[:8, :3], "right": VALUES[:8, 3:], "labels": LABELS[:8]})}


@case()
def user_dict() -> dict[str, Any]:
    return {"model": Pick(), "loader": two(UserDict(values=VALUES[:8], labels=LABELS[:8]))}


class Encoding(UserDict):
    """What a tokenizer gives: a mapping-like whose `to` changes it in place."""

    def to(self, device: Any) -> Encoding:
        self.data = {key: value.to(device) for key, value in self.data.items()}
        return self


@case(quick=True)
def tokenizer_encoding_and_own_loss() -> dict[str, Any]:
    class Language(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(9, 8), nn.Linear(8, 9)

        def forward(self, input_ids: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, Any]:
            logits = self.head(self.embed(input_ids))
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()) if labels is not None else None
            return {"loss": loss, "logits": logits}

    ids = torch.randint(0, 9, (8, 4))
    return {"model": Language(), "loader": two(Encoding(input_ids=ids, labels=ids.roll(-1, 1)))}


@dataclass
class Sample:
    """A batch as a dataclass."""

    values: torch.Tensor
    labels: torch.Tensor


@dataclass(frozen=True)
class Frozen:
    """A batch as a frozen dataclass."""

    values: torch.Tensor
    labels: torch.Tensor


@case()
def dataclass_batches() -> dict[str, Any]:
    return {"model": Pick(), "loader": two(Sample(VALUES[:8], LABELS[:8]))}


@case()
def frozen_dataclass_batches() -> dict[str, Any]:
    return {"model": Pick(), "loader": two(Frozen(VALUES[:8], LABELS[:8]))}


@case()
def named_tuples() -> dict[str, Any]:
    return {"model": mlp(), "loader": two(Pair(VALUES[:8], LABELS[:8]))}


@case()
def nested_inputs() -> dict[str, Any]:
    return {"model": Named(), "loader": two(((VALUES[:8, :3], VALUES[:8, 3:]), LABELS[:8]))}


@case()
def several_inputs() -> dict[str, Any]:
    return {"model": Named(), "loader": two((VALUES[:8, :3], VALUES[:8, 3:], LABELS[:8]))}


@case()
def autoencoder_without_target() -> dict[str, Any]:
    model = nn.Sequential(nn.Linear(6, 2), nn.Linear(2, 6))
    return {"model": model, "loader": [VALUES[:8].clone(), VALUES[8:16].clone()]}


@case()
def ragged_with_a_collate() -> dict[str, Any]:
    class Ragged(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = nn.GRU(3, 5, batch_first=True), nn.Linear(5, 2)

        def forward(self, sequences: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            states, _ = self.cell(sequences)
            return self.head(states[torch.arange(len(lengths)), lengths - 1])

    def collate(samples: list[tuple[torch.Tensor, int]]) -> Any:
        sequences = [sample for sample, _ in samples]
        lengths = torch.tensor([len(sequence) for sequence in sequences])
        return pad_sequence(sequences, batch_first=True), lengths, torch.tensor([label for _, label in samples])

    data = [(torch.randn(2 + index % 4, 3), index % 2) for index in range(16)]
    return {"model": Ragged(), "loader": loader(data, collate_fn=collate), "loss_fn": nn.CrossEntropyLoss()}


@case()
def packed_sequences() -> dict[str, Any]:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = nn.LSTM(3, 5), nn.Linear(5, 2)

        def forward(self, packed: PackedSequence) -> torch.Tensor:
            return self.head(self.cell(packed)[1][0][0])

    packed = pack_sequence([torch.randn(4, 3), torch.randn(3, 3), torch.randn(2, 3)])
    return {"model": Packed(), "loader": two((packed, torch.tensor([0, 1, 0])))}


@case(quick=True)
def forward_writes_into_its_input() -> dict[str, Any]:
    class InPlace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = mlp()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x.mul_(0.5)
            return self.body(x)

    return {"model": InPlace(), "loader": two((VALUES[:8].clone(), LABELS[:8].clone()))}


@case()
def nan_everywhere() -> dict[str, Any]:
    return {"model": mlp(), "loader": two((torch.full((8, 6), float("nan")), LABELS[:8]))}


@case()
def forward_fails() -> dict[str, Any]:
    return {"model": nn.Linear(5, 3), "loader": loader(), "loss_fn": nn.CrossEntropyLoss()}


@case()
def loader_and_model_in_different_precision() -> dict[str, Any]:
    return {"model": mlp().double(), "loader": loader(), "loss_fn": nn.CrossEntropyLoss()}
