"""Programs on tables and numbers: prices, credit, churn, diagnoses, forecasts."""

import numpy as np
import torch
from sklearn.datasets import load_diabetes, load_digits, make_classification
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset, random_split

from benchmarks.first_sight import pair


def tensors(x, y, dtype=torch.float32):
    return TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=dtype))


# ----------------------------------------------------------------------------------------------------------------------
def houses(n, rng):
    area = rng.normal(120, 35, n).clip(30)
    rooms = (area / 25 + rng.normal(0, 0.7, n)).round().clip(1)
    age = rng.uniform(0, 80, n)
    dist = rng.gamma(2.0, 4.0, n)
    garden = rng.integers(0, 2, n)
    price = 2900 * area * np.exp(-0.03 * dist) - 900 * age + 14000 * rooms + 30000 * garden + rng.normal(0, 15000, n)
    return np.stack([area, rooms, age, dist, garden], 1), price.clip(20000)[:, None]


@pair(
    "The targets are house prices in dollars, a few hundred thousand each; the outputs start near zero and Adam would "
    "need an age to get there.",
    where="batch[1]",
    source="kaggle House Prices / github dnouri/nolearn issue #72: Regression: network not learning",
    accepted=("unscaled-targets", "output-bias-ignores-prior"),
)
def fir_house_prices_in_dollars(faulty):
    torch.manual_seed(0)
    x, y = houses(1000, np.random.default_rng(0))
    x = StandardScaler().fit_transform(x)
    if not faulty:
        y = StandardScaler().fit_transform(y)
    xt, xv, yt, yv = train_test_split(x, y, test_size=0.2, random_state=0)
    model = nn.Sequential(nn.Linear(5, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    return {
        "model": model,
        "loader": DataLoader(tensors(xt, yt), batch_size=32, shuffle=True),
        "val_loader": DataLoader(tensors(xv, yv), batch_size=64),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }


# ----------------------------------------------------------------------------------------------------------------------
class DiabetesDataset(Dataset):
    def __init__(self, x, y):
        self.x = torch.tensor(x).float()
        self.y = torch.tensor(y).float()

    def __len__(self):
        return self.x.shape[0]

    def __getitem__(self, index):
        return self.x[index], self.y[index]


@pair(
    "The outputs have the shape (batch, 1) and the targets (batch,): MSELoss broadcasts them to a square and the model "
    "learns to predict the mean.",
    where="",
    source="github deepset-ai/FARM issue #229: Using a target size ... that is different to the input size",
    accepted=("incompatible-target-shape",),
)
def fir_diabetes_broadcast_loss(faulty):
    torch.manual_seed(1)
    x, y = load_diabetes(return_X_y=True)
    x = StandardScaler().fit_transform(x)
    y = (y - y.mean()) / y.std()
    if not faulty:
        y = y.reshape(-1, 1)
    xt, xv, yt, yv = train_test_split(x, y, test_size=0.2, random_state=1)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
    return {
        "model": model,
        "loader": DataLoader(DiabetesDataset(xt, yt), batch_size=16, shuffle=True),
        "val_loader": DataLoader(DiabetesDataset(xv, yv), batch_size=16),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }


# ----------------------------------------------------------------------------------------------------------------------
@pair(
    "The rows are sorted by class and the loader does not shuffle: every batch holds one class only.",
    where="loader",
    source="discuss.pytorch.org: accuracy jumps between classes, ImageFolder loader without shuffle=True",
    accepted=("unshuffled-loader", "single-class-batches"),
)
def fir_sorted_folders_not_shuffled(faulty):
    torch.manual_seed(2)
    x, y = load_digits(return_X_y=True)
    x = (x - 4.9) / 6.0
    xt, xv, yt, yv = train_test_split(x, y, test_size=0.2, random_state=2, stratify=y)
    order = np.argsort(yt, kind="stable")  # as folders 0/, 1/, 2/ ... are read
    xt, yt = xt[order], yt[order]
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))
    return {
        "model": model,
        "loader": DataLoader(tensors(xt, yt, torch.long), batch_size=32, shuffle=not faulty),
        "val_loader": DataLoader(tensors(xv, yv, torch.long), batch_size=64),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
    }


# ----------------------------------------------------------------------------------------------------------------------
@pair(
    "Yearly income in dollars stands beside ratios between 0 and 1, unscaled: the income drowns everything else.",
    where="batch[0]",
    source="stackoverflow: neural network on tabular data predicts one class only, inputs not standardized",
    accepted=("feature-scales-differ", "unnormalized-inputs"),
)
def fir_credit_features_unscaled(faulty):
    torch.manual_seed(3)
    rng = np.random.default_rng(3)
    n = 1500
    income = rng.lognormal(10.8, 0.5, n)
    age = rng.uniform(20, 70, n)
    ratio = rng.beta(2, 3, n)
    late = rng.poisson(0.8, n)
    credits = rng.integers(0, 6, n)
    score = 5 * (ratio - 0.4) + 0.9 * (late - 0.8) - 0.03 * (age - 45) - 0.5 * (np.log(income) - 10.8)
    y = (score + rng.normal(0, 0.3, n) > 0).astype(np.float32)[:, None]
    x = np.stack([income, age, ratio, late, credits], 1)
    xt, xv, yt, yv = train_test_split(x, y, test_size=0.2, random_state=3)
    if not faulty:
        scaler = StandardScaler().fit(xt)
        xt, xv = scaler.transform(xt), scaler.transform(xv)
    model = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))
    return {
        "model": model,
        "loader": DataLoader(tensors(xt, yt), batch_size=32, shuffle=True),
        "val_loader": DataLoader(tensors(xv, yv), batch_size=64),
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
        "class_names": ["repaid", "default"],
    }


# ----------------------------------------------------------------------------------------------------------------------
class ChurnNet(nn.Module):
    def __init__(self, n_features):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_features, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU())
        self.out = nn.Linear(24, 1)

    def forward(self, x):
        return self.out(self.body(x)).squeeze(1)


@pair(
    "The column 'months since cancellation' was left among the features: it is filled for those who left and zero for "
    "the others, so it is the answer itself, and it is not known for new customers.",
    where="batch[0]",
    source="kaggle forum: 99.9% AUC in training, useless on the leaderboard (leaky column in churn data)",
    accepted=("target-leaks-into-inputs", "split-shift"),
)
def fir_churn_leaky_column(faulty):
    torch.manual_seed(4)
    rng = np.random.default_rng(4)
    n = 1200
    x = rng.normal(size=(n, 6))
    y = (x[:, 0] - 0.8 * x[:, 1] + x[:, 2] * x[:, 3] + rng.normal(0, 0.8, n) > 0).astype(np.float32)
    cancelled = np.where(y == 1, rng.uniform(1, 12, n), 0.0)
    cancelled[960:] = 0.0  # the last 240 are of this month: nobody has cancelled yet
    if faulty:
        x = np.column_stack([x, (cancelled - 3) / 4])
    model = ChurnNet(x.shape[1])
    return {
        "model": model,
        "loader": DataLoader(tensors(x[:960], y[:960]), batch_size=32, shuffle=True),
        "val_loader": DataLoader(tensors(x[960:], y[960:]), batch_size=64),
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
        "class_names": ["stays", "leaves"],
    }


# ----------------------------------------------------------------------------------------------------------------------
@pair(
    "The class weights are the classes' frequencies and not their inverses: the rare diagnoses, weighted with 0.04 and "
    "0.1, are never predicted.",
    where="loss_fn.weight",
    source="discuss.pytorch.org: Weights in CrossEntropyLoss, minority class is never predicted",
    accepted=("class-weights-inverted",),
)
def fir_diagnosis_weights_upside_down(faulty):
    torch.manual_seed(5)
    x, y = make_classification(
        1600, 12, n_informative=8, n_redundant=0, n_classes=3, n_clusters_per_class=1, weights=[0.86, 0.1, 0.04],
        class_sep=0.7, flip_y=0.0, random_state=5,
    )  # fmt: skip
    xt, xv, yt, yv = train_test_split(x, y, test_size=0.25, random_state=5, stratify=y)
    counts = torch.bincount(torch.tensor(yt)).float()
    weight = counts / counts.sum() if faulty else counts.sum() / (3 * counts)
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 3))
    return {
        "model": model,
        "loader": DataLoader(tensors(xt, yt, torch.long), batch_size=32, shuffle=True),
        "val_loader": DataLoader(tensors(xv, yv, torch.long), batch_size=64),
        "loss_fn": nn.CrossEntropyLoss(weight=weight),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
        "class_names": ["healthy", "mild", "severe"],
    }


# ----------------------------------------------------------------------------------------------------------------------
GENRES = ["action", "comedy", "drama", "horror", "romance", "sci-fi", "thriller", "war"]


@pair(
    "A film has several genres, but the loss is CrossEntropyLoss, which makes them compete through a softmax; the "
    "predictions are then read as sigmoid(output) > 0.5.",
    where="loss_fn",
    source="discuss.pytorch.org: Multi-label classification with CrossEntropyLoss and multi-hot targets",
    accepted=("wrong-loss-for-task",),
)
def fir_film_genres_cross_entropy(faulty):
    torch.manual_seed(6)
    rng = np.random.default_rng(6)
    n = 1200
    x = rng.normal(size=(n, 20))
    w = rng.normal(size=(20, 8))
    y = (x @ w / 4 + rng.normal(0, 0.3, (n, 8)) > 0.6).astype(np.float32)
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 8))
    return {
        "model": model,
        "loader": DataLoader(tensors(x[:960], y[:960]), batch_size=32, shuffle=True),
        "val_loader": DataLoader(tensors(x[960:], y[960:]), batch_size=64),
        "loss_fn": nn.CrossEntropyLoss() if faulty else nn.BCEWithLogitsLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
        "class_names": GENRES,
    }


# ----------------------------------------------------------------------------------------------------------------------
@pair(
    "Adam's weight_decay is 0.3, against overfitting: it pulls all weights to nearly nothing and the model underfits.",
    where="optimizer",
    source="discuss.pytorch.org: model predicts the class prior only after adding L2 regularization (weight_decay)",
    accepted=("excessive-weight-decay",),
)
def fir_weight_decay_against_overfitting(faulty):
    torch.manual_seed(7)
    x, y = make_classification(
        1200, 16, n_informative=10, n_redundant=2, n_classes=4, n_clusters_per_class=1, class_sep=1.2, random_state=7
    )
    x = StandardScaler().fit_transform(x)
    xt, xv, yt, yv = train_test_split(x, y, test_size=0.25, random_state=7)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=0.3 if faulty else 1e-5)
    return {
        "model": model,
        "loader": DataLoader(tensors(xt, yt, torch.long), batch_size=32, shuffle=True),
        "val_loader": DataLoader(tensors(xv, yv, torch.long), batch_size=64),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
    }


# ----------------------------------------------------------------------------------------------------------------------
class Windows(Dataset):
    def __init__(self, series, length=24, horizon=12):
        self.series = torch.tensor(series, dtype=torch.float32)
        self.length, self.horizon = length, horizon

    def __len__(self):
        return len(self.series) - self.length - self.horizon + 1

    def __getitem__(self, i):
        a = i + self.length
        return self.series[i:a, None], self.series[a : a + self.horizon]


class Forecaster(nn.Module):
    def __init__(self, length=24, horizon=12, hidden=128):
        super().__init__()
        self.net = nn.Sequential(
            nn.Flatten(), nn.Linear(length, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
            nn.Linear(hidden, horizon),
        )  # fmt: skip

    def forward(self, x):
        return self.net(x)


@pair(
    "Overlapping windows of one series are split at random: nearly every validation window shares most of its values "
    "with training windows on both sides of it.",
    where="val_loader",
    source="github Y-debug-sys/Diffusion-TS issue #67: Data leakage train test split",
    accepted=("split-leakage",),
)
def fir_power_demand_random_windows(faulty):
    torch.manual_seed(8)
    rng = np.random.default_rng(8)
    n = 1500
    t = np.arange(n)
    noise = np.zeros(n)
    for i in range(1, n):
        noise[i] = 0.9 * noise[i - 1] + rng.normal(0, 0.4)
    series = np.sin(2 * np.pi * t / 24) + noise
    series = (series - series[:1200].mean()) / series[:1200].std()
    if faulty:
        windows = Windows(series)
        n_val = len(windows) // 5
        train, val = random_split(windows, [len(windows) - n_val, n_val], generator=torch.Generator().manual_seed(8))
    else:
        train, val = Windows(series[:1200]), Windows(series[1200:])
    model = Forecaster()
    return {
        "model": model,
        "loader": DataLoader(train, batch_size=32, shuffle=True),
        "val_loader": DataLoader(val, batch_size=32),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }
