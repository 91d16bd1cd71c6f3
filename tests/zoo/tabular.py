"""Healthy set-ups on tables."""

from __future__ import annotations

from typing import Any

import torch
from sklearn.datasets import load_breast_cancer, load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.examples import healthy
from tests.zoo.samples import cancer, diabetes, digit_rows, friedman, iris, raw_cancer, setup, split, wine


def digits(batch_size: int = 64) -> DataLoader[Any]:
    """Return scikit-learn's digits as rows of 64 pixels between 0 and 1."""
    pixels, labels = load_digits(return_X_y=True)
    rows = torch.tensor(pixels, dtype=torch.float32) / 16
    return DataLoader(TensorDataset(rows, torch.tensor(labels)), batch_size, shuffle=True)


@healthy(epochs=5)
def mlp_on_digits() -> dict[str, Any]:
    """A plain three-layer network."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return {"model": model, "loader": digits(), "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


@healthy(epochs=10)
def binary_on_breast_cancer() -> dict[str, Any]:
    """Binary cross-entropy with logits, batch normalization first."""
    rows, labels = load_breast_cancer(return_X_y=True)
    rows = (rows - rows.mean(0)) / rows.std(0)
    data = TensorDataset(torch.tensor(rows, dtype=torch.float32), torch.tensor(labels, dtype=torch.float32)[:, None])
    model = nn.Sequential(nn.Linear(30, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 1))
    return {
        "model": model,
        "loader": DataLoader(data, 32, shuffle=True),
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=3e-3),
    }


@healthy(epochs=15, accuracy=0.9)
def batchnorm_on_raw_wine() -> dict[str, Any]:
    """Columns of very different scales, brought together by a batch normalization that stands first."""
    model = nn.Sequential(nn.BatchNorm1d(13), nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 3))
    return setup(model, split(*wine(raw=True), batch_size=16), nn.CrossEntropyLoss(), class_names=["a", "b", "c"])


class Standardized(nn.Module):
    """A network that knows the mean and spread of its columns as buffers."""

    def __init__(self, rows: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", rows.mean(0))
        self.register_buffer("spread", rows.std(0))
        self.body = nn.Sequential(nn.Linear(rows.shape[1], 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scale, then predict."""
        return self.body((x - self.mean) / self.spread)


@healthy(epochs=10, accuracy=0.9)
def scales_its_columns_inside() -> dict[str, Any]:
    """Raw columns between 0.001 and 4,000, scaled inside the model by its own buffers."""
    rows, labels = raw_cancer()
    return setup(Standardized(rows), split(rows, labels, batch_size=32), nn.BCEWithLogitsLoss())


@healthy(epochs=20, accuracy=0.9)
def layer_norm_first() -> dict[str, Any]:
    """Every row is normalized before the first layer."""
    model = nn.Sequential(nn.LayerNorm(13), nn.Linear(13, 32), nn.GELU(), nn.Linear(32, 3))
    return setup(model, split(*wine(), batch_size=16), nn.CrossEntropyLoss())


@healthy(epochs=40, accuracy=0.9)
def tiny_iris() -> dict[str, Any]:
    """Thirty flowers are all there is to train on."""
    rows, labels = iris()
    keep = torch.arange(0, 150, 5)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
    data = DataLoader(TensorDataset(rows[keep], labels[keep]), 10, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    return {"model": model, "loader": data, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


@healthy(epochs=5, accuracy=0.9)
def samples_one_by_one() -> dict[str, Any]:
    """Plain stochastic gradient descent with batches of one, which nothing in the model minds."""
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    return setup(model, split(*iris(), batch_size=1), nn.CrossEntropyLoss(), optimizer=optimizer)


@healthy(epochs=80, good=lambda first, last: last < 0.2)
def one_huge_batch() -> dict[str, Any]:
    """Gradient descent on the whole data set at once."""
    rows, labels = wine()
    model = nn.Sequential(nn.Linear(13, 16), nn.Tanh(), nn.Linear(16, 3))
    data = DataLoader(TensorDataset(rows, labels), len(rows), shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    return {"model": model, "loader": data, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


@healthy(epochs=15, good=lambda first, last: last < 0.65)
def noisy_regression_on_diabetes() -> dict[str, Any]:
    """Half of the variance cannot be explained by any model."""
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
    return setup(model, split(*diabetes(), batch_size=32), nn.MSELoss())


@healthy(epochs=10, good=lambda first, last: last < 0.25 * first)
def float64_regression() -> dict[str, Any]:
    """Everything in double precision."""
    rows, target = friedman()
    model = nn.Sequential(nn.Linear(10, 64), nn.SiLU(), nn.Linear(64, 1)).double()
    return setup(model, split(rows.double(), target.double(), batch_size=32), nn.MSELoss())


@healthy(epochs=6, accuracy=0.9)
def dropout_on_digits() -> dict[str, Any]:
    """Dropout of one half behind a wide layer."""
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10))
    return setup(model, split(*digit_rows()), nn.CrossEntropyLoss())


@healthy(epochs=15, accuracy=0.9)
def shallow_sigmoid_with_xavier() -> dict[str, Any]:
    """A sigmoid network of the old kind, started as Glorot and Bengio say."""
    model = nn.Sequential(nn.Linear(30, 16), nn.Sigmoid(), nn.Linear(16, 1))
    for layer in (model[0], model[2]):
        nn.init.xavier_uniform_(layer.weight)
        nn.init.zeros_(layer.bias)
    return setup(model, split(*cancer(), batch_size=32), nn.BCEWithLogitsLoss(), lr=1e-2)


class WideAndDeep(nn.Module):
    """Embeddings of categories beside a table of numbers, with a linear short cut."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, 4) for size in (5, 7))
        self.deep = nn.Sequential(nn.Linear(18, 32), nn.PReLU(), nn.Linear(32, 1))
        self.wide = nn.Linear(10, 1)

    def forward(self, numbers: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        """Add what both ways say."""
        embedded = [table(categories[:, i]) for i, table in enumerate(self.tables)]
        return self.deep(torch.cat([numbers, *embedded], 1)) + self.wide(numbers)


@healthy(epochs=12, good=lambda first, last: last < 0.4 * first)
def wide_and_deep() -> dict[str, Any]:
    """Two inputs of different types; both categories shift the target."""
    rows, target = friedman()
    categories = torch.stack([torch.arange(len(rows)) % size for size in (5, 7)], 1)
    target = target + 0.3 * (categories[:, :1] - 2) - 0.2 * (categories[:, 1:] - 3)
    return setup(WideAndDeep(), split(rows, categories, target, batch_size=32), nn.MSELoss())
