from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.first_sight import pair
from benchmarks.first_sight.round_2._held_helpers import batches, digit_tables, mlp


class BoxNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 12, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(12, 24, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
        )
        self.box = nn.Sequential(nn.Linear(24 * 36, 64), nn.ReLU(), nn.Linear(64, 4), nn.Sigmoid())

    def forward(self, x):
        return self.box(self.backbone(x))


@pair(
    "the box head ends in a sigmoid (0 .. 1) but the target boxes are in pixels: everything saturates at 1",
    where="batch[1]",
    source="https://github.com/SeokjuLee/VPGNet/issues/53; facebookresearch/detr#587",
    accepted=("unscaled-targets", "clamped-output"),
)
def plate_boxes(broken: bool) -> dict:
    torch.manual_seed(3)
    rng = np.random.default_rng(3)
    n, size = 700, 24
    x, boxes = rng.normal(0, 0.25, (n, 1, size, size)), np.zeros((n, 4))
    for i in range(n):
        w, h = rng.integers(5, 13, 2)
        left, top = rng.integers(0, size - w), rng.integers(0, size - h)
        x[i, 0, top : top + h, left : left + w] += rng.uniform(1.2, 2.0)
        boxes[i] = left + w / 2, top + h / 2, w, h
    x = (x - x.mean()) / x.std()
    if not broken:
        boxes = boxes / size
    model = BoxNet()
    return {
        "model": model,
        "loader": batches(x[:560], boxes[:560], size=32),
        "val_loader": batches(x[560:], boxes[560:], train=False),
        "loss_fn": nn.SmoothL1Loss(beta=0.1),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }


@pair(
    "the noise is added in place, so the clean image that serves as target is noisy too: the autoencoder is asked to reproduce the noise",
    where="compute_loss",
    source="https://github.com/keon/3-min-pytorch/issues/18; aapatel09/handson-unsupervised-learning#6",
)
def denoise_digits(broken: bool) -> dict:
    torch.manual_seed(3)
    xa, xb, _, _ = digit_tables()
    model = mlp(64, 128, 32, 128, 64)

    def compute_loss(model, batch, loss_fn):
        clean = batch[0]
        if broken:
            noisy = clean
            noisy += 0.8 * torch.randn_like(clean)
        else:
            noisy = clean + 0.8 * torch.randn_like(clean)
        return loss_fn(model(noisy), clean)

    return {
        "model": model,
        "loader": batches(xa),
        "val_loader": batches(xb, train=False),
        "loss_fn": nn.MSELoss(),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


class Adapted(nn.Module):
    def __init__(self, body, inside):
        super().__init__()
        self.body, self.adapter, self.head, self.inside = (
            body,
            nn.Sequential(nn.Linear(64, 12), nn.Tanh()),
            nn.Linear(12, 10),
            inside,
        )

    def forward(self, x):
        if self.inside:
            with torch.no_grad():
                h = self.adapter(self.body(x))
        else:
            with torch.no_grad():
                h = self.body(x)
            h = self.adapter(h)
        return self.head(h)


@pair(
    "the new adapter is called inside the torch.no_grad() block that is meant for the frozen body, so it is never trained",
    where="adapter",
    source="https://github.com/hushell/sib_meta_learn/issues/3 (extractor runs inside torch.no_grad); forum threads 'grad is None'",
    accepted=("untrained-parameters",),
)
def adapter_in_no_grad(broken: bool) -> dict:
    torch.manual_seed(3)
    xa, xb, ya, yb = digit_tables()
    body = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
    old = nn.Sequential(body, nn.Linear(64, 5))  # the earlier task: 0-1, 2-3, 4-5, 6-7 or 8-9
    opt = torch.optim.Adam(old.parameters(), lr=2e-3)
    xo, yo = torch.tensor(xa), torch.tensor(ya // 2)
    for _ in range(150):
        take = torch.randint(0, len(xo), (64,))
        opt.zero_grad()
        F.cross_entropy(old(xo[take]), yo[take]).backward()
        opt.step()
    old.zero_grad()
    body.requires_grad_(False)
    model = Adapted(body, inside=broken)
    return {
        "model": model,
        "loader": batches(xa, ya, size=32),
        "val_loader": batches(xb, yb, train=False),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2),
    }


@pair(
    "optimizer.zero_grad() stands between backward() and step(): the gradients are wiped before they are used",
    where="train_step",
    source="velog.io/@rhss10 (where to put zero_grad); DeepFD / AUTOTRAINER 'not training' reports",
    accepted=("step-never-taken",),
)
def road_segmentation(broken: bool) -> dict:
    torch.manual_seed(3)
    rng = np.random.default_rng(3)
    n, size = 480, 16
    yy, xx = np.mgrid[:size, :size]
    images, classes = rng.normal(0, 0.2, (n, 2, size, size)), np.zeros((n, size, size), int)
    for i in range(n):
        road = np.abs(xx - rng.uniform(3, 13) - rng.uniform(-0.6, 0.6) * (yy - 8)) < rng.uniform(1.2, 3)
        car = ((xx - rng.uniform(3, 13)) ** 2 + (yy - rng.uniform(3, 13)) ** 2) < rng.uniform(3, 9)
        classes[i][road], classes[i][car] = 1, 2
        images[i, 0] += 0.9 * road
        images[i, 1] += 1.2 * car
    images = (images - images.mean((0, 2, 3), keepdims=True)) / images.std((0, 2, 3), keepdims=True)
    model = nn.Sequential(
        nn.Conv2d(2, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 3, 1)
    )

    def train_step(model, batch, loss_fn, optimizer):
        x, y = batch
        loss = loss_fn(model(x), y)
        if broken:
            loss.backward()
            optimizer.zero_grad()
            optimizer.step()
        else:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.detach()

    return {
        "model": model,
        "loader": batches(images[:360], classes[:360], size=32),
        "val_loader": batches(images[360:], classes[360:], train=False),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
        "train_step": train_step,
        "class_names": ["ground", "road", "car"],
    }


@pair(
    "the embeddings of the contrastive loss are normalised along the batch (dim=0) and not along the features",
    where="compute_loss",
    source="https://github.com/tensorflow/similarity/issues/237; HobbitLong/SupContrast#10",
)
def contrastive_digits(broken: bool) -> dict:
    torch.manual_seed(3)
    xa, xb, _, _ = digit_tables()
    model = mlp(64, 128, 32)

    def view(x):
        x = x + 0.3 * torch.randn_like(x)
        return x * (torch.rand_like(x) > 0.25)

    def compute_loss(model, batch, loss_fn):
        x = batch[0]
        dim = 0 if broken else 1
        a, b = F.normalize(model(view(x)), dim=dim), F.normalize(model(view(x)), dim=dim)
        logits = a @ b.t() / 0.2
        target = torch.arange(len(x))
        return (loss_fn(logits, target) + loss_fn(logits.t(), target)) / 2

    return {
        "model": model,
        "loader": batches(xa),
        "val_loader": batches(xb, train=False),
        "loss_fn": nn.CrossEntropyLoss(),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }
