from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks.first_sight import pair
from benchmarks.first_sight.round_1._dev_helpers import loaders


def _fruit_photos(n, size=16, seed=0):
    """Coloured fruit before a grey wall, uint8, height x width x channel; the class is the colour."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:size, :size]
    colours = np.array([[200, 70, 70], [70, 200, 70], [70, 70, 200], [190, 190, 60]])
    images, labels = np.zeros((n, size, size, 3), np.uint8), rng.integers(0, 4, n)
    for i, c in enumerate(labels):
        cy, cx, ry, rx = rng.uniform(4, size - 4), rng.uniform(4, size - 4), rng.uniform(1.5, 4), rng.uniform(1.5, 4)
        m = ((yy - cy) / ry) ** 2 + ((xx - cx) / rx) ** 2 < 1
        picture = np.repeat(rng.normal(rng.uniform(60, 160), 25, (size, size, 1)), 3, axis=2)
        picture[m] = colours[c] * rng.uniform(0.7, 1.1) + rng.normal(0, 25, (m.sum(), 3))
        images[i] = np.clip(picture, 0, 255)
    return images, labels


@pair(
    "the height-width-channel images are reshaped to channel-first instead of permuted, so every picture is scrambled",
    where="batch[0]",
    source="https://github.com/Selen-Suyue/DensePolicy2D/issues/3; jeya-maria-jose/TransWeather#2",
    accepted=("misread-image-layout",),
)
def fruit_photos_channel_order(broken: bool) -> dict:
    torch.manual_seed(0)
    images, labels = _fruit_photos(640)
    images = images.astype("float32") / 255
    images = (images - images.mean()) / images.std()
    n, h, w, c = images.shape
    x = images.reshape(n, c, h, w) if broken else images.transpose(0, 3, 1, 2).copy()
    xa, xb, ya, yb = train_test_split(x, labels, test_size=0.25, random_state=0, stratify=labels)
    train, val = loaders((xa, ya), (xb, yb), 32)
    model = nn.Sequential(
        nn.Conv2d(3, 12, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 32, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 4),
    )
    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
        "class_names": ["apple", "lime", "plum", "lemon"],
    }


def _blobs(n, size=16, seed=0):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:size, :size]
    images, masks = np.zeros((n, 1, size, size), np.float32), np.zeros((n, 1, size, size), np.float32)
    for i in range(n):
        shade = rng.normal(0, 0.03, (size, size)) + rng.uniform(-0.02, 0.02) * xx + rng.uniform(-0.02, 0.02) * yy
        for _ in range(rng.integers(1, 4)):
            m = ((yy - rng.uniform(2, size - 2)) / rng.uniform(1.5, 4)) ** 2 + (
                (xx - rng.uniform(2, size - 2)) / rng.uniform(1.5, 4)
            ) ** 2 < 1
            shade = shade + m * rng.uniform(0.35, 0.6)
            masks[i, 0][m] = 1
        images[i, 0] = shade
    images = (images - images.mean()) / images.std()
    return images, masks


class SmallUNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.ReLU())
        self.middle = nn.Sequential(
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(2 * width, width, 3, padding=1),
            nn.ReLU(),
            nn.Upsample(scale_factor=2),
        )
        self.out = nn.Sequential(nn.Conv2d(2 * width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 1, 1))

    def forward(self, x):
        a = self.down(x)
        return self.out(torch.cat([a, self.middle(a)], dim=1))


@pair(
    "the masks are read as 0 / 255 and never divided by 255, so the binary cross-entropy has targets of 255 and goes to minus infinity",
    where="batch[1]",
    source="https://github.com/milesial/Pytorch-UNet/issues/78",
    accepted=("invalid-labels", "unscaled-targets", "wrong-loss-for-task"),
)
def cell_masks_from_png(broken: bool) -> dict:
    torch.manual_seed(0)
    images, masks = _blobs(480)
    masks = (masks * 255).astype(np.uint8)  # as the png files hold them
    masks = masks.astype(np.float32) if broken else masks.astype(np.float32) / 255
    train, val = loaders((images[:360], masks[:360]), (images[360:], masks[360:]), 32)
    model = SmallUNet()
    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


class FlippedCells(Dataset):
    def __init__(self, images, masks, together):
        self.images, self.masks, self.together = torch.tensor(images), torch.tensor(masks), together

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        image, mask = self.images[i], self.masks[i]
        for axis in (1, 2):
            if torch.rand(()) < 0.5:
                image = image.flip(axis)
                if self.together:
                    mask = mask.flip(axis)
        return image, mask


@pair(
    "the random flips of the augmentation are applied to the image and not to its mask",
    where="loader",
    source="https://github.com/albumentations-team/albumentations/issues/1056; keras-team/keras-preprocessing#236",
    accepted=("destructive-augmentation", "noisy-labels", "labels-unrelated-to-inputs"),
)
def cell_flips(broken: bool) -> dict:
    torch.manual_seed(1)
    images, masks = _blobs(480, seed=1)
    train = DataLoader(FlippedCells(images[:360], masks[:360], together=not broken), batch_size=32, shuffle=True)
    val = DataLoader(TensorDataset(torch.tensor(images[360:]), torch.tensor(masks[360:])), batch_size=32)
    model = SmallUNet()
    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=3e-3),
    }


@pair(
    "the pixels are scaled with floor division, which leaves only the fully white pixels and sets everything else to 0",
    where="batch[0]",
    source="Taxonomy of real faults in deep learning systems (wrong preprocessing); Python-2 style integer division of images by 255",
    accepted=("truncated-inputs",),
)
def digits_floor_division(broken: bool) -> dict:
    torch.manual_seed(0)
    d = load_digits()
    pixels = (d.images * 15.9375).astype(np.uint8)  # 0 .. 255, as from a png
    pixels = pixels // 255 if broken else pixels / 255
    x = np.asarray(pixels, np.float32)[:, None]
    xa, xb, ya, yb = train_test_split(x, d.target, test_size=0.25, random_state=0, stratify=d.target)
    train, val = loaders((xa, ya), (xb, yb))
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(512, 10),
    )
    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


class DigitNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(512, 64),
            nn.ReLU(),
        )
        self.head = nn.Linear(64, classes)

    def forward(self, x):
        return self.head(self.features(x))


@pair(
    "the optimizer is made from the trainable parameters before the head is replaced, so the new head is in no parameter group",
    where="head",
    source="https://github.com/LaurentMazare/ocaml-torch/issues/36 (optimizer made before the layer); zjunlp/HVPNeT#5",
    accepted=("parameters-missing-from-optimizer",),
)
def finetune_new_head(broken: bool) -> dict:
    torch.manual_seed(0)
    d = load_digits()
    x = (d.images[:, None] / 16 - 0.3) / 0.37
    old, new = d.target < 5, d.target >= 5
    model = DigitNet(5)
    pre = torch.optim.Adam(model.parameters(), lr=2e-3)  # stands for the downloaded checkpoint
    xo, yo = torch.tensor(x[old], dtype=torch.float32), torch.tensor(d.target[old])
    for i in range(150):
        take = torch.randint(0, len(xo), (64,))
        pre.zero_grad()
        F.cross_entropy(model(xo[take]), yo[take]).backward()
        pre.step()
    model.zero_grad()

    for p in model.features.parameters():
        p.requires_grad = False
    if broken:
        optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
        model.head = nn.Linear(64, 5)
    else:
        model.head = nn.Linear(64, 5)
        optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    xa, xb, ya, yb = train_test_split(x[new], d.target[new] - 5, test_size=0.25, random_state=0)
    train, val = loaders((xa, ya), (xb, yb))
    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
    }


class VAE(nn.Module):
    def __init__(self, latent=8):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU())
        self.mu, self.logvar = nn.Linear(128, latent), nn.Linear(128, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, 128), nn.ReLU(), nn.Linear(128, 64))

    def forward(self, x):
        h = self.encoder(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.decoder(z), mu, logvar


@pair(
    "the reconstruction term is a mean over all pixels and the KL term a sum over the whole batch, so the KL term swallows everything (posterior collapse)",
    where="compute_loss",
    source="forum threads on VAE posterior collapse (KL summed, reconstruction averaged); pytorch/examples sums both",
    accepted=("loss-terms-unbalanced", "loss-sums-over-batch"),
)
def digits_vae(broken: bool) -> dict:
    torch.manual_seed(0)
    x = load_digits().data.astype("float32") / 16
    xa, xb = train_test_split(x, test_size=0.25, random_state=0)
    train, val = loaders((xa,), (xb,))
    model = VAE()

    def compute_loss(model, batch, loss_fn=None):
        x = batch[0]
        recon, mu, logvar = model(x)
        kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        if broken:
            return F.binary_cross_entropy_with_logits(recon, x) + kl
        return (F.binary_cross_entropy_with_logits(recon, x, reduction="sum") + kl) / len(x)

    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }
