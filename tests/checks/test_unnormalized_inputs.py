"""Failing examples whose inputs have the wrong size."""

from __future__ import annotations

from typing import Any

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import cancer, diabetes, digit_images, digit_rows, seeded


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs))


def convolutions(*first: nn.Module) -> nn.Sequential:
    return nn.Sequential(*first, nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))


def setup(model: nn.Module, *columns: torch.Tensor, loss_fn: Any = None) -> dict[str, Any]:
    loader = DataLoader(TensorDataset(*columns), 64, shuffle=True)
    return {"model": model, "loader": loader, "loss_fn": loss_fn or nn.CrossEntropyLoss()}


@failing_example("unnormalized-inputs", where="0")
def raw_pixels() -> dict[str, Any]:
    """Pixels of 0 to 255."""
    images, labels = digit_images()
    return setup(convolutions(), images * 255, labels)  # fixed: return setup(convolutions(), images, labels)


@failing_example("unnormalized-inputs", where="0")
def divided_twice() -> dict[str, Any]:
    """Pixels divided by 255 in the data set and once more in the loop."""
    rows, labels = digit_rows()
    return setup(mlp(64, 10), rows / 255, labels)


@failing_example("unnormalized-inputs", where="0")
def raw_table() -> dict[str, Any]:
    """Measurements in the units that they were taken in."""
    rows, labels = load_breast_cancer(return_X_y=True)
    return setup(mlp(30, 2), torch.tensor(rows, dtype=torch.float32), torch.tensor(labels))


class Recurrent(nn.Module):
    """Predicts from a series of temperatures."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.GRU(1, 16, batch_first=True), nn.Linear(16, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(x)[0][:, -1])


@failing_example("unnormalized-inputs", where="rnn")
def temperatures_in_kelvin() -> dict[str, Any]:
    """A series far from zero."""
    series = 290 + 8 * torch.randn(300, 12, 1, generator=seeded()).cumsum(1) / 4
    return setup(Recurrent(), series, (series.mean(1) - 290) / 8, loss_fn=nn.MSELoss())


def alarms(model: nn.Module, *columns: torch.Tensor, loss_fn: Any = None) -> list[str]:
    report = nbdebug.diagnose(
        **setup(model, *columns, loss_fn=loss_fn),
        checks=["unnormalized-inputs", "feature-scales-differ"],
        progress=False,
    )
    assert not [r for r in report.results if r.status == "crashed"]
    return [str(f) for f in report.alarms]


class Scales(nn.Module):
    """Scales by hand before anything else."""

    def __init__(self, body: nn.Module, how: str) -> None:
        super().__init__()
        self.body, self.how = body, how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.how == "divide":
            return self.body(x / 255)
        if self.how == "fixed":
            return self.body((x - 100) / 120)
        return self.body((x - x.mean((1, 2, 3), keepdim=True)) / (x.std((1, 2, 3), keepdim=True) + 1e-5))


def test_scaling_inside_the_model_is_healthy() -> None:
    images, labels = digit_images()
    for how in ("divide", "fixed", "own"):
        assert not alarms(Scales(convolutions(), how), images * 255, labels), how


def test_normalizing_layers_are_healthy() -> None:
    images, labels = digit_images()
    for norm in (nn.BatchNorm2d(1), nn.InstanceNorm2d(1), nn.GroupNorm(1, 1), nn.LayerNorm([1, 8, 8])):
        assert not alarms(convolutions(norm), images * 255, labels), norm
    behind = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    assert not alarms(behind, images * 255, labels)


def test_usual_ranges_are_healthy() -> None:
    images, labels = digit_images()
    rows, _ = digit_rows()
    for shift in (0.0, 0.5):
        assert not alarms(convolutions(), images - shift, labels)
    assert not alarms(mlp(64, 10), rows * 16, labels)
    assert not alarms(mlp(64, 10), (rows > 0.5).float(), labels)
    assert not alarms(mlp(10, 1), *diabetes(), loss_fn=nn.MSELoss())
    assert not alarms(mlp(30, 1), *cancer(), loss_fn=nn.BCEWithLogitsLoss())
    one_hot = nn.functional.one_hot(torch.randint(0, 300, (1797,), generator=seeded()), 300).float()
    assert not alarms(mlp(300, 10), one_hot, labels)


class Tokens(nn.Module):
    """Averages embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(5000, 16), nn.Linear(16, 2)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.words(ids).mean(1))


def test_token_ids_are_not_features() -> None:
    ids = torch.randint(0, 5000, (200, 12), generator=seeded())
    assert not alarms(Tokens(), ids, torch.arange(200) % 2)


def offered(model: nn.Module, *columns: torch.Tensor) -> list[str]:
    report = nbdebug.diagnose(**setup(model, *columns), checks=["unnormalized-inputs"], progress=False)
    return [remedy.code for finding in report.alarms for remedy in finding.remedies]


def test_only_pixels_are_divided_by_255() -> None:
    """Pictures, flattened ones as well; a table gets what fits it, whatever range its values happen to have."""
    images, labels = digit_images()
    rows, _ = digit_rows()
    divide, standardize = "x = x.float() / 255", "x = (x - mean) / std"
    assert offered(convolutions(), images * 255, labels) == [divide, standardize]
    assert offered(mlp(64, 10), rows * 255, labels) == [divide, standardize]
    table = 200 * torch.rand(600, 30, generator=seeded())
    assert offered(mlp(30, 2), table, (table[:, 0] > 100).long()) == [standardize]
