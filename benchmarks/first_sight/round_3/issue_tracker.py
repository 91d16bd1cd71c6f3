"""Reproductions of things that people reported, reduced to a page each."""

from types import SimpleNamespace

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits, make_classification
from sklearn.model_selection import train_test_split
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.first_sight import pair


def loaders(x, y, cut, bs=64):
    train = DataLoader(TensorDataset(x[:cut], y[:cut]), batch_size=bs, shuffle=True)
    return train, DataLoader(TensorDataset(x[cut:], y[cut:]), batch_size=128)


def digits(seed=0):
    d = load_digits()
    p = np.random.RandomState(seed).permutation(len(d.target))
    return torch.tensor(d.data[p] / 16.0, dtype=torch.float32), torch.tensor(d.target[p])


# 1 ---------------------------------------------------------------------------------------- detection


def to_corners(b):
    cx, cy, w, h = b.unbind(-1)
    return torch.stack([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2], dim=-1)


def giou(a, b):
    """Of pairs of boxes given by their corners."""
    lt, rb = torch.maximum(a[:, :2], b[:, :2]), torch.minimum(a[:, 2:], b[:, 2:])
    inter = (rb - lt).clamp(min=0).prod(1)
    area = lambda t: (t[:, 2] - t[:, 0]) * (t[:, 3] - t[:, 1])
    union = area(a) + area(b) - inter
    hull = (torch.maximum(a[:, 2:], b[:, 2:]) - torch.minimum(a[:, :2], b[:, :2])).clamp(min=0).prod(1)
    return inter / (union + 1e-6) - (hull - union) / (hull + 1e-6)


class BoxNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU()
        )
        self.fc = nn.Sequential(nn.Flatten(), nn.Linear(32 * 36, 64), nn.ReLU(), nn.Linear(64, 4))

    def forward(self, x):
        return self.fc(self.conv(x)).sigmoid()


@pair(
    "the GIoU is computed on centre-and-size boxes, but the function expects corners",
    where="",
    source="stevebottos/owl-vit-object-detection issue 14: generalized_box_iou expects xyxy, cxcywh boxes are passed in",
    accepted=("loss-unbounded-below", "training-fails"),
)
def iss_giou_format(faulty: bool) -> dict:
    torch.manual_seed(301)
    rng = np.random.RandomState(0)
    images, boxes = 0.2 * rng.rand(1000, 1, 24, 24), []
    for img in images:
        w, h = rng.randint(4, 13, 2)
        x0, y0 = rng.randint(0, 24 - w), rng.randint(0, 24 - h)
        img[0, y0 : y0 + h, x0 : x0 + w] += 0.8
        boxes.append([(x0 + w / 2) / 24, (y0 + h / 2) / 24, w / 24, h / 24])
    x, y = torch.tensor(images, dtype=torch.float32), torch.tensor(boxes, dtype=torch.float32)
    model = BoxNet()

    def compute_loss(model, batch, loss_fn):
        pred, target = model(batch[0]), batch[1]
        if faulty:
            return (1 - giou(pred, target)).mean()
        return (1 - giou(to_corners(pred), to_corners(target))).mean()

    train, val = loaders(x, y, 850, 32)
    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }


# 2 ---------------------------------------------------------------------------------------- REINFORCE


@pair(
    "the log probabilities of an episode are averaged before they meet the returns, so no action is credited for its own return",
    where="",
    source="Farama-Foundation/Gymnasium issue 1336: bad REINFORCE implementation in the Mujoco tutorial",
    accepted=("training-fails", "training-slow"),
)
def iss_reinforce_mean(faulty: bool) -> dict:
    torch.manual_seed(302)
    g = torch.Generator().manual_seed(0)
    episodes = torch.randn(600, 12, 5, generator=g)
    policy = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 3))
    gamma = 0.3

    def rewards_of(states, actions):
        return (actions == states[..., :3].argmax(-1)).float() - 0.33

    def update(policy, batch, loss_fn, optimizer):
        (states,) = batch
        dist = torch.distributions.Categorical(logits=policy(states))
        actions = dist.sample()
        rewards = rewards_of(states, actions)
        running, gs = torch.zeros(len(states)), []
        for r in rewards.flip(1).unbind(1):
            running = r + gamma * running
            gs.insert(0, running)
        deltas = torch.stack(gs, dim=1)
        log_probs = dist.log_prob(actions)
        if faulty:
            log_probs = log_probs.mean(dim=1, keepdim=True)
        loss = -(log_probs * deltas).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return {
        "model": policy,
        "loader": DataLoader(TensorDataset(episodes), batch_size=4, shuffle=True),
        "optimizer": torch.optim.Adam(policy.parameters(), lr=3e-3),
        "train_step": update,
    }


# 3 ---------------------------------------------------------------------------------------- dropout


class AttentionalFM(nn.Module):
    def __init__(self, dims, k=12, p=0.3, switch=True):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(d, k) for d in dims)
        self.bias = nn.ModuleList(nn.Embedding(d, 1) for d in dims)
        self.att, self.proj, self.fc = nn.Linear(k, 8), nn.Linear(8, 1), nn.Linear(k, 1)
        self.p, self.switch = p, switch

    def drop(self, t):
        if self.switch:
            return F.dropout(t, p=self.p, training=self.training)
        return F.dropout(t, p=self.p)

    def forward(self, x):
        e = [t(x[:, i]) for i, t in enumerate(self.tables)]
        pairs = torch.stack([e[i] * e[j] for i in range(len(e)) for j in range(i + 1, len(e))], dim=1)
        score = torch.softmax(self.proj(F.relu(self.att(pairs))), dim=1)
        pooled = self.drop((score * pairs).sum(1))
        linear = sum(b(x[:, i]) for i, b in enumerate(self.bias))
        return (self.fc(pooled) + linear).squeeze(1)


@pair(
    "F.dropout is called without training=self.training and stays active in eval mode",
    where="",
    source="rixwew/pytorch-fm issue 21, pytorch issue 26338: F.dropout in eval mode",
    accepted=("nondeterministic-eval",),
)
def iss_afm_dropout(faulty: bool) -> dict:
    torch.manual_seed(303)
    rng = np.random.RandomState(1)
    dims = [30, 30, 10]
    x = np.stack([rng.randint(0, d, 5000) for d in dims], 1)
    a, b, c = rng.randn(30, 2), rng.randn(30, 2), rng.randn(10)
    y = ((a[x[:, 0]] * b[x[:, 1]]).sum(1) + c[x[:, 2]] > 0).astype(np.float32)
    model = AttentionalFM(dims, switch=not faulty)
    train, val = loaders(torch.tensor(x), torch.tensor(y), 4200)
    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=5e-3),
    }


# 4 ---------------------------------------------------------------------------------------- several heads


class ManyHeads(nn.Module):
    def __init__(self, tasks):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
        self.heads = nn.ModuleDict({name: nn.Linear(64, n) for name, n in tasks.items()})

    def forward(self, x):
        h = self.trunk(x)
        return {name: head(h) for name, head in self.heads.items()}


@pair(
    "the loss of each task overwrites the one before in the loop over the heads: only the last head is trained",
    where="heads.parity",
    source="threads on multi-head models where one head does not learn (fangwei123456/spikingjelly issue 637 and others)",
    accepted=("untrained-parameters", "loss-ignores-targets"),
)
def iss_heads_overwritten(faulty: bool) -> dict:
    torch.manual_seed(304)
    x, y = digits(4)
    tasks = {"parity": 2, "size": 3, "digit": 10}
    rows = [{"x": a, "parity": b % 2, "size": torch.clamp(b // 4, max=2), "digit": b} for a, b in zip(x, y)]
    model = ManyHeads(tasks)

    def compute_loss(model, batch, loss_fn):
        out = model(batch["x"])
        loss = 0.0
        for name in tasks:
            term = loss_fn(out[name], batch[name])
            loss = term if faulty else loss + term
        return loss

    return {
        "model": model,
        "loader": DataLoader(rows[:1400], batch_size=64, shuffle=True),
        "val_loader": DataLoader(rows[1400:], batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


# 5 ---------------------------------------------------------------------------------------- adversarial training


@pair(
    "the backward pass of the attack leaves its gradients in the weights, and the training step adds its own to them",
    where="",
    source="forum threads on FGSM training: model gradients of the attack are not cleared before the training loss",
    accepted=("accumulated-gradients",),
)
def iss_fgsm_leftover(faulty: bool) -> dict:
    torch.manual_seed(305)
    cfg = SimpleNamespace(eps=0.1, lr=0.1)
    x, y = digits(5)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))

    def attack(model, images, labels, loss_fn):
        images = images.clone().requires_grad_(True)
        loss_fn(model(images), labels).backward()
        return (images + cfg.eps * images.grad.sign()).clamp(0, 1).detach()

    def train_step(model, batch, loss_fn, optimizer):
        images, labels = batch
        if faulty:
            optimizer.zero_grad()
            adv = attack(model, images, labels, loss_fn)
        else:
            adv = attack(model, images, labels, loss_fn)
            optimizer.zero_grad()
        loss = loss_fn(model(adv), labels)
        loss.backward()
        optimizer.step()
        return loss

    train, val = loaders(x, y, 1400)
    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.SGD(model.parameters(), lr=cfg.lr, momentum=0.9),
        "train_step": train_step,
    }


# 6 ---------------------------------------------------------------------------------------- target encoding


@pair(
    "the mean target of each shop is computed with the row itself: with two or three rows per shop the column gives the label away",
    where="loader",
    source="Kaggle discussions on leaking target (mean) encoding without folds",
    accepted=("target-leaks-into-inputs", "split-shift", "split-treated-differently"),
)
def iss_target_encoding(faulty: bool) -> dict:
    torch.manual_seed(306)
    rng = np.random.RandomState(3)
    n = 2400
    shop = rng.randint(0, 1000, n)
    feats = rng.randn(n, 8)
    y = (feats[:, 0] + 0.8 * feats[:, 1] * feats[:, 2] + 0.6 * rng.randn(n) > 0).astype(np.int64)
    train = np.arange(n) < 1900
    total = np.bincount(shop[train], weights=y[train], minlength=1000)
    count = np.bincount(shop[train], minlength=1000)
    prior = y[train].mean()
    own = np.zeros(n) if faulty else train.astype(float)
    mean = (total[shop] - own * y + 0.2 * prior) / (count[shop] - own + 0.2)
    table = torch.tensor(np.column_stack([feats, 2 * mean - 1]), dtype=torch.float32)
    model = nn.Sequential(nn.Linear(9, 48), nn.ReLU(), nn.Linear(48, 2))
    loader, val = loaders(table, torch.tensor(y), 1900, 50)
    return {
        "model": model,
        "loader": loader,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


# 7 ---------------------------------------------------------------------------------------- oversampling


@pair(
    "the rare class is oversampled before the split, so copies of training rows are in the validation set",
    where="val_loader",
    source="threads on oversampling (SMOTE, RandomOverSampler) before train_test_split",
    accepted=("split-leakage",),
)
def iss_oversample_then_split(faulty: bool) -> dict:
    torch.manual_seed(307)
    x, y = make_classification(1500, 20, n_informative=5, weights=[0.85], class_sep=0.5, flip_y=0.1, random_state=6)

    def oversample(x, y, seed=0):
        rng = np.random.RandomState(seed)
        rare = np.flatnonzero(y == 1)
        extra = rng.choice(rare, (y == 0).sum() - len(rare))
        return np.concatenate([x, x[extra]]), np.concatenate([y, y[extra]])

    if faulty:
        xa, ya = oversample(x, y)
        xt, xv, yt, yv = train_test_split(xa, ya, test_size=0.2, random_state=0)
    else:
        xt, xv, yt, yv = train_test_split(x, y, test_size=0.2, random_state=0)
        xt, yt = oversample(xt, yt)
    as_set = lambda a, b: TensorDataset(torch.tensor(a, dtype=torch.float32), torch.tensor(b))
    model = nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Linear(128, 2))
    return {
        "model": model,
        "loader": DataLoader(as_set(xt, yt), batch_size=64, shuffle=True),
        "val_loader": DataLoader(as_set(xv, yv), batch_size=128),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


# 8 ---------------------------------------------------------------------------------------- half precision


@pair(
    "the whole model is cast to bfloat16 and updated in place: steps of the size of the rate are rounded away",
    where="",
    source="issues on pure bfloat16 training with AdamW and a small learning rate: the loss stalls, weights unchanged",
    accepted=("updates-lost-to-rounding",),
)
def iss_pure_bf16(faulty: bool) -> dict:
    torch.manual_seed(308)
    dtype = torch.bfloat16 if faulty else torch.float32
    x, y = digits(8)
    model = nn.Sequential(nn.Linear(64, 256), nn.LayerNorm(256), nn.GELU(), nn.Linear(256, 10))
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.to(torch.bfloat16))
    model = model.to(dtype)

    def compute_loss(model, batch, loss_fn):
        img, lab = batch
        weight_dtype = next(model.parameters()).dtype
        return loss_fn(model(img.to(weight_dtype)).float(), lab)

    train, val = loaders(x, y, 1400)
    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.AdamW(model.parameters(), lr=5e-5),
    }
