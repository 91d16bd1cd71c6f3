"""Failing examples whose loss counts the wrong tokens."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import nbdebug
from tests.checks.position_programs import Denoiser, library_model, own_loss, program, texts
from tests.examples import failing_example
from tests.zoo.odd_texts import MASK, FillIn, hidden_words_told
from tests.zoo.samples import chain_tokens, seeded
from tests.zoo.sequences import digit_sequences


def hidden(tokens: torch.Tensor, seed: int = 0) -> torch.Tensor:
    """Choose a quarter of the tokens."""
    return torch.rand(tokens.shape, generator=seeded(seed)) < 0.25


@failing_example("visible-tokens-predicted", where="words")
def labels_the_other_way_round() -> dict[str, Any]:
    """What is masked is ignored, and what is visible is asked for."""
    tokens = chain_tokens(64)
    hide = hidden(tokens)
    labels = tokens.masked_fill(hide, -100)  # fixed: labels = tokens.masked_fill(~hide, -100)
    return {"model": FillIn(), "loader": [(tokens.masked_fill(hide, MASK), labels)], "loss_fn": nn.CrossEntropyLoss()}


@failing_example("visible-tokens-predicted", where="words")
def mask_drawn_twice() -> dict[str, Any]:
    """Inputs and labels have a mask each."""
    tokens = chain_tokens(64)
    inputs, labels = tokens.masked_fill(hidden(tokens), MASK), tokens.masked_fill(~hidden(tokens, 1), -100)
    return {"model": FillIn(), "loader": [(inputs, labels)], "loss_fn": nn.CrossEntropyLoss()}


def own_mask(inverted: bool) -> Any:
    """Return a loss that draws the mask and counts some positions only."""

    def loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        tokens = batch[0]
        hide = torch.rand(tokens.shape) < 0.3
        each = F.cross_entropy(model(tokens.masked_fill(hide, 1)).transpose(1, 2), tokens, reduction="none")
        counted = ~hide if inverted else hide
        return (each * counted).sum() / counted.sum()

    return loss


def bert(inverted: bool) -> dict[str, Any]:
    hide = hidden(texts())
    labels = texts().masked_fill(hide if inverted else ~hide, -100)
    batch = {"input_ids": texts().masked_fill(hide, 1), "labels": labels}
    return program(library_model("bert"), batch, compute_loss=own_loss)


def as_bert_does() -> dict[str, Any]:
    """Of what is asked for, a tenth is left visible and a tenth is another word."""
    asked, how = hidden(texts()), torch.rand(texts().shape, generator=seeded(2))
    inputs = texts().masked_fill(asked & (how < 0.8), 1)
    inputs = torch.where(asked & (how > 0.9), texts().roll(1, 0), inputs)
    batch = {"input_ids": inputs, "labels": texts().masked_fill(~asked, -100)}
    return program(library_model("bert"), batch, compute_loss=own_loss)


def everything_counts() -> dict[str, Any]:
    """A denoiser, which has to give back all tokens."""
    inputs = texts().masked_fill(hidden(texts()), 1)
    loss = lambda output, target: F.cross_entropy(output.transpose(1, 2), target)  # noqa: E731
    return program(Denoiser(), inputs, texts(), loss_fn=loss)


def tags_of_some_words() -> dict[str, Any]:
    """A word that occurs often has no tag; the tags are no words."""
    tokens = torch.where(hidden(texts()), 2, texts())
    loss = lambda output, target: F.cross_entropy(output.transpose(1, 2), target)  # noqa: E731
    return program(Denoiser(), tokens, (texts() * 7 % 50).masked_fill(tokens == 2, -100), loss_fn=loss)


def padded_autoencoder() -> dict[str, Any]:
    """Padding does not count."""
    there = torch.arange(12) < torch.randint(4, 11, (48, 1), generator=seeded())
    loss = lambda output, target: F.cross_entropy(output.transpose(1, 2), target, ignore_index=0)  # noqa: E731
    return program(Denoiser(), texts() * there, texts() * there, loss_fn=loss)


def findings(setup: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    report = nbdebug.diagnose(**setup, checks=["visible-tokens-predicted"], progress=False)
    assert report.results[0].status != "crashed", report.results
    return report.findings


ILL = {
    "own-mask": lambda: program(Denoiser(), texts(), compute_loss=own_mask(True)),
    "bert": lambda: bert(True),
}
SOUND = {
    "own-mask": lambda: program(Denoiser(), texts(), compute_loss=own_mask(False)),
    "bert": lambda: bert(False),
    "as-bert-does": as_bert_does,
    "everything-counts": everything_counts,
    "tags": tags_of_some_words,
    "padding": padded_autoencoder,
    "convolutions": hidden_words_told,
    "autoencoder": lambda: program(Denoiser(), texts(), texts(), loss_fn=lambda o, t: F.cross_entropy(o.mT, t)),
}


@pytest.mark.parametrize("name", ILL)
def test_visible_tokens_that_count_are_found(name: str) -> None:
    (found,) = findings(ILL[name]())
    assert found.evidence["share of counted targets that are visible"] == 1.0


@pytest.mark.parametrize("name", SOUND)
def test_masks_that_fit_and_other_tasks_are_clean(name: str) -> None:
    assert not findings(SOUND[name]())


class PatchFiller(nn.Module):
    """Fills in the hidden quarters of the rows of a digit."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.token = nn.Linear(8, 32), nn.Parameter(0.02 * torch.randn(32))
        self.mix, self.head = nn.GRU(32, 32, batch_first=True, bidirectional=True), nn.Linear(64, 8)

    def forward(self, rows: torch.Tensor, hide: torch.Tensor) -> torch.Tensor:
        return self.head(self.mix(torch.where(hide[..., None], self.token, self.embed(rows)))[0])


def patches(counts: Any, **more: Any) -> dict[str, Any]:
    """Hide rows at random and count the errors of some."""

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        hide = torch.rand(batch[0].shape[:2]) < 0.6
        error = (model(batch[0], hide) - batch[0]).square().mean(-1)
        counted = counts(hide).float()
        return (error * counted).sum() / counted.sum()

    return {"model": PatchFiller(), "loader": [(digit_sequences()[0][:64],)], "compute_loss": compute_loss} | more


@failing_example("visible-tokens-predicted", where="batch[0]")
def visible_patches_reconstructed() -> dict[str, Any]:
    """A masked autoencoder with the meaning of the mask reversed in its loss."""
    return patches(lambda hide: ~hide)


def cropped_autoencoder() -> dict[str, Any]:
    """Reconstructs a window that is drawn at random; the rest is neither seen nor asked for."""
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 8))

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        start = int(torch.randint(0, 5, ()))
        part = batch[0][:, start : start + 4]
        return F.mse_loss(model(part + 0.1 * torch.randn_like(part)), part)

    return {"model": model, "loader": [(digit_sequences()[0][:64],)], "compute_loss": compute_loss}


def dropped_inputs() -> dict[str, Any]:
    """Reconstructs all values from those that dropout leaves."""
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8))
    loss = lambda model, batch, _: F.mse_loss(model(F.dropout(batch[0], 0.5)), batch[0])  # noqa: E731
    return {"model": model, "loader": [(digit_sequences()[0][:64],)], "compute_loss": loss}


@pytest.mark.parametrize(
    "make",
    [lambda: patches(lambda hide: hide), lambda: patches(torch.ones_like), cropped_autoencoder, dropped_inputs],
    ids=["hidden", "all", "window", "dropout"],
)
def test_reconstruction_of_what_is_hidden_is_fine(make: Any) -> None:
    torch.manual_seed(0)
    report = nbdebug.diagnose(**make(), checks=["visible-tokens-predicted"], progress=False)
    assert report.results[0].status in ("clean", "skipped") and not report.findings, report.results
