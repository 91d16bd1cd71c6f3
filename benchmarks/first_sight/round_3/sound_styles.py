"""Unusual, hand-made and right: own gradients, frozen parts, tied weights, several optimizers, odd heads and losses."""

import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_diabetes, load_digits
from sklearn.preprocessing import StandardScaler
from torch.nn.utils.rnn import pack_sequence
from torch.utils.data import DataLoader, Dataset, Sampler, TensorDataset

from benchmarks.first_sight import sound


def _digits(flat=True):
    d = load_digits()
    order = np.random.RandomState(21).permutation(len(d.target))
    x = torch.tensor(d.data[order] / 16.0, dtype=torch.float32)
    return (x if flat else x.view(-1, 1, 8, 8)), torch.tensor(d.target[order])


def _split(x, y, cut, batch_size=64, **kw):
    return (
        DataLoader(TensorDataset(x[:cut], y[:cut]), batch_size=batch_size, shuffle=True, **kw),
        DataLoader(TensorDataset(x[cut:], y[cut:]), batch_size=128),
    )


class SignSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() <= 1)


class BinaryLinear(nn.Linear):
    def forward(self, x):
        scale = self.weight.abs().mean(1, keepdim=True).detach()
        return F.linear(x, SignSTE.apply(self.weight) * scale, self.bias)


@sound(
    "binarized weights and activations with a straight-through sign; latent weights are clamped after each step",
    source="XNOR-Net style re-implementations",
)
def sty_binary_net() -> dict:
    torch.manual_seed(201)
    x, y = _digits()
    loader, val = _split(x * 2 - 1, y, 1400)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.l1, self.b1 = nn.Linear(64, 128), nn.BatchNorm1d(128)
            self.l2, self.b2 = BinaryLinear(128, 128), nn.BatchNorm1d(128)
            self.l3 = nn.Linear(128, 10)

        def forward(self, x):
            x = SignSTE.apply(self.b1(self.l1(x)))
            x = F.hardtanh(self.b2(self.l2(x)))
            return self.l3(x)

    model = Net()

    def train_step(model, batch, loss_fn, optimizer):
        loss = loss_fn(model(batch[0]), batch[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            model.l2.weight.clamp_(-1, 1)
        return loss

    return {
        "model": model,
        "loader": loader,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
        "train_step": train_step,
    }


@sound(
    "ordinal regression: one slope shared by all thresholds, cumulative binary targets",
    source="CORAL (coral-pytorch) written by hand",
)
def sty_coral_age() -> dict:
    torch.manual_seed(202)
    d = load_diabetes()
    x = torch.tensor(StandardScaler().fit_transform(d.data), dtype=torch.float32)
    y = torch.tensor(np.digitize(d.target, np.quantile(d.target, [0.2, 0.4, 0.6, 0.8])))
    loader, val = _split(x, y, 360, batch_size=24)

    class Coral(nn.Module):
        def __init__(self, k=5):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1, bias=False))
            self.cut = nn.Parameter(torch.arange(k - 1, 0, -1).float() / (k - 1) * 2 - 1)

        def forward(self, x):
            return self.body(x) + self.cut

    def coral_loss(logits, y):
        levels = (y[:, None] > torch.arange(logits.shape[1])).float()
        return F.binary_cross_entropy_with_logits(logits, levels)

    model = Coral()
    return {
        "model": model,
        "loader": loader,
        "val_loader": val,
        "loss_fn": coral_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


@sound(
    "an extreme learning machine: a large random layer that stays frozen, only the read-out is trained",
    source="random features / ELM",
)
def sty_random_features() -> dict:
    torch.manual_seed(203)
    x, y = _digits()
    loader, val = _split(x, y, 1400)
    model = nn.Sequential(nn.Linear(64, 400), nn.ReLU(), nn.Linear(400, 10))
    for p in model[0].parameters():
        p.requires_grad = False
    return {
        "model": model,
        "loader": loader,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.SGD(model[2].parameters(), lr=0.1, momentum=0.9),
    }


@sound("a denoising autoencoder whose decoder is the transpose of its encoder", source="tied autoencoders")
def sty_tied_autoencoder() -> dict:
    torch.manual_seed(204)
    x, _ = _digits()

    class Tied(nn.Module):
        def __init__(self, d=64, h=32):
            super().__init__()
            self.w = nn.Parameter(torch.randn(h, d) / math.sqrt(d))
            self.b_enc, self.b_dec = nn.Parameter(torch.zeros(h)), nn.Parameter(torch.zeros(d))

        def forward(self, x):
            return F.linear(torch.tanh(F.linear(x, self.w, self.b_enc)), self.w.t(), self.b_dec)

    def compute_loss(model, batch, loss_fn):
        clean = batch[0]
        noisy = clean + 0.2 * torch.randn_like(clean) if model.training else clean
        return loss_fn(model(noisy), clean)

    model = Tied()
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1500]), batch_size=64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1500:]), batch_size=64),
        "loss_fn": nn.MSELoss(),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


@sound(
    "sequences of different length, packed and never padded in the loss; the last state of each direction is used",
    source="pack_sequence tutorials",
)
def sty_packed_lengths() -> dict:
    torch.manual_seed(205)
    rng = np.random.RandomState(0)
    rows = []
    for i in range(1200):
        n = rng.randint(5, 25)
        steps = rng.randn(n, 2)
        up = i % 2
        steps[:, 0] += 0.35 if up else -0.35
        rows.append((torch.tensor(np.cumsum(steps, 0) / 4, dtype=torch.float32), up))

    def collate(batch):
        return pack_sequence([s for s, _ in batch], enforce_sorted=False), torch.tensor([y for _, y in batch])

    class Walks(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(2, 24, bidirectional=True)
            self.fc = nn.Linear(48, 2)

        def forward(self, packed):
            _, (h, _) = self.lstm(packed)
            return self.fc(torch.cat([h[0], h[1]], dim=1))

    model = Walks()
    return {
        "model": model,
        "loader": DataLoader(rows[:1000], batch_size=40, shuffle=True, collate_fn=collate),
        "val_loader": DataLoader(rows[1000:], batch_size=50, collate_fn=collate),
        "loss_fn": nn.CrossEntropyLoss(),
        "compute_loss": lambda model, batch, loss_fn: loss_fn(model(batch[0]), batch[1]),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


@sound(
    "one recurrent block applied six times on purpose (shared weights over depth) with a step embedding",
    source="Universal Transformer / ALBERT",
)
def sty_shared_depth() -> dict:
    torch.manual_seed(206)
    g = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 8, (3000, 9), generator=g)
    target = (tokens == tokens[:, :1]).sum(1).clamp(max=4) - 1
    loader, val = _split(tokens, target, 2500, batch_size=50)

    class Universal(nn.Module):
        def __init__(self, d=48, depth=4):
            super().__init__()
            self.emb, self.pos = nn.Embedding(8, d), nn.Parameter(0.1 * torch.randn(9, d))
            self.block = nn.TransformerEncoderLayer(d, 4, 96, dropout=0.0, batch_first=True, norm_first=True)
            self.step = nn.Parameter(0.1 * torch.randn(depth, d))
            self.norm, self.out = nn.LayerNorm(d), nn.Linear(d, 4)

        def forward(self, t):
            h = self.emb(t) + self.pos
            for s in self.step:
                h = self.block(h + s)
            return self.out(self.norm(h)[:, 0])

    model = Universal()
    return {
        "model": model,
        "loader": loader,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=1e-3),
    }


@sound(
    "sharpness-aware minimization: two forward and backward passes per step, the weights are moved up and back in between",
    source="SAM re-implementations",
)
def sty_sam_steps() -> dict:
    torch.manual_seed(207)
    x, y = _digits(flat=False)
    loader, val = _split(x, y, 1400)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10)
    )

    def train_step(model, batch, loss_fn, optimizer, rho=0.05):
        images, labels = batch
        params = [p for p in model.parameters() if p.requires_grad]
        loss = loss_fn(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        with torch.no_grad():
            norm = torch.stack([p.grad.norm() for p in params]).norm()
            moves = [p.grad * (rho / (norm + 1e-12)) for p in params]
            for p, e in zip(params, moves):
                p.add_(e)
        optimizer.zero_grad()
        loss_fn(model(images), labels).backward()
        with torch.no_grad():
            for p, e in zip(params, moves):
                p.sub_(e)
        optimizer.step()
        return loss.detach()

    return {
        "model": model,
        "loader": loader,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
        "train_step": train_step,
    }


@sound("a mixture density network for an inverse problem with several answers", source="Bishop's MDN example")
def sty_mixture_density() -> dict:
    torch.manual_seed(208)
    g = torch.Generator().manual_seed(1)
    t = torch.rand(2000, 1, generator=g)
    x = t + 0.3 * torch.sin(2 * math.pi * t) + 0.05 * torch.randn(2000, 1, generator=g)

    class MDN(nn.Module):
        def __init__(self, k=5):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(1, 48), nn.Tanh())
            self.pi, self.mu, self.log_sigma = nn.Linear(48, k), nn.Linear(48, k), nn.Linear(48, k)

        def forward(self, x):
            h = self.body(x)
            mix = torch.distributions.Categorical(logits=self.pi(h))
            return torch.distributions.MixtureSameFamily(
                mix, torch.distributions.Normal(self.mu(h), self.log_sigma(h).clamp(-4, 2).exp())
            )

    model = MDN()
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, t), batch_size=64, shuffle=True),
        "compute_loss": lambda model, batch, loss_fn: -model(batch[0]).log_prob(batch[1].squeeze(-1)).mean(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=5e-3),
    }


class OneBagPerBatch(Dataset):
    def __init__(self, x, y, n, seed):
        rng = np.random.RandomState(seed)
        pos, neg = torch.nonzero(y == 0).flatten().numpy(), torch.nonzero(y != 0).flatten().numpy()
        self.bags = []
        for i in range(n):
            idx = rng.choice(neg, rng.randint(3, 7))
            if i % 2:
                idx = np.concatenate([idx, rng.choice(pos, rng.randint(1, 3))])
            self.bags.append((x[rng.permutation(idx)], float(i % 2)))

    def __len__(self):
        return len(self.bags)

    def __getitem__(self, i):
        return self.bags[i]


@sound(
    "attention-based multiple instance learning: a batch is one bag of variable size, a step is taken after every second bag",
    source="AttentionDeepMIL",
)
def sty_bags_of_digits() -> dict:
    torch.manual_seed(209)
    x, y = _digits()

    class MIL(nn.Module):
        def __init__(self):
            super().__init__()
            self.feat = nn.Sequential(nn.Linear(64, 48), nn.ReLU())
            self.att = nn.Sequential(nn.Linear(48, 16), nn.Tanh(), nn.Linear(16, 1))
            self.cls = nn.Linear(48, 1)

        def forward(self, bag):
            h = self.feat(bag)
            a = torch.softmax(self.att(h), dim=0)
            return self.cls((a * h).sum(0))

    model = MIL()
    state = {"seen": 0}
    every = 2

    def train_step(model, batch, loss_fn, optimizer):
        bag, label = batch
        loss = loss_fn(model(bag), torch.as_tensor([label], dtype=torch.float32))
        (loss / every).backward()
        state["seen"] += 1
        if state["seen"] % every == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss

    return {
        "model": model,
        "loader": DataLoader(OneBagPerBatch(x, y, 600, 0), batch_size=None, shuffle=True),
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-2),
        "train_step": train_step,
    }


@sound(
    "a hypernetwork writes the weights of a small regressor for each task; the regressor has no parameters itself",
    source="hypernetworks",
)
def sty_hypernet_sines() -> dict:
    torch.manual_seed(210)
    g = torch.Generator().manual_seed(5)
    amp, phase = torch.rand(1500, 1, generator=g) * 2 + 0.5, torch.rand(1500, 1, generator=g) * math.pi
    xs = torch.rand(1500, 20, generator=g) * 4 - 2
    ys = amp * torch.sin(xs + phase)

    class HyperNet(nn.Module):
        def __init__(self, h=10):
            super().__init__()
            self.h = h
            self.net = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 3 * h + 1))

        def forward(self, task, x):
            w1, b1, w2, b2 = self.net(task).split([self.h, self.h, self.h, 1], dim=1)
            hidden = torch.tanh(x[:, :, None] * w1[:, None] + b1[:, None])
            return (hidden * w2[:, None]).sum(-1) + b2

    model = HyperNet()
    task = torch.cat([amp, phase], 1)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(task, xs, ys), batch_size=50, shuffle=True),
        "loss_fn": nn.MSELoss(),
        "compute_loss": lambda model, batch, loss_fn: loss_fn(model(batch[0], batch[1]), batch[2]),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


@sound(
    "SimSiam: the target branch is detached, the collapse is held off by the predictor and batch norms",
    source="facebookresearch/simsiam",
)
def sty_simsiam_digits() -> dict:
    torch.manual_seed(211)
    x, _ = _digits()
    encoder = nn.Sequential(
        nn.Linear(64, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 32), nn.BatchNorm1d(32, affine=False)
    )
    predictor = nn.Sequential(nn.Linear(32, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 32))
    model = nn.ModuleDict({"encoder": encoder, "predictor": predictor})

    def view(img):
        keep = (torch.rand_like(img) > 0.2).float()
        return img * keep + 0.1 * torch.randn_like(img)

    def compute_loss(model, batch, loss_fn):
        z1, z2 = model["encoder"](view(batch[0])), model["encoder"](view(batch[0]))
        p1, p2 = model["predictor"](z1), model["predictor"](z2)
        return -(F.cosine_similarity(p1, z2.detach()).mean() + F.cosine_similarity(p2, z1.detach()).mean()) / 2

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x), batch_size=128, shuffle=True, drop_last=True),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4),
    }


class ClassBalancedBatches(Sampler):
    """Yields index lists with the same number of samples of every class."""

    def __init__(self, y, per_class, batches, seed=0):
        self.pools = [torch.nonzero(y == c).flatten().tolist() for c in y.unique()]
        self.per_class, self.batches, self.rng = per_class, batches, random.Random(seed)

    def __len__(self):
        return self.batches

    def __iter__(self):
        for _ in range(self.batches):
            yield [i for pool in self.pools for i in self.rng.sample(pool, self.per_class)]


@sound(
    "prototypical networks: batches sorted by class, the first half of each class makes the prototypes",
    source="prototypical networks for few-shot learning",
)
def sty_prototypes() -> dict:
    torch.manual_seed(212)
    x, y = _digits()
    k = 6

    def proto_loss(model, batch, loss_fn):
        z = model(batch[0]).view(10, k, -1)
        prototypes, queries = z[:, : k // 2].mean(1), z[:, k // 2 :].flatten(0, 1)
        target = torch.arange(10).repeat_interleave(k - k // 2)
        return F.cross_entropy(-torch.cdist(queries, prototypes).pow(2), target)

    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, y), batch_sampler=ClassBalancedBatches(y, k, 40)),
        "compute_loss": proto_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }


@sound(
    "a GAN with R1 penalty on every second step, non-saturating losses and two optimizers",
    source="R1 regularized GAN tutorials",
)
def sty_r1_gan() -> dict:
    torch.manual_seed(213)
    angle = torch.rand(2000) * 2 * math.pi
    ring = torch.stack([angle.cos(), angle.sin()], 1) * 1.5 + 0.05 * torch.randn(2000, 2)
    gen = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    disc = nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
    opt = {
        "gen": torch.optim.Adam(gen.parameters(), lr=1e-3, betas=(0.5, 0.99)),
        "disc": torch.optim.Adam(disc.parameters(), lr=1e-3, betas=(0.5, 0.99)),
    }
    turn = {"n": 0}

    def train_step(model, batch, loss_fn, optimizer):
        real = batch[0].clone().requires_grad_(True)
        noise = torch.randn(len(real), 8)
        real_score, fake_score = model["disc"](real), model["disc"](model["gen"](noise).detach())
        loss_d = F.softplus(-real_score).mean() + F.softplus(fake_score).mean()
        if turn["n"] % 2 == 0:
            (grad,) = torch.autograd.grad(real_score.sum(), real, create_graph=True)
            loss_d = loss_d + 0.2 * grad.pow(2).sum(1).mean()
        turn["n"] += 1
        optimizer["disc"].zero_grad()
        loss_d.backward()
        optimizer["disc"].step()
        model["disc"].requires_grad_(False)
        loss_g = F.softplus(-model["disc"](model["gen"](noise))).mean()
        optimizer["gen"].zero_grad()
        loss_g.backward()
        optimizer["gen"].step()
        model["disc"].requires_grad_(True)
        return loss_d.detach() + loss_g.detach()

    return {
        "model": {"gen": gen, "disc": disc},
        "loader": DataLoader(TensorDataset(ring), batch_size=100, shuffle=True),
        "optimizer": opt,
        "train_step": train_step,
    }
