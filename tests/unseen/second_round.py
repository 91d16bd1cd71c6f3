"""A second round, written after the first had been learned from: the same families in other clothes."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, default_collate

from tests.unseen import unseen
from tests.zoo.samples import cancer, digit_images, digit_rows, friedman, seeded, setup, split, topic_tokens


class HardSigmoidByHand(nn.Module):
    """A gate that is cut off at both ends, in front of a loss of probabilities by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Ten independent answers, cut off."""
        return torch.clamp(4 * self.body(x), min=0.0, max=1.0)


@unseen("clamped-output", "logits-into-bce")
def ten_answers_cut_off() -> dict[str, Any]:
    """`clamp` in place of a sigmoid, for ten labels."""
    rows, labels = digit_rows()
    return setup(HardSigmoidByHand(), split(rows, F.one_hot(labels, 10).float()), nn.BCELoss())


class TemperatureByFloat(nn.Module):
    """A temperature that is read as a number inside a block."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.head = nn.Linear(30, 24), nn.Linear(24, 1)
        self.cool = nn.Module()
        self.cool.log_t = nn.Parameter(torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Divide by a temperature that nobody learns."""
        return self.head(torch.tanh(self.mix(x) / float(self.cool.log_t.exp())))


@unseen("untrained-parameters", where=("cool", "cool.log_t"))
def temperature_as_a_float() -> dict[str, Any]:
    """`float()` on a parameter."""
    return setup(TemperatureByFloat(), split(*cancer(), batch_size=30), nn.BCEWithLogitsLoss())


@unseen("step-never-taken", "forward-fails")
def step_of_a_missing_name() -> dict[str, Any]:
    """The loop calls something that is not there."""
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 1))

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.clip_gradients(1.0)
        optimizer.step()
        return loss

    return setup(model, split(*friedman(), batch_size=32), nn.MSELoss(), train_step=step)


@unseen("step-never-taken", "parameters-missing-from-optimizer")
def functional_copy_is_trained() -> dict[str, Any]:
    """The loop trains a state dict that is never put back."""
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        weights = {k: v.detach().clone().requires_grad_() for k, v in model.state_dict().items()}
        loss = loss_fn(torch.func.functional_call(model, weights, (batch[0],)), batch[1])
        loss.backward()
        optimizer.step()
        return loss

    return setup(model, split(*digit_rows()), nn.CrossEntropyLoss(), train_step=step)


@unseen("labels-unrelated-to-inputs")
def inputs_sorted_by_length() -> dict[str, Any]:
    """The collate function sorts the texts by length and forgets their topics."""
    tokens, _, topics = topic_tokens()

    def collate(samples: list[Any]) -> Any:
        texts, labels = default_collate(samples)
        return texts[(texts > 0).sum(1).argsort(descending=True)], labels

    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.head = nn.Embedding(40, 24, padding_idx=0), nn.Linear(24, 3)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            """Average the words that are there."""
            return self.head(self.table(ids).sum(1) / (ids > 0).sum(1, keepdim=True))

    train = DataLoader(TensorDataset(tokens[:450], topics[:450]), 50, shuffle=True, collate_fn=collate)
    val = DataLoader(TensorDataset(tokens[450:], topics[450:]), 50)
    return setup(Bag(), (train, val), nn.CrossEntropyLoss(), lr=1e-2)


@unseen("split-shift", "unscaled-targets")
def logarithm_in_training_only() -> dict[str, Any]:
    """Training targets are logarithms of prices, validation targets are prices."""
    rows, target = friedman()
    price = torch.exp(8 + 0.5 * target)
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 1))
    nn.init.constant_(model[2].bias, 8.0)
    train = DataLoader(TensorDataset(rows[:600], price[:600].log()), 30, shuffle=True)
    return setup(model, (train, DataLoader(TensorDataset(rows[600:], price[600:]), 100)), nn.MSELoss())


class MeanOfTheBatch(nn.Module):
    """Takes the mean over the samples where the mean over places is meant."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv1d(8, 32, 3, padding=1), nn.Linear(32 * 8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Subtract a mean over dimension 0."""
        maps = self.conv(x[:, 0])
        return self.head(F.gelu(maps - maps.mean(dim=0, keepdim=True)).flatten(1))


@unseen("batch-mixing", where=("model", "head"))
def mean_over_the_wrong_dimension() -> dict[str, Any]:
    """`mean(dim=0)` where `mean(dim=2)` is meant."""
    return setup(MeanOfTheBatch(), split(*digit_images()), nn.CrossEntropyLoss())


class BorrowedFeature(nn.Module):
    """Joins each sample with the hidden state of its neighbor in the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 32), nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Concatenate with a rolled copy: along the samples instead of along the features."""
        hidden = torch.relu(self.first(x))
        return self.last(torch.cat([hidden, hidden.roll(1, 0)], 1))


@unseen("batch-mixing", where=("model", "last"))
def neighbor_beside_the_sample() -> dict[str, Any]:
    """`roll(1, 0)` where `roll(1, 1)` is meant: half of the features are another sample's."""
    return setup(BorrowedFeature(), split(*digit_rows()), nn.CrossEntropyLoss())


class SilentNoise(nn.Module):
    """Alpha dropout by the function, in every mode."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(64, 64), nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Forget the mode."""
        return self.b(F.alpha_dropout(F.selu(self.a(x)), 0.2, True))


@unseen("nondeterministic-eval", where=("model", "a", "b"))
def alpha_dropout_in_every_mode() -> dict[str, Any]:
    """`True` in the place of `self.training`."""
    return setup(SilentNoise(), split(*digit_rows()), nn.CrossEntropyLoss(), lr=1e-3)


@unseen("initialization-off-scale", "vanishing-gradients", "activations-off-scale")
def tiny_convolutions() -> dict[str, Any]:
    """Filters of a ten-thousandth in four layers."""
    layers = [part for _ in range(3) for part in (nn.Conv2d(16, 16, 3, padding=1), nn.ReLU())]
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), *layers, nn.Flatten(), nn.Linear(1024, 10))
    for module in model:
        if isinstance(module, nn.Conv2d):
            nn.init.normal_(module.weight, std=1e-4)
    return setup(model, split(*digit_images()), nn.CrossEntropyLoss(), lr=1e-3)


@unseen("invalid-labels", "forward-fails")
def second_head_counts_from_one() -> dict[str, Any]:
    """Two heads, and the labels of one of them count from 1."""
    rows, labels = digit_rows()

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(64, 48), nn.ReLU())
            self.even, self.digit = nn.Linear(48, 2), nn.Linear(48, 10)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            """Answer twice."""
            hidden = self.body(x)
            return self.even(hidden), self.digit(hidden)

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        even, digit = model(batch[0])
        return F.cross_entropy(even, batch[1] % 2) + F.cross_entropy(digit, batch[1])

    return setup(Both(), split(rows, labels + 1), compute_loss=compute_loss)


@unseen("non-finite-backward", where=("model", "head"))
def norm_of_an_empty_patch() -> dict[str, Any]:
    """`norm` of a difference that is zero for many samples."""

    class Patches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.head = nn.Parameter(torch.ones(8)), nn.Linear(8, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            """Measure each row of the picture by the square root of its energy."""
            return self.head(((x.view(-1, 8, 8) * self.scale) ** 2).sum(1).sqrt())

    return setup(Patches(), split(*digit_rows()), nn.CrossEntropyLoss())


@unseen("unusual-optimizer", "learning-rate-too-high", "learning-rate-too-low", "update-ratio-off")
def betas_the_wrong_way_round() -> dict[str, Any]:
    """Adam with betas (0.999, 0.9)."""
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.999, 0.9))
    return setup(model, split(*digit_rows()), nn.CrossEntropyLoss(), optimizer=optimizer)


@unseen("target-leaks-into-inputs")
def answer_in_the_last_column() -> dict[str, Any]:
    """The table still holds its answer, scaled and with a little noise."""
    rows, target = friedman()
    noise = 0.01 * torch.randn(len(rows), 1, generator=seeded(3))
    model = nn.Sequential(nn.Linear(11, 32), nn.ReLU(), nn.Linear(32, 1))
    return setup(model, split(torch.cat([rows, 0.7 * target + noise], 1), target, batch_size=32), nn.MSELoss())
