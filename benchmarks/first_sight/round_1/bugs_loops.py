from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits, load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader

from benchmarks.first_sight import pair
from benchmarks.first_sight.round_1._dev_helpers import DictDataset, loaders


class RingGAN(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = nn.Sequential(
            nn.Linear(8, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 2)
        )
        self.discriminator = nn.Sequential(
            nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1)
        )

    def forward(self, z):
        return self.generator(z)


@pair(
    "the generator's loss is computed on the detached samples made for the discriminator, so the generator gets no gradient",
    where="generator",
    source="https://jishuzhan.net/article/1706211350813872129 (when to detach in a GAN); forum threads 'generator does not learn'",
    accepted=("untrained-parameters",),
)
def ring_gan(broken: bool) -> dict:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, np.pi, 1000)
    points = np.stack([np.cos(angle), np.sin(angle)], 1) * 1.5 + rng.normal(0, 0.08, (1000, 2)) + [1.0, -0.5]
    train, _ = loaders((points,), (points[:10],))
    model = RingGAN()
    optimizer = torch.optim.Adam(
        [
            {"params": model.generator.parameters(), "lr": 1e-3},
            {"params": model.discriminator.parameters(), "lr": 1e-3},
        ],
        betas=(0.5, 0.999),
    )

    def train_step(model, batch, loss_fn, optimizer):
        real = batch[0]
        fake = model.generator(torch.randn(len(real), 8))
        if broken:
            fake = fake.detach()
        # discriminator
        optimizer.zero_grad()
        d_real, d_fake = model.discriminator(real), model.discriminator(fake.detach())
        d_loss = loss_fn(d_real, torch.ones_like(d_real)) + loss_fn(d_fake, torch.zeros_like(d_fake))
        d_loss.backward()
        optimizer.step()  # the generator has no gradient here and is left alone
        # generator
        optimizer.zero_grad()
        d_fake = model.discriminator(fake)
        g_loss = loss_fn(d_fake, torch.ones_like(d_fake))
        g_loss.backward()
        model.discriminator.zero_grad()
        optimizer.step()
        return (d_loss + g_loss).detach()

    return {
        "model": model,
        "loader": train,
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": optimizer,
        "train_step": train_step,
    }


@pair(
    "the gradients are clipped before scaler.unscale_: the scaled norm is cut to 1 and then divided by 65536, so hardly anything is left",
    where="train_step",
    source="https://github.com/Lightning-AI/pytorch-lightning/issues/9599; milesial/Pytorch-UNet#468",
    accepted=("clipping-too-tight",),
)
def digits_amp_clipping(broken: bool) -> dict:
    torch.manual_seed(0)
    d = load_digits()
    x = (d.data / 16 - 0.3) / 0.37
    xa, xb, ya, yb = train_test_split(x, d.target, test_size=0.25, random_state=0, stratify=d.target)
    train, val = loaders((xa, ya), (xb, yb))
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 48), nn.ReLU(), nn.Linear(48, 10))
    scaler = torch.amp.GradScaler("cpu")

    def train_step(model, batch, loss_fn, optimizer):
        x, y = batch
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        if not broken:
            scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(),
        "train_step": train_step,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9),
    }


@pair(
    "the function given to LambdaLR returns the learning rate itself instead of a factor, so the real rate is lr * lr",
    where="optimizer",
    source="https://runebook.dev/en/docs/pytorch/generated/torch.optim.lr_scheduler.lambdalr (common pitfall)",
    accepted=("schedule-reaches-zero", "learning-rate-too-low"),
)
def wine_lambda_schedule(broken: bool) -> dict:
    torch.manual_seed(0)
    x, y = load_wine(return_X_y=True)
    rng = np.random.default_rng(0)
    xa, xb, ya, yb = train_test_split(x, y, test_size=0.25, random_state=0, stratify=y)
    scale = StandardScaler().fit(xa)
    train, val = loaders((scale.transform(xa), ya), (scale.transform(xb), yb), 16)
    model = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 3))
    lr = 2e-3
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    if broken:
        schedule = lambda epoch: lr * 0.97**epoch
    else:
        schedule = lambda epoch: 0.97**epoch
    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "scheduler": torch.optim.lr_scheduler.LambdaLR(optimizer, schedule),
    }


class Policy(nn.Module):
    def __init__(self, features, actions):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, 64), nn.Tanh(), nn.Linear(64, actions))

    def forward(self, x):
        return self.body(x)


@pair(
    "the REINFORCE loss lacks its minus sign: minimising it makes rewarded actions less likely",
    where="train_step",
    source="https://datascience.stackexchange.com/questions/57114/understanding-reinforce-loss",
    accepted=("loss-sign-flipped",),
)
def bandit_reinforce(broken: bool) -> dict:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    n, arms = 1200, 4
    best = rng.integers(0, arms, n)
    x = rng.normal(0, 1.2, (arms, 10))[best] + rng.normal(0, 0.7, (n, 10))
    x = (x - x.mean(0)) / x.std(0)
    rewards = (rng.random((n, arms)) < np.where(np.eye(arms)[best] > 0, 0.9, 0.1)).astype("float32")
    train, _ = loaders((x, rewards), (x[:10], rewards[:10]), 128)
    model = Policy(10, arms)

    def train_step(model, batch, loss_fn, optimizer):
        context, reward_of = batch
        dist = torch.distributions.Categorical(logits=model(context))
        action = dist.sample()
        reward = reward_of.gather(1, action[:, None]).squeeze(1)
        objective = (dist.log_prob(action) * (reward - reward.mean())).mean()
        loss = objective if broken else -objective
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return {
        "model": model,
        "loader": train,
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
        "train_step": train_step,
    }


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 16))

    def forward(self, x):
        return self.net(x)


@pair(
    "the contrastive loss takes a bare square root of the squared distance; for a pair of identical samples its gradient is infinite and the weights become NaN",
    where="compute_loss",
    source="https://github.com/adambielski/siamese-triplet/issues/18",
    accepted=("non-finite-backward",),
)
def siamese_digits(broken: bool) -> dict:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    d = load_digits()
    x = ((d.data / 16 - 0.3) / 0.37).astype("float32")

    def pairs(rows, n):
        left, right, same = [], [], []
        by_class = [rows[d.target[rows] == c] for c in range(10)]
        for _ in range(n):
            i = rng.choice(rows)
            s = rng.random() < 0.5
            c = d.target[i] if s else rng.choice([k for k in range(10) if k != d.target[i]])
            left.append(i), right.append(rng.choice(by_class[c])), same.append(float(s))
        return DictDataset(left=torch.tensor(x[left]), right=torch.tensor(x[right]), same=torch.tensor(same))

    rows = rng.permutation(len(x))
    train = DataLoader(pairs(rows[:1300], 2000), batch_size=64, shuffle=True)
    val = DataLoader(pairs(rows[1300:], 500), batch_size=64)
    model = Embedder()

    def compute_loss(model, batch, loss_fn=None):
        a, b = model(batch["left"]), model(batch["right"])
        squared = (a - b).pow(2).sum(1)
        distance = torch.sqrt(squared) if broken else torch.sqrt(squared + 1e-6)
        return (batch["same"] * distance**2 + (1 - batch["same"]) * F.relu(1.5 - distance) ** 2).mean()

    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }
