"""Tables, graphs, samplers and streams."""

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import make_classification, make_regression
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, WeightedRandomSampler, get_worker_info

from benchmarks.first_sight import pair

# ================================================================ graphs


class GraphConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.self_loop, self.neigh = nn.Linear(cin, cout), nn.Linear(cin, cout, bias=False)

    def forward(self, x, edge_index):
        src, dst = edge_index
        msg = torch.zeros_like(x).index_add_(0, dst, x[src])
        deg = torch.zeros(len(x)).index_add_(0, dst, torch.ones(len(dst))).clamp(min=1)
        return self.self_loop(x) + self.neigh(msg / deg[:, None])


class MoleculeNet(nn.Module):
    def __init__(self, atoms=4, hidden=32, classes=2):
        super().__init__()
        self.emb = nn.Embedding(atoms, hidden)
        self.conv1, self.conv2 = GraphConv(hidden, hidden), GraphConv(hidden, hidden)
        self.out = nn.Linear(hidden, classes)

    def forward(self, g):
        x = F.relu(self.conv1(self.emb(g["x"]), g["edge_index"]))
        x = F.relu(self.conv2(x, g["edge_index"]))
        pooled = torch.zeros(g["num_graphs"], x.size(1)).index_add_(0, g["batch"], x)
        count = torch.bincount(g["batch"], minlength=g["num_graphs"]).clamp(min=1)
        return self.out(pooled / count[:, None])


def toy_molecules(n, seed):
    """Class 1 if more bonds join atoms of the same kind than of different kinds."""
    rng = np.random.RandomState(seed)
    graphs = []
    while len(graphs) < n:
        k = rng.randint(6, 12)
        kinds = rng.randint(0, 4, k)
        y = int(rng.rand() < 0.5)
        edges = []
        for _ in range(4 * k):
            a, b = rng.randint(0, k, 2)
            if a != b and (kinds[a] == kinds[b]) == (rng.rand() < (0.8 if y else 0.2)):
                edges += [(a, b), (b, a)]
        if len(edges) >= 8:
            graphs.append((torch.tensor(kinds), torch.tensor(edges).t(), y))
    return graphs


def graph_collate(shift):
    def collate(items):
        xs, es, bs, start = [], [], [], 0
        for i, (x, e, _) in enumerate(items):
            xs.append(x)
            es.append(e + start)
            bs.append(torch.full((len(x),), i))
            if shift:
                start += len(x)
        return {
            "x": torch.cat(xs),
            "edge_index": torch.cat(es, dim=1),
            "batch": torch.cat(bs),
            "num_graphs": len(items),
            "y": torch.tensor([y for *_, y in items]),
        }

    return collate


@pair(
    "the collate function does not shift the node indices: the edges of all graphs point to the nodes of the first ones",
    where="edge_index",
    source="threads about hand-written batching of graphs: edge_index concatenated without cumulative node offsets",
    accepted=("batch-mixing", "inputs-ignored", "loss-depends-on-order"),
)
def tab_graph_offsets(faulty: bool) -> dict:
    torch.manual_seed(61)
    model = MoleculeNet()
    collate = graph_collate(shift=not faulty)
    return {
        "model": model,
        "loader": DataLoader(toy_molecules(1000, 0), batch_size=32, shuffle=True, collate_fn=collate),
        "val_loader": DataLoader(toy_molecules(300, 1), batch_size=50, collate_fn=collate),
        "loss_fn": nn.CrossEntropyLoss(),
        "compute_loss": lambda model, batch, loss_fn: loss_fn(model(batch), batch["y"]),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


# ================================================================ categories


def shop_table(n, seed):
    rng = np.random.RandomState(seed)
    city = rng.choice(["riga", "turin", "lagos", "quito", "osaka", "perth"], n)
    plan = rng.choice(["free", "plus", "team"], n)
    spend = rng.gamma(2.0, 1.0, n)
    base = (
        pd.Series(city)
        .map({"riga": 1.5, "turin": -1.5, "lagos": 0.3, "quito": -0.4, "osaka": 1.2, "perth": -1.3})
        .to_numpy()
    )
    extra = pd.Series(plan).map({"free": -0.8, "plus": 0.1, "team": 0.9}).to_numpy()
    churn = (base + extra + 0.3 * (spend - 2) + 0.3 * rng.randn(n) > 0).astype(int)
    return pd.DataFrame({"city": city, "plan": plan, "spend": spend, "churn": churn})


class EntityEmbeddings(nn.Module):
    def __init__(self, sizes, dim=8):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(s, dim) for s in sizes)
        self.mlp = nn.Sequential(nn.Linear(dim * len(sizes) + 1, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, row):
        cats = [table(row[:, i].long()) for i, table in enumerate(self.tables)]
        return self.mlp(torch.cat(cats + [row[:, -1:]], dim=1))


@pair(
    "the categories of the validation table are numbered anew (pd.factorize per split), so the same city has another code",
    where="val_loader",
    source="Kaggle and forum threads: LabelEncoder or factorize fitted separately on the train and test tables",
    accepted=("split-treated-differently", "split-shift"),
)
def tab_factorize_split(faulty: bool) -> dict:
    torch.manual_seed(62)
    train, valid = shop_table(2500, 0), shop_table(600, 1)
    codes = {c: {v: k for k, v in enumerate(pd.unique(train[c]))} for c in ("city", "plan")}

    def encode(df, fresh):
        out = pd.DataFrame()
        for c in ("city", "plan"):
            out[c] = pd.factorize(df[c])[0] if fresh else df[c].map(codes[c])
        out["spend"] = (df["spend"] - 2.0) / 1.4
        return TensorDataset(torch.tensor(out.to_numpy(), dtype=torch.float32), torch.tensor(df["churn"].to_numpy()))

    model = EntityEmbeddings([6, 3])
    return {
        "model": model,
        "loader": DataLoader(encode(train, fresh=False), batch_size=64, shuffle=True),
        "val_loader": DataLoader(encode(valid, fresh=faulty), batch_size=200),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
        "class_names": ["stays", "leaves"],
    }


# ================================================================ samplers


@pair(
    "WeightedRandomSampler is given one weight per class instead of one per sample, so only the first four rows are ever drawn",
    where="loader",
    source="forum thread 'WeightedRandomSampler': weights must have the length of the dataset",
    accepted=("samples-dropped", "duplicate-samples", "repeated-batches", "too-few-examples"),
)
def tab_class_weight_sampler(faulty: bool) -> dict:
    torch.manual_seed(63)
    x, y = make_classification(
        2400,
        16,
        n_informative=8,
        n_redundant=0,
        n_classes=4,
        n_clusters_per_class=1,
        weights=[0.6, 0.2, 0.12, 0.08],
        class_sep=1.4,
        random_state=3,
    )
    x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y)
    xt, yt = x[:2000], y[:2000]
    class_weights = 1.0 / torch.bincount(yt).float()
    weights = class_weights if faulty else class_weights[yt]
    sampler = WeightedRandomSampler(weights, num_samples=len(yt), replacement=True)
    model = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 4))
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(xt, yt), batch_size=50, sampler=sampler),
        "val_loader": DataLoader(TensorDataset(x[2000:], y[2000:]), batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


# ================================================================ factorization machine


class FeaturesEmbedding(nn.Module):
    def __init__(self, field_dims, dim, use_offsets):
        super().__init__()
        self.table = nn.Embedding(sum(field_dims), dim)
        nn.init.normal_(self.table.weight, std=0.1)
        offsets = np.concatenate([[0], np.cumsum(field_dims)[:-1]]) if use_offsets else np.zeros(len(field_dims))
        self.register_buffer("offsets", torch.tensor(offsets, dtype=torch.long))

    def forward(self, x):
        return self.table(x + self.offsets)


class FactorizationMachine(nn.Module):
    def __init__(self, field_dims, dim=8, use_offsets=True):
        super().__init__()
        self.embedding = FeaturesEmbedding(field_dims, dim, use_offsets)
        self.linear = FeaturesEmbedding(field_dims, 1, use_offsets)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        e = self.embedding(x)
        pairwise = 0.5 * (e.sum(1).pow(2) - e.pow(2).sum(1)).sum(1)
        return self.bias + self.linear(x).sum((1, 2)) + pairwise


@pair(
    "the fields share one embedding table without offsets: user 3, item 3 and hour 3 are the same row",
    where="embedding.offsets",
    source="pytorch-fm style code re-implemented without the field offsets; threads on shared index spaces of fields",
    accepted=("layers-share-weights",),
)
def tab_fm_offsets(faulty: bool) -> dict:
    torch.manual_seed(64)
    rng = np.random.RandomState(0)
    dims = [40, 40, 24]
    x = np.stack([rng.randint(0, d, 5000) for d in dims], axis=1)
    u, v, h = rng.randn(40, 3), rng.randn(40, 3), rng.randn(24)
    score = (u[x[:, 0]] * v[x[:, 1]]).sum(1) + 0.5 * h[x[:, 2]]
    y = torch.tensor(score > 0, dtype=torch.float32)
    x = torch.tensor(x)
    model = FactorizationMachine(dims, use_offsets=not faulty)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:4200], y[:4200]), batch_size=64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[4200:], y[4200:]), batch_size=200),
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=5e-3),
    }


# ================================================================ feature tokens


class FeatureTokenTransformer(nn.Module):
    def __init__(self, cardinalities, classes, d=8, as_modules=True):
        super().__init__()
        tokenizers = [nn.Embedding(c, d) for c in cardinalities]
        self.tokenizers = nn.ModuleList(tokenizers) if as_modules else tokenizers
        self.cls = nn.Parameter(torch.randn(1, 1, d) * 0.02)
        layer = nn.TransformerEncoderLayer(d, 2, 16, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(d, classes)

    def forward(self, x):
        tokens = torch.stack([t(x[:, i]) for i, t in enumerate(self.tokenizers)], dim=1)
        h = self.encoder(torch.cat([self.cls.expand(len(x), -1, -1), tokens], dim=1))
        return self.head(h[:, 0])


@pair(
    "the column tokenizers are kept in a plain Python list, so the optimizer does not know them",
    where="tokenizers",
    source="forum threads on layers in a Python list in place of nn.ModuleList, in a tabular transformer",
    accepted=("unregistered-parameters", "parameters-missing-from-optimizer"),
)
def tab_token_list(faulty: bool) -> dict:
    torch.manual_seed(65)
    rng = np.random.RandomState(4)
    cardinalities = [40, 40, 30, 30]
    x = np.stack([rng.randint(0, c, 4600) for c in cardinalities], axis=1)
    effect = sum(rng.randn(c)[x[:, i]] for i, c in enumerate(cardinalities))
    x, y = torch.tensor(x), torch.tensor((effect > 0).astype(np.int64))
    model = FeatureTokenTransformer(cardinalities, 2, as_modules=not faulty)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:4000], y[:4000]), batch_size=50, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[4000:], y[4000:]), batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=5e-3),
    }


# ================================================================ targets of a split


@pair(
    "the prices are log-transformed in the training set only, validation compares with raw prices",
    where="val_loader",
    source="Kaggle house price threads: log1p on the train target, forgotten for validation",
    accepted=("split-treated-differently", "split-shift", "unscaled-targets"),
)
def tab_log_price(faulty: bool) -> dict:
    torch.manual_seed(66)
    x, z = make_regression(1500, 12, n_informative=8, noise=5.0, random_state=1)
    price = np.exp(z / z.std() * 0.6 + 3.0)
    x = torch.tensor(x, dtype=torch.float32)

    def table(rows, log):
        target = np.log1p(price[rows]) if log else price[rows]
        return TensorDataset(x[rows], torch.tensor(target, dtype=torch.float32)[:, None])

    model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 1))
    return {
        "model": model,
        "loader": DataLoader(table(slice(0, 1200), log=True), batch_size=32, shuffle=True),
        "val_loader": DataLoader(table(slice(1200, 1500), log=not faulty), batch_size=100),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


# ================================================================ streams and workers


class ClickStream(IterableDataset):
    def __init__(self, x, y, split_by_worker):
        self.x, self.y, self.split_by_worker = x, y, split_by_worker

    def __iter__(self):
        info = get_worker_info()
        start, step = 0, 1
        if info is not None and self.split_by_worker:
            start, step = info.id, info.num_workers
        for i in range(start, len(self.x), step):
            yield self.x[i], self.y[i]


@pair(
    "the iterable dataset does not look at its worker: with two workers every record is read twice",
    where="loader",
    source="PyTorch documentation and issues on IterableDataset with num_workers > 0: duplicated data",
    accepted=("stream-not-split", "duplicate-samples", "repeated-batches"),
)
def tab_stream_workers(faulty: bool) -> dict:
    torch.manual_seed(67)
    x, y = make_classification(1600, 15, n_informative=6, random_state=9)
    x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y)
    model = nn.Sequential(nn.Linear(15, 32), nn.ReLU(), nn.Linear(32, 2))
    return {
        "model": model,
        "loader": DataLoader(ClickStream(x[:1300], y[:1300], split_by_worker=not faulty), batch_size=32, num_workers=2),
        "val_loader": DataLoader(TensorDataset(x[1300:], y[1300:]), batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


class JitteredSignals(Dataset):
    """Sine and square waves with a random shift, scale and noise for every access."""

    def __init__(self, n, per_access):
        self.labels = np.arange(n) % 3
        self.per_access = per_access
        self.R = np.random.RandomState(123)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        rng = np.random.RandomState(torch.randint(2**31, (1,)).item()) if self.per_access else self.R
        t = np.linspace(0, 4 * np.pi, 64) + rng.uniform(0, 2 * np.pi)
        wave = [np.sin(t), np.sign(np.sin(t)), 2 * np.abs((t / np.pi) % 2 - 1) - 1][self.labels[i]]
        wave = rng.uniform(0.5, 2.0) * wave + 0.5 * rng.randn(64)
        return torch.tensor(wave, dtype=torch.float32)[None], int(self.labels[i])


@pair(
    "the dataset owns a RandomState that every worker copies: all workers draw the same jitter, and again in each epoch",
    where="loader",
    source="Project-MONAI issue 1068: random transforms generate the same random numbers repeatedly (self.R in the workers)",
    accepted=("worker-rng-duplicates",),
)
def tab_worker_state(faulty: bool) -> dict:
    torch.manual_seed(68)
    model = nn.Sequential(
        nn.Conv1d(1, 16, 7, stride=2),
        nn.ReLU(),
        nn.Conv1d(16, 32, 5, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(32, 3),
    )
    return {
        "model": model,
        "loader": DataLoader(JitteredSignals(960, per_access=not faulty), batch_size=32, shuffle=True, num_workers=2),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


class SpectraDataset(Dataset):
    def __init__(self, spectra, labels, in_place):
        self.spectra, self.labels, self.in_place = spectra, labels, in_place

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        s = torch.from_numpy(self.spectra[i])
        if self.in_place:
            s.mul_(1 + 0.1 * torch.randn(1)).add_(0.5 * torch.randn(1))
        else:
            s = s * (1 + 0.1 * torch.randn(1)) + 0.5 * torch.randn(1)
        return s, int(self.labels[i])


@pair(
    "the augmentation works in place on a view of the stored array, so gain and offset drift further with every epoch",
    where="loader",
    source="threads on torch.from_numpy sharing memory with the dataset's array and in-place transforms",
    accepted=("preprocessing-mutates-data",),
)
def tab_in_place_gain(faulty: bool) -> dict:
    torch.manual_seed(69)
    rng = np.random.RandomState(6)
    grid = np.linspace(0, 1, 40)
    labels = rng.randint(0, 3, 900)
    peaks = np.array([0.3, 0.5, 0.6])[labels][:, None] + 0.04 * rng.randn(900, 1)
    spectra = (np.exp(-((grid - peaks) ** 2) / 0.01) + 0.15 * rng.randn(900, 40)).astype(np.float32)
    model = nn.Sequential(nn.Linear(40, 48), nn.ReLU(), nn.Linear(48, 3))
    return {
        "model": model,
        "loader": DataLoader(SpectraDataset(spectra[:700], labels[:700], in_place=faulty), batch_size=25, shuffle=True),
        "val_loader": DataLoader(
            TensorDataset(torch.tensor(spectra[700:]), torch.tensor(labels[700:])), batch_size=100
        ),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }
