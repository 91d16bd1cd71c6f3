"""A third round: what goes wrong before the model and around the step."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from tests.unseen import unseen
from tests.zoo.losses import mlp
from tests.zoo.samples import chain_tokens, digit_rows, setup, split


class ShiftedInPlace(Dataset[Any]):
    """Augments the rows that it keeps."""

    def __init__(self) -> None:
        rows, labels = digit_rows()
        self.rows, self.labels = rows.numpy().copy(), labels

    def __len__(self) -> int:
        """Count the samples."""
        return len(self.labels)

    def __getitem__(self, index: int) -> Any:
        """Add noise to a row."""
        row = self.rows[index]
        row += 0.5 * torch.randn(64).numpy()
        return torch.from_numpy(row.copy()), self.labels[index]


@unseen("preprocessing-mutates-data")
def noise_that_stays() -> dict[str, Any]:
    """`+=` on a view of the array."""
    model = mlp(64, 10)
    loader = DataLoader(ShiftedInPlace(), 64, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    return {"model": model, "loader": loader, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


class PlaceOfTheSample(nn.Module):
    """A recurrent reader whose places are those of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(12, 24), nn.Embedding(512, 24)
        self.mix, self.head = nn.GRU(24, 32, batch_first=True), nn.Linear(32, 12)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the next word."""
        x = self.words(tokens) + 3 * self.places(torch.arange(tokens.shape[0]))[:, None]
        return self.head(self.mix(x)[0][:, -1])


@unseen("batch-mixing", "hardcoded-batch-size")
def place_in_the_batch() -> dict[str, Any]:
    """shape[0] for shape[1]: what a sample gets depends on where in the batch it stands."""
    tokens = chain_tokens(600)
    return setup(PlaceOfTheSample(), split(tokens[:, :-1], tokens[:, -1]), nn.CrossEntropyLoss())
