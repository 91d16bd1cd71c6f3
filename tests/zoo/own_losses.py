"""Healthy models that compute their own loss, read by the loop in the usual ways."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

from tests.examples import healthy
from tests.zoo.samples import chain_tokens, digit_rows, friedman, setup, split
from tests.zoo.sequences import TinyGpt

FALLS = {"epochs": 8, "good": lambda first, last: last < 0.7 * first}


class NanoGpt(TinyGpt):
    """A causal decoder that returns (logits, loss), as nanoGPT does."""

    def forward(  # type: ignore[override]
        self, idx: torch.Tensor, targets: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the logits, and the loss where targets are given."""
        logits = super().forward(idx)
        loss = None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
        return logits, loss


def second_of_the_tuple(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Read the loss that the model returns behind its logits."""
    _, loss = model(batch[0], batch[1])
    return loss


def next_tokens() -> Any:
    """Return inputs and targets that the loader has shifted."""
    tokens = chain_tokens()
    return split(tokens[:, :-1], tokens[:, 1:], batch_size=32)


@healthy(**FALLS)
def nano_gpt() -> dict[str, Any]:
    """The loss is the second part of what the model returns."""
    return setup(NanoGpt(), next_tokens(), compute_loss=second_of_the_tuple)


def own_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
    """Take one step with the model's own loss."""
    optimizer.zero_grad(set_to_none=True)
    _, loss = model(*batch)
    loss.backward()
    optimizer.step()
    return loss


@healthy(**FALLS)
def nano_gpt_in_a_step() -> dict[str, Any]:
    """The same, in a loop of its own."""
    return setup(NanoGpt(), next_tokens(), compute_loss=second_of_the_tuple, train_step=own_step)


class TiedGpt(NanoGpt):
    """Takes its logits from the embedding without a module that gives them."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Identity()

    def forward(  # type: ignore[override]
        self, idx: torch.Tensor, targets: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Compare with every word's vector."""
        logits = F.linear(TinyGpt.forward(self, idx), self.words.weight)
        loss = None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return logits, loss


@healthy(epochs=14, good=lambda first, last: last < 0.7 * first)
def tied_gpt() -> dict[str, Any]:
    """No module of the model gives the logits."""
    return setup(TiedGpt(), next_tokens(), compute_loss=second_of_the_tuple)


@dataclass
class Output:
    """What a model of a library returns."""

    loss: torch.Tensor | None = None
    logits: torch.Tensor | None = None


class LabeledGpt(TinyGpt):
    """Shifts its labels by itself, as the causal models of transformers do."""

    def __init__(self) -> None:
        super().__init__(length=16)

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor | None = None) -> Output:  # type: ignore[override]
        """Compare every output with the next token."""
        logits = super().forward(input_ids)
        if labels is None:
            return Output(None, logits)
        return Output(F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()), logits)


def same_labels() -> Any:
    """Return batches whose labels are the tokens themselves."""
    tokens = list(chain_tokens())

    def collate(rows: list[torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"input_ids": torch.stack(rows), "labels": torch.stack(rows)}

    held, kept = tokens[:80], tokens[80:]
    return DataLoader(kept, 32, shuffle=True, collate_fn=collate), DataLoader(held, 80, collate_fn=collate)


def attribute(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Read `.loss`."""
    loss: torch.Tensor = model(**batch).loss
    return loss


@healthy(**FALLS)
def labeled_gpt() -> dict[str, Any]:
    """A dataclass with `.loss`, read by compute_loss."""
    return setup(LabeledGpt(), same_labels(), compute_loss=attribute)


def with_a_term(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Add a small term of the logits to the model's own loss."""
    logits, loss = model(*batch)
    return loss + 1e-3 * logits.logsumexp(-1).square().mean()


@healthy(**FALLS)
def own_loss_and_a_term() -> dict[str, Any]:
    """The loop reads both the loss and the logits."""
    return setup(NanoGpt(), next_tokens(), compute_loss=with_a_term)


class Keeper(nn.Module):
    """Leaves its loss in an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        self.loss: torch.Tensor | None = None

    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
        """Compute the loss beside the scores."""
        scores: torch.Tensor = self.net(x)
        self.loss = F.cross_entropy(scores, y) if y is not None else None
        return scores


def kept(model: nn.Module, batch: Any, loss_fn: Any) -> Any:
    """Read what the model has left."""
    model(*batch)
    return model.loss


@healthy(epochs=8, good=lambda first, last: last < 0.3 * first)
def loss_in_an_attribute() -> dict[str, Any]:
    """The loss is no part of what the model returns."""
    return setup(Keeper(), split(*digit_rows()), compute_loss=kept)


class RowLosses(nn.Module):
    """Returns its prediction and one loss for each sample."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> dict[str, Any]:
        """Compare in the model."""
        out = self.net(x)
        return {"pred": out, "losses": (out - y).square().flatten() if y is not None else None}


def mean_of_rows(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Take the mean over the samples."""
    losses: torch.Tensor = model(*batch)["losses"]
    return losses.mean()


@healthy(epochs=25, good=lambda first, last: last < 0.4 * first)
def losses_of_rows() -> dict[str, Any]:
    """The model's own loss is left unreduced."""
    return setup(RowLosses(), split(*friedman()), compute_loss=mean_of_rows)
