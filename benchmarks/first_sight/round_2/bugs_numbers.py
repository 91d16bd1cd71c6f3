from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import (
    load_breast_cancer,
    load_wine,
    make_classification,
    make_friedman1,
    make_multilabel_classification,
)
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader

from benchmarks.first_sight import pair
from benchmarks.first_sight.round_2._held_helpers import Records, batches, digit_tables, mlp


def split_scaled(x, y, seed=5, stratify=None):
    xa, xb, ya, yb = train_test_split(x, y, test_size=0.25, random_state=seed, stratify=stratify)
    s = StandardScaler().fit(xa)
    return s.transform(xa), s.transform(xb), ya, yb


@pair(
    "several tags can hold at once, but the model ends in a softmax, so the probabilities of one sample are forced to add up to 1",
    where="3",
    source="https://github.com/Spijkervet/CLMR/issues/3; Pilhyeon/BaSNet-pytorch#19; Taxonomy of real faults (wrong activation of the last layer)",
    accepted=("clamped-output", "wrong-loss-for-task"),
)
def film_tags(broken: bool) -> dict:
    torch.manual_seed(5)
    x, y = make_multilabel_classification(1400, 20, n_classes=6, n_labels=3, allow_unlabeled=False, random_state=5)
    xa, xb, ya, yb = split_scaled(x, y)
    ya, yb = ya.astype("float32"), yb.astype("float32")
    model = mlp(20, 64, 6)
    if broken:
        model.append(nn.Softmax(dim=1))
    return {
        "model": model,
        "loader": batches(xa, ya),
        "val_loader": batches(xb, yb, train=False),
        "loss_fn": nn.BCELoss() if broken else nn.BCEWithLogitsLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
        "class_names": ["comedy", "drama", "crime", "war", "music", "animation"],
    }


class HouseModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.district, self.price = nn.Linear(32, 4), nn.Linear(32, 1)

    def forward(self, x):
        h = self.body(x)
        return self.district(h), self.price(h).squeeze(-1)


@pair(
    "the price is left in currency units, so its squared error (1e10) drowns the classification loss in the sum of the two tasks",
    where="compute_loss",
    source="forum threads on multi-task losses of different scale; AUTOTRAINER / UMLAUT: unnormalised targets",
    accepted=("unscaled-targets", "loss-terms-unbalanced"),
)
def house_two_tasks(broken: bool) -> dict:
    torch.manual_seed(5)
    rng = np.random.default_rng(5)
    n = 1400
    district = rng.integers(0, 4, n)
    x = rng.normal(0, 1, (n, 12)) + 1.3 * rng.normal(0, 1, (4, 12))[district]
    price = (
        240_000
        + 60_000 * (np.tanh(x[:, 0]) + 0.5 * x[:, 1] + 0.4 * x[:, 2] * (district == 1))
        + rng.normal(0, 8_000, n)
    )
    xa, xb, ia, ib = split_scaled(x, np.arange(n))
    m, s = price[ia].mean(), price[ia].std()
    value = price if broken else (price - m) / s
    model = HouseModel()

    def compute_loss(model, batch, loss_fn=None):
        logits, value = model(batch["x"])
        return F.cross_entropy(logits, batch["district"]) + F.mse_loss(value, batch["price"])

    return {
        "model": model,
        "loader": DataLoader(Records(x=xa, district=district[ia], price=value[ia]), batch_size=64, shuffle=True),
        "val_loader": DataLoader(Records(x=xb, district=district[ib], price=value[ib]), batch_size=64),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


@pair(
    "the rows of the features are shuffled in place and the labels are not, so every label belongs to another row",
    where="loader",
    source="Stack Overflow: shuffling X and y separately; DeepCrime mutation 'change labels of training data'",
    accepted=("labels-unrelated-to-inputs", "noisy-labels"),
)
def tumour_shuffled_rows(broken: bool) -> dict:
    torch.manual_seed(5)
    rng = np.random.default_rng(5)
    x, y = load_breast_cancer(return_X_y=True)
    x = x.copy()
    if broken:
        rng.shuffle(x)
    else:
        order = rng.permutation(len(x))
        x, y = x[order], y[order]
    xa, xb, ya, yb = split_scaled(x, y, stratify=y)
    model = mlp(30, 32, 2)
    return {
        "model": model,
        "loader": batches(xa, ya, size=32),
        "val_loader": batches(xb, yb, train=False),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
        "class_names": ["malignant", "benign"],
    }


@pair(
    "the columns are standardised by hand and one of them is constant: 0 / 0 makes a column of NaN",
    where="batch[0]",
    source="https://www.codegenes.net/blog/pytorch-division-by-zero-init; forum: 'loss is nan from the first batch'",
    accepted=("non-finite-inputs",),
)
def cultivar_constant_column(broken: bool) -> dict:
    torch.manual_seed(5)
    x, y = load_wine(return_X_y=True)
    x = np.column_stack([x, np.full(len(x), 2010.0)])  # the vintage, the same for every bottle
    xa, xb, ya, yb = train_test_split(x, y, test_size=0.25, random_state=5, stratify=y)
    mean, std = xa.mean(0), xa.std(0)
    if not broken:
        used = std > 0
        xa, xb, mean, std = xa[:, used], xb[:, used], mean[used], std[used]
    with np.errstate(invalid="ignore"):
        xa, xb = (xa - mean) / std, (xb - mean) / std
    model = mlp(xa.shape[1], 32, 3)
    return {
        "model": model,
        "loader": batches(xa, ya, size=16),
        "val_loader": batches(xb, yb, train=False),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


@pair(
    "all weights are drawn with nn.init.uniform_ and its default range 0 .. 1: only positive, far too large, the activations explode",
    where="0.weight",
    source="DeepCrime mutation 'change weights initialisation'; forum: nn.init.uniform_ default bounds, huge first loss",
    accepted=("initialization-off-scale", "activations-off-scale"),
)
def digits_uniform_init(broken: bool) -> dict:
    torch.manual_seed(5)
    xa, xb, ya, yb = digit_tables()
    model = mlp(64, 96, 96, 48, 10)
    for m in model:
        if isinstance(m, nn.Linear):
            if broken:
                nn.init.uniform_(m.weight)
            else:
                nn.init.kaiming_uniform_(m.weight, nonlinearity="relu")
            nn.init.zeros_(m.bias)
    return {
        "model": model,
        "loader": batches(xa, ya),
        "val_loader": batches(xb, yb, train=False),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }


@pair(
    "the L1 penalty is a sum over all weights times 0.05: it outweighs the data term and drives the weights to zero",
    where="compute_loss",
    source="DeepCrime mutation 'add weights regularisation'; forum: manual L1 penalty, loss does not go below a constant",
    accepted=("loss-terms-unbalanced", "excessive-weight-decay"),
)
def yield_l1_penalty(broken: bool) -> dict:
    torch.manual_seed(5)
    x, y = make_friedman1(1200, 12, noise=0.4, random_state=5)
    xa, xb, ya, yb = split_scaled(x, y)
    m, s = ya.mean(), ya.std()
    ya, yb = ((ya - m) / s)[:, None], ((yb - m) / s)[:, None]
    model = mlp(12, 64, 32, 1)
    strength = 5e-2 if broken else 2e-5

    def compute_loss(model, batch, loss_fn):
        x, y = batch
        penalty = sum(p.abs().sum() for p in model.parameters())
        return loss_fn(model(x), y) + strength * penalty

    return {
        "model": model,
        "loader": batches(xa, ya),
        "val_loader": batches(xb, yb, train=False),
        "loss_fn": nn.MSELoss(),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


@pair(
    "the regression targets lie between 0 and 1 and pass through an integer tensor on the way: all of them become 0",
    where="batch[1]",
    source="forum: torch.LongTensor(y) for a regression target; Taxonomy of real faults (wrong type of target)",
    accepted=("constant-targets",),
)
def score_long_targets(broken: bool) -> dict:
    torch.manual_seed(5)
    x, y = make_friedman1(1200, 10, noise=0.6, random_state=8)
    y = y / 30
    xa, xb, ya, yb = split_scaled(x, y)
    if broken:
        ya, yb = torch.tensor(ya).long().float().numpy(), torch.tensor(yb).long().float().numpy()
    model = nn.Sequential(mlp(10, 48, 1), nn.Sigmoid(), nn.Flatten(0))
    return {
        "model": model,
        "loader": batches(xa, ya),
        "val_loader": batches(xb, yb, train=False),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=5e-3),
    }


class GraphNet(nn.Module):
    def __init__(self, types, classes, normalise, width=24, depth=6):
        super().__init__()
        self.enter = nn.Linear(types, width)
        self.own = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.near = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(depth))
        self.out, self.normalise = nn.Linear(width, classes), normalise

    def forward(self, nodes, adjacency):
        if self.normalise:
            adjacency = adjacency / adjacency.sum(-1, keepdim=True).clamp(min=1)
        h = F.relu(self.enter(nodes))
        for own, near in zip(self.own, self.near):
            h = F.relu(own(h) + near(adjacency @ h))
        return self.out(h.mean(1))


@pair(
    "the neighbours are summed over a dense adjacency matrix without dividing by the degree: the activations grow by the degree in every layer",
    where="near",
    source="https://github.com/cvignac/SMP/issues/3; awslabs/dgl-lifesci#113 (GCN with norm='none')",
    accepted=("activations-off-scale",),
)
def graph_mixing(broken: bool) -> dict:
    torch.manual_seed(5)
    rng = np.random.default_rng(5)
    n, size = 480, 40
    kind, colour = rng.integers(0, 3, n), rng.integers(0, 3, (n, size))
    same = colour[:, :, None] == colour[:, None, :]
    chance = np.select([kind == 0, kind == 1], [1, 2], 0)[:, None, None]
    p = np.where(chance == 0, 0.5, np.where((chance == 1) == same, 0.75, 0.3))
    upper = np.triu(rng.random((n, size, size)) < p, 1)
    adjacency = (upper | upper.transpose(0, 2, 1)).astype("float32")
    nodes = np.eye(3, dtype="float32")[colour]
    model = GraphNet(3, 3, normalise=not broken)

    def compute_loss(model, batch, loss_fn):
        return loss_fn(model(batch["nodes"], batch["adjacency"]), batch["kind"])

    rows = lambda s: Records(nodes=nodes[s], adjacency=adjacency[s], kind=kind[s])
    return {
        "model": model,
        "loader": DataLoader(rows(slice(0, 360)), batch_size=24, shuffle=True),
        "val_loader": DataLoader(rows(slice(360, None)), batch_size=24),
        "loss_fn": nn.CrossEntropyLoss(),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


@pair(
    "nn.SoftMarginLoss wants labels -1 / +1 and gets 0 / 1: the samples of class 0 have no gradient and everything is called positive",
    where="batch[1]",
    source="https://github.com/pytorch/pytorch/issues/23782 (labels other than -1 / 1 are accepted silently); docs of SoftMarginLoss",
    accepted=("invalid-labels", "wrong-loss-for-task"),
)
def churn_margin_labels(broken: bool) -> dict:
    torch.manual_seed(5)
    x, y = make_classification(1400, 15, n_informative=8, n_redundant=2, class_sep=1.3, flip_y=0.01, random_state=5)
    xa, xb, ya, yb = split_scaled(x, y, stratify=y)
    label = (lambda y: y.astype("float32")) if broken else (lambda y: (2 * y - 1).astype("float32"))
    model = nn.Sequential(mlp(15, 48, 1), nn.Flatten(0))
    return {
        "model": model,
        "loader": batches(xa, label(ya)),
        "val_loader": batches(xb, label(yb), train=False),
        "loss_fn": nn.SoftMarginLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }
