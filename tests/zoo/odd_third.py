"""Healthy set-ups of a third round: schedules that begin at nothing, losses below zero, labels in one row."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.optim.lr_scheduler import LambdaLR, LinearLR
from torch.utils.data import DataLoader

from tests.examples import healthy
from tests.zoo.losses import mlp
from tests.zoo.samples import digit_rows, seeded, setup, split


@healthy(epochs=8, accuracy=0.85)
def warm_up_from_a_hundredth() -> dict[str, Any]:
    """The optimizer stands at a hundredth of its rate when the debugger meets it, as `LinearLR` leaves it."""
    model = mlp(64, 10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = LinearLR(optimizer, 0.01, 1.0, 30)
    return setup(model, split(*digit_rows()), nn.CrossEntropyLoss(), optimizer=optimizer, scheduler=scheduler)


@healthy(epochs=8, accuracy=0.85)
def warm_up_inside_the_step() -> dict[str, Any]:
    """A rate that begins at zero, and a scheduler that only the user's own step knows of."""
    model = mlp(64, 10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = LambdaLR(optimizer, lambda step: min(step / 30, 1.0))

    def train_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        rows, labels = batch
        optimizer.zero_grad()
        loss = loss_fn(model(rows), labels)
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss

    return setup(model, split(*digit_rows()), nn.CrossEntropyLoss(), optimizer=optimizer, train_step=train_step)


class SimSiam(nn.Module):
    """Two views that foretell each other; the loss begins at 0 and ends near -1."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 32))
        self.whiten = nn.BatchNorm1d(32, affine=False)
        self.foretell = nn.Sequential(nn.Linear(32, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 32))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the mean cosine of each view's prediction with the other view, negative."""
        views = (rows + 0.1 * torch.randn_like(rows) for _ in range(2))
        codes = [self.whiten(self.encoder(view)) for view in views]
        pairs = ((codes[0], codes[1]), (codes[1], codes[0]))
        return -sum(F.cosine_similarity(self.foretell(a), b.detach()).mean() for a, b in pairs) / 2


def cosines(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """The model gives its own loss."""
    return model(batch[0])


@healthy(epochs=8, good=lambda first, last: last < first - 0.1 and last < -0.6)
def two_views_without_negatives() -> dict[str, Any]:
    """SimSiam with the stop-gradient, by SGD with momentum."""
    model = SimSiam()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    return setup(model, split(digit_rows()[0], batch_size=128), compute_loss=cosines, optimizer=optimizer)


def utterances() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return frames of made sounds, each two or three frames long with a pause behind, and what was said."""
    generator = seeded(3)
    sounds, made = torch.randn(6, 8, generator=generator), []
    for _ in range(320):
        said = torch.randint(1, 6, (int(torch.randint(2, 5, (), generator=generator)),), generator=generator)
        lengths = torch.randint(2, 4, (len(said),), generator=generator)
        spoken = [s for one, n in zip(said.tolist(), lengths.tolist(), strict=True) for s in [one] * n + [0]]
        clean = sounds[spoken]
        made.append((clean + 0.2 * torch.randn(clean.shape, generator=generator), said))
    return made


def labels_in_one_row(samples: list[Any]) -> dict[str, torch.Tensor]:
    """Pad the frames, and put all labels behind one another, as `CTCLoss` likes them best."""
    frames, said = zip(*samples, strict=True)
    return {
        "frames": pad_sequence(list(frames), batch_first=True),
        "frame_counts": torch.tensor([len(f) for f in frames]),
        "labels": torch.cat(said),
        "label_counts": torch.tensor([len(s) for s in said]),
    }


class Listener(nn.Module):
    """A small recurrent network over frames."""

    def __init__(self) -> None:
        super().__init__()
        self.memory, self.head = nn.GRU(8, 32, bidirectional=True, batch_first=True), nn.Linear(64, 6)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        """Return the log-probabilities of each frame's sound, time first."""
        return self.head(self.memory(frames)[0]).log_softmax(-1).transpose(0, 1)


def connectionist(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """Compare frames with labels that are not aligned."""
    return loss_fn(model(batch["frames"]), batch["labels"], batch["frame_counts"], batch["label_counts"])


@healthy(epochs=8, good=lambda first, last: last < 0.3 * first)
def speech_by_ctc() -> dict[str, Any]:
    """A batch of which one part cannot be cut as the others are."""
    model = Listener()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loader = DataLoader(utterances(), 16, shuffle=True, collate_fn=labels_in_one_row)  # type: ignore[arg-type]
    loss_fn = nn.CTCLoss(zero_infinity=True)
    return {
        "model": model, "loader": loader, "loss_fn": loss_fn, "optimizer": optimizer, "compute_loss": connectionist,
    }  # fmt: skip
