"""Losses that leave a class out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.checks.networks import alarms, loader
from tests.examples import failing_example
from tests.loops import mlp
from tests.zoo.samples import seeded
from tests.zoo.tabular import digits

CHECK = "class-ignored-by-loss"


def setup(loss_fn: Any, **more: Any) -> dict[str, Any]:
    """Train on digits with this loss."""
    model = mlp()
    return {
        "model": model, "loader": digits(), "loss_fn": loss_fn,
        "optimizer": torch.optim.Adam(model.parameters(), 1e-3), **more,
    }  # fmt: skip


@failing_example(CHECK, where="loss_fn")
def zeros_are_ignored() -> dict[str, Any]:
    """The index of the padding, in a task without padding."""
    return setup(nn.CrossEntropyLoss(ignore_index=0))  # fixed: return setup(nn.CrossEntropyLoss())


@failing_example(CHECK, where="loss_fn")
def a_class_weighs_nothing() -> dict[str, Any]:
    """The weights were computed with one class missing."""
    return setup(None, compute_loss=weighted(torch.tensor([1.0] * 7 + [0.0] + [1.0] * 2)))


def weighted(weight: torch.Tensor) -> Any:
    """Return a loss with log-probabilities and class weights."""

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        return nn.functional.nll_loss(model(batch[0]).log_softmax(1), batch[1], weight)

    return compute_loss


@failing_example(CHECK, where="loss_fn")
def ignored_in_a_step() -> dict[str, Any]:
    """A bare step and another model."""
    model = nn.Sequential(nn.Unflatten(1, (1, 8)), nn.Conv1d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(24, 2))

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch[0]), batch[1], ignore_index=1)
        loss.backward()
        optimizer.step()
        return loss

    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    return {"model": model, "loader": loader(targets=True), "optimizer": optimizer, "train_step": step}


def tokens(flat: bool) -> dict[str, Any]:
    """Return tags of words with padding 0."""
    generator = torch.Generator().manual_seed(3)
    words = torch.randint(1, 20, (64, 6), generator=generator)
    words[::2, 4:] = 0
    model = nn.Sequential(nn.Embedding(20, 8, padding_idx=0), nn.Linear(8, 5))

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        said, wanted = model(batch[0]), batch[0].remainder(5) * (batch[0] > 0)
        if flat:
            return nn.functional.cross_entropy(said.flatten(0, 1), wanted.flatten(), ignore_index=0)
        return nn.functional.cross_entropy(said.transpose(1, 2), wanted, ignore_index=0)

    batches = DataLoader(TensorDataset(words), 16)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    return {"model": model, "loader": batches, "compute_loss": compute_loss, "optimizer": optimizer}


@pytest.mark.parametrize(
    "make",
    [
        lambda: setup(nn.CrossEntropyLoss()),
        lambda: setup(nn.CrossEntropyLoss(ignore_index=-1, label_smoothing=0.1)),
        lambda: setup(None, compute_loss=weighted(torch.linspace(0.1, 2, 10))),
        lambda: tokens(True),
        lambda: tokens(False),
    ],
    ids=["plain", "outside", "weighted", "flat tokens", "tokens"],
)
def test_silent(make: Any) -> None:
    assert not alarms(CHECK, **make())


def test_samples_without_a_label_are_no_class() -> None:
    """A loss may count only some of the samples, whatever their class: a class is tried on every one of them."""
    known = torch.zeros(32, dtype=torch.bool)
    known[::5] = True  # so that each of ten classes, in turn, would meet the same few samples

    def partly(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        each = nn.functional.cross_entropy(scores, labels, reduction="none")
        return (each * known[: len(each)].float()).sum() / known[: len(each)].sum() + 1e-4 * each.mean()

    assert not alarms(CHECK, **setup(partly))


class Writer(nn.Module):
    """A language model that reads on."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.gru, self.head = nn.Embedding(20, 16), nn.GRU(16, 32, batch_first=True), nn.Linear(32, 20)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Score the next token."""
        return self.head(self.gru(self.words(input_ids) * attention_mask[..., None])[0])


def counting(labels: Any) -> dict[str, Any]:
    """Return texts that count up to an end, which is the padding as well; `labels` says what the loss asks for."""
    steps, end = torch.arange(12), 19
    drawn = seeded(3)
    starts, lengths = torch.randint(0, 8, (64, 1), generator=drawn), torch.randint(4, 11, (64, 1), generator=drawn)
    ids = torch.where(steps < lengths, starts + steps, end)
    mask = (steps <= lengths).long()
    batch = {"input_ids": ids, "attention_mask": mask, "labels": labels(ids, mask, end)}

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        scores = model(batch["input_ids"], batch["attention_mask"])
        return nn.functional.cross_entropy(scores[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten())

    return {"model": Writer(), "loader": [batch, batch], "compute_loss": compute_loss}


@failing_example(CHECK, where="labels")
def the_end_is_padding() -> dict[str, Any]:
    """All padding is ignored, and with it the token that ends each text."""
    return counting(lambda ids, mask, end: ids.masked_fill(ids == end, -100))


@pytest.mark.parametrize(
    "labels",
    [
        lambda ids, mask, end: ids.masked_fill(mask == 0, -100),
        lambda ids, mask, end: ids,
        lambda ids, mask, end: ids.masked_fill((ids == end) | (torch.arange(12) < 6), -100),
    ],
    ids=["by mask", "all", "prompts"],
)
def test_texts_that_end_are_fine(labels: Any) -> None:
    """The end counts, or whole parts of the texts are left out."""
    assert not alarms(CHECK, **counting(labels))
