"""A fourth round: what goes wrong in tutorials on texts and series, as forums tell it."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from tests.unseen import unseen
from tests.zoo.samples import setup, split
from tests.zoo.tutorial_texts import (
    CharacterModel,
    Characters,
    Forecaster,
    Sentiment,
    TextTransformer,
    clipped_step,
    prose,
    review_loaders,
    warmed,
    waves,
)


class TimeFirst(Sentiment):
    """`batch_first` was forgotten, and nothing is packed."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(32, 32, num_layers=2, bidirectional=True)

    def forward(self, text: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Take the last step of what are samples."""
        return self.fc(self.lstm(self.embedding(text))[0][:, -1])


@unseen("batch-mixing", where="lstm")
def lstm_over_the_samples() -> dict[str, Any]:
    """The LSTM reads from sample to sample."""
    return setup(TimeFirst(), review_loaders(), nn.CrossEntropyLoss())


class LastStep(Sentiment):
    """The last step of a padded text is padding."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.fc = nn.LSTM(32, 32, batch_first=True), nn.Linear(32, 2)

    def forward(self, text: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Do not ask how long the text is."""
        return self.fc(self.lstm(self.embedding(text))[0][:, -1])


@unseen("padding-dominates", "inputs-ignored")
def last_step_is_padding() -> dict[str, Any]:
    """`out[:, -1]` of texts that end before."""
    return setup(LastStep(), review_loaders(), nn.CrossEntropyLoss())


class MaskedWords(TextTransformer):
    """True means that a word counts, they thought."""

    def forward(self, text: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Mask the words in the place of the padding."""
        words = text != 0
        x = self.encoder(self.positions(self.embedding(text) * math.sqrt(32)), src_key_padding_mask=words)
        return self.fc(x.mean(1))


@unseen("inverted-attention-mask", "padding-dominates", "inputs-ignored", "non-finite-forward")
def mask_the_wrong_way() -> dict[str, Any]:
    """`src_key_padding_mask` is True where nothing is to be seen."""
    model = MaskedWords()
    return setup(model, review_loaders(), nn.CrossEntropyLoss(), **warmed(model))


class AcrossTheBatch(TextTransformer):
    """The layers expect time first."""

    def __init__(self) -> None:
        super().__init__(batch_first=False)

    def forward(self, text: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Attend over what are samples."""
        return self.fc(self.encoder(self.positions(self.embedding(text))).mean(1))


@unseen("batch-mixing", where="encoder")
def attention_across_the_batch() -> dict[str, Any]:
    """The default of `TransformerEncoderLayer`."""
    model = AcrossTheBatch()
    return setup(model, review_loaders(), nn.CrossEntropyLoss(), **warmed(model))


@unseen("unshifted-targets", "target-leaks-into-inputs", "causal-leak")
def character_itself() -> dict[str, Any]:
    """The target was not moved by one."""
    data = Characters(prose(), shift=0)
    model = CharacterModel(len(data.vocabulary))
    loader = DataLoader(data, 16, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    return {"model": model, "loader": loader, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


class BothWays(CharacterModel):
    """A language model that reads from both ends."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__(vocabulary)
        self.lstm = nn.LSTM(24, 48, batch_first=True, bidirectional=True)


@unseen("causal-leak", where=("lstm", "model"))
def language_from_both_ends() -> dict[str, Any]:
    """`bidirectional=True` for the next character."""
    data = Characters(prose())
    model = BothWays(len(data.vocabulary))
    loader = DataLoader(data, 16, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    return {"model": model, "loader": loader, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


@unseen("target-leaks-into-inputs", "unshifted-targets")
def window_too_long() -> dict[str, Any]:
    """The window of the past holds the value that is asked for."""
    series = waves()
    data = split(series[:, :27, None], series[:, 26:27], batch_size=32)
    return setup(Forecaster(1), data, nn.MSELoss(), 5e-3, train_step=clipped_step)


@unseen("incompatible-target-shape")
def series_without_its_column() -> dict[str, Any]:
    """(N, 1) against (N,)."""
    series = waves()
    return setup(Forecaster(1), split(series[:, :26, None], series[:, 26], batch_size=32), nn.MSELoss(), 5e-3)


def falling_step(scheduler: Any) -> Any:
    """Step the scheduler with every batch, though it was made for epochs."""

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        loss = clipped_step(model, batch, loss_fn, optimizer)
        scheduler.step()
        return loss

    return step


@unseen("schedule-reaches-zero", "learning-rate-too-low", "update-ratio-off")
def epochs_counted_in_batches() -> dict[str, Any]:
    """The rate falls to a tenth with every batch."""
    series, model = waves(), Forecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.1)
    data = split(series[:, :26, None], series[:, 26:], batch_size=32)
    return setup(model, data, nn.MSELoss(), optimizer=optimizer, train_step=falling_step(scheduler))
