from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_diabetes, load_digits, make_classification, make_friedman1, make_friedman2
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from benchmarks.first_sight import pair
from benchmarks.first_sight.round_1._dev_helpers import loaders, tensors


class Regressor(nn.Module):
    def __init__(self, features, hidden=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


@pair(
    "the model returns shape (batch,) and the targets have shape (batch, 1): the loss broadcasts to batch x batch and the model learns the mean",
    where="loss_fn",
    source="the MSELoss warning 'Using a target size that is different to the input size'; RLinf/RLinf#1568; NeuraLint shape faults",
    accepted=("incompatible-target-shape",),
)
def diabetes_target_column(broken: bool) -> dict:
    torch.manual_seed(0)
    x, y = load_diabetes(return_X_y=True)
    xa, xb, ya, yb = train_test_split(x, y, test_size=0.25, random_state=0)
    sx = StandardScaler().fit(xa)
    m, s = ya.mean(), ya.std()
    ya, yb = (ya - m) / s, (yb - m) / s
    if broken:
        ya, yb = ya[:, None], yb[:, None]
    train, val = loaders((sx.transform(xa), ya), (sx.transform(xb), yb), 32)
    model = Regressor(10)
    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": nn.SmoothL1Loss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-4),
    }


@pair(
    "the rare class is oversampled by copying rows before the train / validation split: copies of the training rows sit in the validation set",
    where="val_loader",
    source="https://bitsfolio.com/smote-data-leakage-validation-set/; packtpub 'Machine Learning for Imbalanced Data' ch. 2",
    accepted=("split-leakage",),
)
def fraud_oversampled(broken: bool) -> dict:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    x, y = make_classification(
        1500,
        20,
        n_informative=8,
        n_redundant=0,
        n_clusters_per_class=3,
        weights=[0.85],
        class_sep=2.2,
        flip_y=0.02,
        random_state=3,
    )
    if broken:
        rare = np.flatnonzero(y == 1)
        extra = rng.choice(rare, (y == 0).sum() - len(rare))
        x, y = np.vstack([x, x[extra]]), np.concatenate([y, y[extra]])
    xa, xb, ya, yb = train_test_split(x, y, test_size=0.3, random_state=0, stratify=y)
    scale = StandardScaler().fit(xa)
    xa, xb, ya, yb = tensors(scale.transform(xa), scale.transform(xb), ya, yb)
    if broken:
        train = DataLoader(TensorDataset(xa, ya), batch_size=64, shuffle=True)
    else:
        weights = (1 / torch.bincount(ya).double())[ya]
        train = DataLoader(TensorDataset(xa, ya), batch_size=64, sampler=WeightedRandomSampler(weights, len(ya)))
    val = DataLoader(TensorDataset(xb, yb), batch_size=64)
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2),
        "class_names": ["ok", "fraud"],
    }


class DeepTable(nn.Module):
    def __init__(self, features, width, depth, listed):
        super().__init__()
        sizes = [features] + [width] * depth
        blocks = [nn.Sequential(nn.Linear(a, b), nn.ReLU()) for a, b in zip(sizes, sizes[1:])]
        self.blocks = blocks if listed else nn.ModuleList(blocks)
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.out(x)


@pair(
    "the hidden blocks are kept in a plain Python list, so they are not registered and the optimizer never gets their parameters",
    where="blocks",
    source="https://theflyingbirds.in/blog/pytorch-mysteries-...; runebook.dev nn.ModuleList common problems",
    accepted=("unregistered-parameters",),
)
def friedman_block_list(broken: bool) -> dict:
    torch.manual_seed(0)
    x, y = make_friedman1(1200, 10, noise=0.5, random_state=0)
    x = (x - 0.5) / 0.29
    y = ((y - y[:900].mean()) / y[:900].std())[:, None]
    train, val = loaders((x[:900], y[:900]), (x[900:], y[900:]))
    model = DeepTable(10, 32, 3, listed=broken)
    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


@pair(
    "the class weights are listed in order of frequency (as value_counts returns them) and not in order of the class index: the rarest class gets the smallest weight",
    where="loss_fn",
    source="https://github.com/declare-lab/MELD/issues/51; Chumsy0725/logit-adj-pytorch#2 (weights in frequency order)",
    accepted=("class-imbalance",),
)
def triage_class_weights(broken: bool) -> dict:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    share = [0.06, 0.58, 0.25, 0.11]
    y = rng.choice(4, 1600, p=share)
    centres = rng.normal(0, 0.75, (4, 8))
    x = centres[y] + rng.normal(0, 1.0, (1600, 8))
    xa, xb, ya, yb = train_test_split(x, y, test_size=0.25, random_state=0, stratify=y)
    scale = StandardScaler().fit(xa)
    counts = np.bincount(ya)
    if broken:
        counts = np.sort(counts)[::-1]  # value_counts().to_numpy()
    weight = torch.tensor(len(ya) / (4 * counts), dtype=torch.float32)
    train, val = loaders((scale.transform(xa), ya), (scale.transform(xb), yb))
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(weight=weight),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
        "class_names": ["red", "green", "yellow", "blue"],
    }


class FunctionalDropoutNet(nn.Module):
    def __init__(self, always_on):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(64, 96), nn.Linear(96, 64), nn.Linear(64, 10)
        self.always_on = always_on

    def forward(self, x):
        training = True if self.always_on else self.training
        x = F.dropout(F.relu(self.fc1(x)), 0.5, training=training)
        x = F.dropout(F.relu(self.fc2(x)), 0.5, training=training)
        return self.fc3(x)


@pair(
    "F.dropout is called without training=self.training, so dropout stays on in evaluation mode",
    where="model",
    source="https://github.com/rixwew/pytorch-fm/issues/21; delip/PyTorchNLPBook#28; pytorch/pytorch#11999",
    accepted=("nondeterministic-eval",),
)
def digits_functional_dropout(broken: bool) -> dict:
    torch.manual_seed(0)
    d = load_digits()
    x = (d.data / 16 - 0.3) / 0.37
    xa, xb, ya, yb = train_test_split(x, d.target, test_size=0.25, random_state=0, stratify=d.target)
    train, val = loaders((xa, ya), (xb, yb))
    model = FunctionalDropoutNet(always_on=broken)
    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


@pair(
    "BatchNorm momentum carried over from Keras (0.99): in PyTorch that keeps almost only the last batch in the running statistics, so evaluation is off",
    where="1",
    source="http://ni4muraano.hatenablog.com/entry/2017/09/02/150412; duoke360.com/post/35078 (Keras and PyTorch momentum are complements)",
    accepted=("batchnorm-misused",),
)
def circuit_keras_port(broken: bool) -> dict:
    torch.manual_seed(0)
    x, y = make_friedman2(1200, noise=20, random_state=0)
    xa, xb, ya, yb = train_test_split(x, y, test_size=0.25, random_state=0)
    scale, m, s = StandardScaler().fit(xa), ya.mean(), ya.std()
    train, val = loaders(
        (scale.transform(xa), ((ya - m) / s)[:, None]), (scale.transform(xb), ((yb - m) / s)[:, None]), 12
    )
    momentum = 0.99 if broken else 0.01
    model = nn.Sequential(
        nn.Linear(4, 64),
        nn.BatchNorm1d(64, momentum=momentum),
        nn.ReLU(),
        nn.Linear(64, 64),
        nn.BatchNorm1d(64, momentum=momentum),
        nn.ReLU(),
        nn.Linear(64, 1),
    )
    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }
