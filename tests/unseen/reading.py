"""Inputs that are read wrongly: padding, branches that lead nowhere, states and noise that stay."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.unseen import unseen
from tests.zoo.samples import digit_rows, setup, split, topic_tokens


class MeanOverEverything(nn.Module):
    """A bag of words that averages padding with the words."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(41, 24)
        self.net = nn.Sequential(nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 3))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Average over all places."""
        return self.net(self.table(ids).mean(1))


@unseen("padding-dominates")
def padding_in_the_average() -> dict[str, Any]:
    """Texts are padded to sixty places, of which most are empty."""
    tokens, _, topics = topic_tokens()
    return setup(
        MeanOverEverything(), split(F.pad(tokens, (0, 40)), topics, batch_size=32), nn.CrossEntropyLoss(), lr=1e-2
    )


class InvertedMask(nn.Module):
    """A transformer whose padding mask says True where the words are."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(41, 32)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.head = nn.Linear(32, 3)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Attend to everything but the words."""
        ids = F.pad(ids, (0, 1))
        return self.head(self.layer(self.table(ids), src_key_padding_mask=ids != 0)[:, 0])


@unseen("padding-dominates", "inputs-ignored")
def mask_upside_down() -> dict[str, Any]:
    """Words are masked, padding is read."""
    tokens, _, topics = topic_tokens()
    return setup(InvertedMask(), split(tokens, topics, batch_size=32), nn.CrossEntropyLoss(), lr=1e-3)


class Twice(nn.Module):
    """A picture and a table; the picture is joined with itself."""

    def __init__(self) -> None:
        super().__init__()
        self.picture, self.table = nn.Linear(48, 32), nn.Linear(16, 32)
        self.head = nn.Linear(64, 10)

    def forward(self, picture: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        """Join the wrong two."""
        seen, _read = F.relu(self.picture(picture)), F.relu(self.table(table))
        return self.head(torch.cat([seen, seen], 1))


@unseen("inputs-ignored", "untrained-parameters", where=("table", "args[1]", "batch[1]", "1", "table.weight"))
def second_branch_not_joined() -> dict[str, Any]:
    """The second input has no influence."""
    rows, labels = digit_rows()
    return setup(Twice(), split(rows[:, :48], rows[:, 48:], labels), nn.CrossEntropyLoss())


class FixedState(nn.Module):
    """A recurrent network that makes its first state for 64 samples."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.GRU(8, 24, batch_first=True), nn.Linear(24, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Begin at zero."""
        return self.head(self.rnn(x, torch.zeros(1, 64, 24))[0][:, -1])


@unseen("hardcoded-batch-size", "forward-fails")
def state_for_sixty_four() -> dict[str, Any]:
    """The batch size is written into the model."""
    rows, labels = digit_rows()
    return setup(FixedState(), split(rows.view(-1, 8, 8), labels), nn.CrossEntropyLoss(), lr=5e-3)


class Carried(nn.Module):
    """A recurrent network that carries its state from batch to batch, graph and all."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head, self.state = nn.GRU(8, 24, batch_first=True), nn.Linear(24, 10), None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Go on where the last batch ended."""
        start = self.state if self.state is not None and self.state.shape[1] == len(x) else None
        states, self.state = self.rnn(x, start)
        return self.head(states[:, -1])


@unseen("forward-fails", "graph-kept-alive", "not-reproducible", "nondeterministic-eval", "step-never-taken")
def state_carried_with_its_graph() -> dict[str, Any]:
    """The second backward pass goes through the first graph."""
    rows, labels = digit_rows()
    return setup(Carried(), split(rows.view(-1, 8, 8), labels), nn.CrossEntropyLoss(), lr=5e-3)


class FreshDropout(nn.Module):
    """Dropout that is made anew at every pass, and so never hears of eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(64, 96), nn.Linear(96, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Drop, always."""
        return self.b(nn.Dropout(0.4)(torch.relu(self.a(x))))


@unseen("nondeterministic-eval", where=("model", "a", "b"))
def dropout_made_in_forward() -> dict[str, Any]:
    """`nn.Dropout(0.4)(x)` inside `forward`."""
    return setup(FreshDropout(), split(*digit_rows()), nn.CrossEntropyLoss())
