"""Sound programs, most of them around public libraries."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, make_moons
from sklearn.preprocessing import StandardScaler
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks.first_sight import sound


def digits(scale=16.0):
    raw = load_digits()
    return torch.tensor(raw.data / scale, dtype=torch.float32), torch.tensor(raw.target)


@sound("a supervised contrastive embedding of the digits on the unit sphere", source="pytorch-metric-learning examples")
def quay_sound_supcon_digits() -> dict:
    from pytorch_metric_learning import losses

    torch.manual_seed(0)
    x, y = digits()

    class Embed(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 16))

        def forward(self, t):
            return F.normalize(self.net(t), dim=1)

    model = Embed()

    def compute_loss(model, batch, loss_fn):
        a, b = batch
        return loss_fn(model(a), b)

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1400], y[:1400]), batch_size=64, shuffle=True, drop_last=True),
        "val_loader": DataLoader(TensorDataset(x[1400:], y[1400:]), batch_size=132),
        "loss_fn": losses.SupConLoss(temperature=0.1),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
        "compute_loss": compute_loss,
    }


@sound("an augmented neural ODE that separates two moons", source="torchdiffeq")
def quay_sound_moons_ode() -> dict:
    from torchdiffeq import odeint

    torch.manual_seed(0)
    x, y = make_moons(800, noise=0.12, random_state=0)
    x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y)

    class Field(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 4))

        def forward(self, t, h):
            return self.net(h)

    class Flow(nn.Module):
        def __init__(self):
            super().__init__()
            self.field, self.readout = Field(), nn.Linear(4, 2)
            self.register_buffer("times", torch.tensor([0.0, 1.0]))

        def forward(self, p):
            h = torch.cat([p, torch.zeros(len(p), 2)], dim=1)
            return self.readout(odeint(self.field, h, self.times, method="rk4", options={"step_size": 0.25})[-1])

    model = Flow()
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:600], y[:600]), batch_size=50, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[600:], y[600:]), batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-2),
    }


@sound(
    "a graph convolution network on one graph; only the training nodes are in the loss",
    source="torch_geometric Cora example",
)
def quay_sound_one_graph_gcn() -> dict:
    from torch_geometric.nn import GCNConv

    torch.manual_seed(0)
    g = np.random.default_rng(0)
    n = 400
    label = g.integers(0, 4, n)
    i, j = np.triu_indices(n, 1)
    link = g.random(len(i)) < np.where(label[i] == label[j], 0.05, 0.004)
    edges = torch.tensor(np.stack([np.r_[i[link], j[link]], np.r_[j[link], i[link]]]))
    x = torch.tensor(np.eye(4)[label] + 1.2 * g.standard_normal((n, 4)), dtype=torch.float32)
    split = torch.tensor(g.random(n))

    class GCN(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = GCNConv(4, 16), GCNConv(16, 4)

        def forward(self, x, edge_index):
            h = F.dropout(self.conv1(x, edge_index).relu(), 0.3, self.training)
            return self.conv2(h, edge_index)

    def graph(mask):
        return [{"x": x, "edge_index": edges, "y": torch.tensor(label), "mask": mask}]

    model = GCN()
    return {
        "model": model,
        "loader": DataLoader(graph(split < 0.5), batch_size=None),
        "val_loader": DataLoader(graph(split >= 0.5), batch_size=None),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4),
        "compute_loss": lambda m, b, loss_fn: loss_fn(m(b["x"], b["edge_index"])[b["mask"]], b["y"][b["mask"]]),
    }


@sound("a small UNet trained with Dice and cross-entropy on synthetic cells", source="kornia losses")
def quay_sound_kornia_dice_unet() -> dict:
    from kornia.losses import DiceLoss

    torch.manual_seed(0)
    g = np.random.default_rng(1)
    yy, xx = np.mgrid[0:20, 0:20]

    def cells(n):
        imgs, masks = [], []
        for _ in range(n):
            m = np.zeros((20, 20), dtype=np.int64)
            for k in (1, 2):
                cy, cx = g.uniform(4, 16, 2)
                m[np.hypot(yy - cy, xx - cx) < g.uniform(2.5, 4.5)] = k
            imgs.append(np.array([0.0, 1.0, 2.0])[m] - 0.6 + 0.4 * g.standard_normal((20, 20)))
            masks.append(m)
        return TensorDataset(
            torch.tensor(np.array(imgs), dtype=torch.float32).unsqueeze(1), torch.tensor(np.array(masks))
        )

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU())
            self.b = nn.Sequential(nn.Conv2d(16, 24, 3, padding=1), nn.GroupNorm(4, 24), nn.ReLU())
            self.c = nn.Conv2d(40, 3, 3, padding=1)

        def forward(self, t):
            a = self.a(t)
            b = self.b(F.avg_pool2d(a, 2))
            return self.c(torch.cat([a, F.interpolate(b, scale_factor=2, mode="bilinear", align_corners=False)], 1))

    dice, ce = DiceLoss(), nn.CrossEntropyLoss()
    model = Net()
    return {
        "model": model,
        "loader": DataLoader(cells(500), batch_size=20, shuffle=True),
        "val_loader": DataLoader(cells(80), batch_size=40),
        "loss_fn": lambda out, target: dice(out, target) + ce(out, target),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


@sound("a denoising autoencoder whose decoder is the transposed encoder", source="tied autoencoder tutorials")
def quay_sound_tied_denoiser() -> dict:
    torch.manual_seed(0)
    x, _ = digits()

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.empty(24, 64))
            self.hidden_bias, self.visible_bias = nn.Parameter(torch.zeros(24)), nn.Parameter(torch.zeros(64))
            nn.init.xavier_uniform_(self.weight)

        def forward(self, v):
            if self.training:
                v = v * (torch.rand_like(v) > 0.2)
            return F.linear(
                torch.sigmoid(F.linear(v, self.weight, self.hidden_bias)), self.weight.t(), self.visible_bias
            )

    model = Tied()
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1400], x[:1400]), batch_size=50, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1400:], x[1400:]), batch_size=100),
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=5e-3),
    }


@sound(
    "ordinal regression of the progress of diabetes in four levels with shared weights and ordered thresholds",
    source="CORAL, coral-pytorch",
)
def quay_sound_ordinal_diabetes() -> dict:
    torch.manual_seed(0)
    X, y = load_diabetes(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))
    level = np.digitize(y, np.quantile(y, [0.25, 0.5, 0.75]))
    tr, va = rows[:340], rows[340:]
    X = StandardScaler().fit(X[tr]).transform(X)
    steps = (level[:, None] > np.arange(3)).astype(np.float32)
    pack = lambda r: TensorDataset(torch.tensor(X[r], dtype=torch.float32), torch.tensor(steps[r]))  # noqa: E731

    class Coral(nn.Module):
        def __init__(self):
            super().__init__()
            self.score = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1, bias=False))
            self.first, self.gaps = nn.Parameter(torch.tensor(1.0)), nn.Parameter(torch.zeros(2))

        def forward(self, x):
            thresholds = torch.cat([self.first.view(1), self.first - F.softplus(self.gaps).cumsum(0)])
            return self.score(x) + thresholds

    model = Coral()
    return {
        "model": model,
        "loader": DataLoader(pack(tr), batch_size=32, shuffle=True),
        "val_loader": DataLoader(pack(va), batch_size=102),
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-3),
    }


@sound(
    "two towers with all other items of the batch as negatives, corrected for popularity",
    source="sampled softmax with logQ correction",
)
def quay_sound_two_towers() -> dict:
    torch.manual_seed(0)
    g = np.random.default_rng(0)
    users, items = g.standard_normal((150, 4)), g.standard_normal((100, 4))
    logits = 1.5 * users @ items.T + np.log(g.pareto(2.0, 100) + 0.2)
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    clicks = torch.tensor([(u, i) for u in range(150) for i in g.choice(100, 20, p=p[u])])
    order = torch.randperm(len(clicks))
    tr, va = clicks[order[:2500]], clicks[order[2500:]]
    log_q = torch.log((torch.bincount(tr[:, 1], minlength=100) + 1.0) / (len(tr) + 100.0))

    class Towers(nn.Module):
        def __init__(self):
            super().__init__()
            self.user = nn.Sequential(nn.Embedding(150, 16), nn.Linear(16, 16))
            self.item = nn.Sequential(nn.Embedding(100, 16), nn.Linear(16, 16))

        def forward(self, u, i):
            return self.user(u) @ self.item(i).t()

    def compute_loss(model, batch, loss_fn):
        u, i = batch[0].unbind(1)
        same = (i[:, None] == i[None, :]) & ~torch.eye(len(i), dtype=torch.bool)
        scores = (model(u, i) - log_q[i]).masked_fill(same, -1e4)
        return loss_fn(scores, torch.arange(len(i)))

    model = Towers()
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(tr), batch_size=64, shuffle=True, drop_last=True),
        "val_loader": DataLoader(TensorDataset(va), batch_size=64, drop_last=True),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=5e-3),
        "compute_loss": compute_loss,
    }


@sound("PatchTST from transformers forecasts four channels", source="transformers PatchTSTForPrediction")
def quay_sound_patchtst() -> dict:
    from transformers import PatchTSTConfig, PatchTSTForPrediction

    torch.manual_seed(0)
    g = np.random.default_rng(0)
    t = np.arange(1400)
    series = np.stack(
        [
            a * np.sin(2 * np.pi * t / p + a) + 0.2 * g.standard_normal(1400) + a
            for a, p in ((1, 12), (2, 16), (0.5, 24), (3, 8))
        ],
        1,
    ).astype(np.float32)

    class Slices(Dataset):
        def __init__(self, s):
            self.s = torch.tensor(s)

        def __len__(self):
            return len(self.s) - 56

        def __getitem__(self, i):
            return {"past_values": self.s[i : i + 48], "future_values": self.s[i + 48 : i + 56]}

    model = PatchTSTForPrediction(
        PatchTSTConfig(
            num_input_channels=4,
            context_length=48,
            patch_length=8,
            patch_stride=8,
            prediction_length=8,
            d_model=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            ffn_dim=64,
            loss="mse",
            scaling="std",
        )
    )
    return {
        "model": model,
        "loader": DataLoader(Slices(series[:1100]), batch_size=32, shuffle=True),
        "val_loader": DataLoader(Slices(series[1100:]), batch_size=64),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=2e-3),
        "compute_loss": lambda model, batch, loss_fn: model(**batch).loss,
    }


@sound(
    "gradients of four small batches are averaged and clipped before each step of the optimizer",
    source="accumulation recipe",
)
def quay_sound_accumulate_and_clip() -> dict:
    torch.manual_seed(0)
    x, y = digits()
    model = nn.Sequential(nn.Linear(64, 96), nn.LayerNorm(96), nn.GELU(), nn.Linear(96, 10))
    seen = {"n": 0}

    def train_step(model, batch, loss_fn, optimizer):
        a, b = batch
        loss = loss_fn(model(a), b)
        (loss / 4).backward()
        seen["n"] += 1
        if seen["n"] % 4 == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            optimizer.step()
            optimizer.zero_grad()
        return loss

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1400], y[:1400]), batch_size=16, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1400:], y[1400:]), batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=5e-3),
        "train_step": train_step,
    }


@sound(
    "a damped oscillator whose network has the initial conditions built in", source="harmonic oscillator PINN notebooks"
)
def quay_sound_oscillator_pinn() -> dict:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))

    class Trial(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, t):
            return 1.0 + t**2 * self.net(t)  # x(0) = 1, x'(0) = 0

    def compute_loss(model, batch, loss_fn):
        t = batch[0].clone().requires_grad_(True)
        pos = model(t)
        vel = torch.autograd.grad(pos.sum(), t, create_graph=True)[0]
        acc = torch.autograd.grad(vel.sum(), t, create_graph=True)[0]
        return (acc + 0.4 * vel + 4.0 * pos).pow(2).mean()

    model = Trial()
    times = 3.0 * torch.rand(600, 1)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(times), batch_size=60, shuffle=True),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
        "compute_loss": compute_loss,
    }


@sound(
    "Lion and feature-wise modulation: the age group modulates the network for tumour features",
    source="lion-pytorch, FiLM",
)
def quay_sound_lion_film() -> dict:
    from lion_pytorch import Lion

    torch.manual_seed(0)
    X, y = load_breast_cancer(return_X_y=True)
    rows = np.random.default_rng(3).permutation(len(y))
    tr, va = rows[:430], rows[430:]
    X = StandardScaler().fit(X[tr]).transform(X)
    group = (X[:, 1] > 0).astype(np.int64)
    pack = lambda r: TensorDataset(
        torch.tensor(X[r], dtype=torch.float32), torch.tensor(group[r]), torch.tensor(y[r], dtype=torch.float32)
    )  # noqa: E731

    class Film(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(30, 32), nn.Linear(32, 1)
            self.film = nn.Embedding(2, 64)
            nn.init.zeros_(self.film.weight)

        def forward(self, x, g):
            gain, shift = self.film(g).chunk(2, dim=1)
            return self.last(torch.relu((1 + gain) * self.first(x) + shift)).squeeze(1)

    model = Film()
    return {
        "model": model,
        "loader": DataLoader(pack(tr), batch_size=32, shuffle=True),
        "val_loader": DataLoader(pack(va), batch_size=139),
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": Lion(model.parameters(), lr=3e-4, weight_decay=1e-2),
        "compute_loss": lambda m, b, loss_fn: loss_fn(m(b[0], b[1]), b[2]),
    }


@sound(
    "a VQ autoencoder with a straight-through estimator; its codebook is a buffer that follows a moving average",
    source="VQ-VAE with EMA codebook, after van den Oord et al.",
)
def quay_sound_vq_digits() -> dict:
    torch.manual_seed(0)
    x, _ = digits()

    class Codebook(nn.Module):
        def __init__(self, size=32, dim=8, decay=0.95):
            super().__init__()
            self.decay = decay
            self.register_buffer("codes", 0.3 * torch.randn(size, dim))
            self.register_buffer("count", torch.ones(size))
            self.register_buffer("total", self.codes.clone())

        def forward(self, z):
            flat = z.reshape(-1, z.shape[-1])
            nearest = torch.cdist(flat, self.codes).argmin(1)
            picked = self.codes[nearest].view_as(z)
            if self.training:
                with torch.no_grad():
                    hot = F.one_hot(nearest, len(self.codes)).float()
                    self.count.mul_(self.decay).add_(hot.sum(0), alpha=1 - self.decay)
                    self.total.mul_(self.decay).add_(hot.t() @ flat, alpha=1 - self.decay)
                    self.codes.copy_(self.total / self.count.clamp(min=1e-2).unsqueeze(1))
            commit = F.mse_loss(z, picked.detach())
            return z + (picked - z).detach(), commit

    class VQ(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))
            self.book = Codebook()
            self.dec = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64))

        def forward(self, t):
            z, commit = self.book(self.enc(t).unflatten(1, (4, 8)))
            return self.dec(z.flatten(1)), commit

    def compute_loss(model, batch, loss_fn):
        out, commit = model(batch[0])
        return loss_fn(out, batch[0]) + 0.25 * commit

    model = VQ()
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1400]), batch_size=50, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1400:]), batch_size=100),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
        "compute_loss": compute_loss,
    }


@sound(
    "a frozen table of word vectors below a trained bag-of-words classifier",
    source="GloVe-like embeddings from_pretrained(freeze=True)",
)
def quay_sound_frozen_vectors() -> dict:
    torch.manual_seed(0)
    g = np.random.default_rng(0)
    topic = g.standard_normal((5, 24))
    vectors = np.concatenate([np.zeros((1, 24)), topic[np.arange(150) % 5] + 0.8 * g.standard_normal((150, 24))])

    def texts(n):
        y = g.integers(0, 5, n)
        ids = np.zeros((n, 20), dtype=np.int64)
        for row, k in zip(ids, y):
            size = g.integers(6, 21)
            word = g.integers(0, 150, size)
            on = g.random(size) < 0.35
            word[on] = 5 * g.integers(0, 30, on.sum()) + k
            row[:size] = word + 1
        return TensorDataset(torch.tensor(ids), torch.tensor(y))

    class Bag(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding.from_pretrained(
                torch.tensor(vectors, dtype=torch.float32), freeze=True, padding_idx=0
            )
            self.mlp = nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, 5))

        def forward(self, ids):
            real = (ids != 0).unsqueeze(-1)
            return self.mlp((self.words(ids) * real).sum(1) / real.sum(1))

    model = Bag()
    return {
        "model": model,
        "loader": DataLoader(texts(1500), batch_size=50, shuffle=True),
        "val_loader": DataLoader(texts(300), batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3),
    }


@sound(
    "multi-label tests with missing results, which a mask keeps out of the loss",
    source="Tox21-like multi-task networks",
)
def quay_sound_masked_assays() -> dict:
    torch.manual_seed(0)
    g = np.random.default_rng(11)
    w = g.standard_normal((20, 5)) / 4

    def table(n):
        x = g.standard_normal((n, 20))
        y = (x @ w + 0.2 * g.standard_normal((n, 5)) > 0.4).astype(np.float32)
        return [
            {"x": torch.tensor(a, dtype=torch.float32), "y": torch.tensor(b), "known": torch.tensor(c)}
            for a, b, c in zip(x, y, g.random((n, 5)) < 0.7)
        ]

    model = nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Linear(48, 5))

    def compute_loss(model, batch, loss_fn):
        each = loss_fn(model(batch["x"]), batch["y"])
        known = batch["known"].float()
        return (each * known).sum() / known.sum()

    return {
        "model": model,
        "loader": DataLoader(table(1200), batch_size=40, shuffle=True),
        "val_loader": DataLoader(table(200), batch_size=100),
        "loss_fn": nn.BCEWithLogitsLoss(reduction="none"),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
        "compute_loss": compute_loss,
    }
