"""Small vision experiments: keypoints, mixing augmentations, segmentation, masked images, depth."""

import copy
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks.first_sight import pair


def _seed(s):
    random.seed(s)
    np.random.seed(s)
    torch.manual_seed(s)


def _digits():
    d = load_digits()
    x = (d.images / 16.0).astype(np.float32)
    order = np.random.RandomState(0).permutation(len(x))
    return x[order], d.target[order].astype(np.int64)


# ---------------------------------------------------------------- keypoints


class BeaconDataset(Dataset):
    """A bright beacon and a dim distractor; the target is the position of the bright one in [0, 1]."""

    def __init__(self, n, seed, train, faulty=False):
        rng = np.random.RandomState(seed)
        yy, xx = np.mgrid[0:24, 0:24]
        self.images, self.points = [], []
        for _ in range(n):
            cx, cy, dx, dy = rng.uniform(3, 20, size=4)
            img = np.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / 6.0)
            img += 0.4 * np.exp(-((xx - dx) ** 2 + (yy - dy) ** 2) / 6.0)
            img += 0.03 * rng.randn(24, 24)
            self.images.append(img.astype(np.float32))
            self.points.append(np.array([cx, cy], dtype=np.float32))
        self.train, self.faulty = train, faulty

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        img, point = self.images[i].copy(), self.points[i].copy()
        if self.train and random.random() < 0.5:
            if self.faulty:
                np.fliplr(img)
            else:
                img = np.fliplr(img).copy()
            point[0] = 23 - point[0]
        return torch.from_numpy(img)[None], torch.from_numpy(point / 23.0)


class BeaconNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.fc = nn.Sequential(nn.Flatten(), nn.Linear(32 * 36, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, x):
        return self.fc(self.conv(x))


@pair(
    "the flipped image of the augmentation is thrown away (np.fliplr returns a copy), only the keypoint is mirrored",
    where="loader",
    source="Eaphan/NCLR issue 10: image flip augmentation not applied due to missing assignment",
    accepted=("noisy-labels", "dense-targets-misaligned"),
)
def vn_keypoint_flip(faulty: bool) -> dict:
    _seed(1)
    train = BeaconDataset(1200, 5, train=True, faulty=faulty)
    val = BeaconDataset(300, 6, train=False)
    model = BeaconNet()
    return {
        "model": model,
        "loader": DataLoader(train, batch_size=32, shuffle=True),
        "val_loader": DataLoader(val, batch_size=64),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }


# ---------------------------------------------------------------- cutmix / mixup


def _small_cnn(classes=10):
    return nn.Sequential(
        nn.Conv2d(1, 24, 3, padding=1),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        nn.Conv2d(24, 48, 3, padding=1),
        nn.BatchNorm2d(48),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(48 * 16, classes),
    )


class SoftTargetCrossEntropy(nn.Module):
    def forward(self, logits, target):
        if target.ndim == 1:
            return F.cross_entropy(logits, target)
        return -(target * F.log_softmax(logits, dim=-1)).sum(-1).mean()


class CutMixCollator:
    def __init__(self, num_classes, swap, alpha=1.0, p=1.0):
        self.num_classes, self.swap, self.alpha, self.p = num_classes, swap, alpha, p

    def __call__(self, samples):
        x = torch.stack([s[0] for s in samples])
        y = F.one_hot(torch.stack([s[1] for s in samples]), self.num_classes).float()
        h, w = x.shape[-2:]
        ratio = np.sqrt(1 - np.random.beta(2 * self.alpha, self.alpha))
        ch, cw = int(h * ratio), int(w * ratio)
        top, left = np.random.randint(0, h - ch + 1), np.random.randint(0, w - cw + 1)
        perm = torch.randperm(len(x))
        mixed = x.clone()
        mixed[..., top : top + ch, left : left + cw] = x[perm][..., top : top + ch, left : left + cw]
        box = ch * cw / (h * w)
        lam = box if self.swap else 1 - box
        return mixed, lam * y + (1 - lam) * y[perm]


@pair(
    "CutMix weights the labels with the area of the pasted box instead of the area that is left of the image",
    where="loader",
    source="kornia issue 3077: lam is computed incorrectly in RandomCutMixV2",
    accepted=("noisy-labels", "labels-unrelated-to-inputs"),
)
def vn_cutmix_lambda(faulty: bool) -> dict:
    _seed(2)
    x, y = _digits()
    x, y = torch.from_numpy(x)[:, None], torch.from_numpy(y)
    model = _small_cnn()
    return {
        "model": model,
        "loader": DataLoader(
            TensorDataset(x[:1400], y[:1400]),
            batch_size=64,
            shuffle=True,
            drop_last=True,
            collate_fn=CutMixCollator(10, swap=faulty),
        ),
        "val_loader": DataLoader(TensorDataset(x[1400:], y[1400:]), batch_size=128),
        "loss_fn": SoftTargetCrossEntropy(),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01),
    }


@pair(
    "mixup shuffles the partners of the images and of the labels with two different permutations",
    where="",
    source="xudonmao/VMT issue 1: mixup returns different combinations for labels and images",
    accepted=("noisy-labels", "labels-unrelated-to-inputs"),
)
def vn_mixup_two_perms(faulty: bool) -> dict:
    _seed(3)
    x, y = _digits()
    x, y = torch.from_numpy(x)[:, None], torch.from_numpy(y)
    model = _small_cnn()

    def shuffled(t, perm):
        return t[perm]

    def mixup_loss(model, batch, loss_fn):
        images, labels = batch
        onehot = F.one_hot(labels, 10).float()
        if model.training:
            lam = float(np.random.beta(1.0, 1.0))
            perm = torch.randperm(len(images))
            other = torch.randperm(len(images)) if faulty else perm
            images = lam * images + (1 - lam) * shuffled(images, perm)
            onehot = lam * onehot + (1 - lam) * shuffled(onehot, other)
        return loss_fn(model(images), onehot)

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1400], y[:1400]), batch_size=50, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1400:], y[1400:]), batch_size=128),
        "loss_fn": SoftTargetCrossEntropy(),
        "compute_loss": mixup_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


# ---------------------------------------------------------------- segmentation


class RandomCrop:
    def __init__(self, size):
        self.size = size

    def __call__(self, arr):
        h, w = arr.shape[-2:]
        i, j = random.randint(0, h - self.size), random.randint(0, w - self.size)
        return arr[..., i : i + self.size, j : j + self.size]


class JointRandomCrop(RandomCrop):
    def __call__(self, image, mask):
        h, w = image.shape[-2:]
        i, j = random.randint(0, h - self.size), random.randint(0, w - self.size)
        win = (..., slice(i, i + self.size), slice(j, j + self.size))
        return image[win], mask[win]


class CellsDataset(Dataset):
    def __init__(self, n, seed, crop, joint):
        rng = np.random.RandomState(seed)
        yy, xx = np.mgrid[0:40, 0:40]
        imgs, masks = [], []
        for _ in range(n):
            mask = np.zeros((40, 40), dtype=np.float32)
            for _ in range(rng.randint(2, 6)):
                cx, cy, r = rng.uniform(4, 36), rng.uniform(4, 36), rng.uniform(3, 6)
                mask[(xx - cx) ** 2 + (yy - cy) ** 2 < r * r] = 1
            imgs.append(0.6 * mask + 0.25 * rng.randn(40, 40) + 0.2 * rng.rand())
            masks.append(mask)
        self.imgs = torch.tensor(np.stack(imgs), dtype=torch.float32)[:, None]
        self.masks = torch.tensor(np.stack(masks))[:, None]
        self.crop, self.joint = crop, joint

    def __len__(self):
        return len(self.imgs)

    def __getitem__(self, i):
        if self.joint:
            return self.joint(self.imgs[i], self.masks[i])
        return self.crop(self.imgs[i]), self.crop(self.masks[i])


class TinyUNet(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        block = lambda a, b: nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())
        self.enc1, self.enc2 = block(1, c), block(c, 2 * c)
        self.mid = block(2 * c, 2 * c)
        self.dec1 = block(3 * c, c)
        self.out = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        a = self.enc1(x)
        b = self.mid(self.enc2(F.max_pool2d(a, 2)))
        b = F.interpolate(b, scale_factor=2, mode="nearest")
        return self.out(self.dec1(torch.cat([a, b], dim=1)))


@pair(
    "the random crop is drawn separately for the image and its mask",
    where="loader",
    source="mdbloice/Augmentor issue 188: misalignment between image and mask after random distortion",
    accepted=("dense-targets-misaligned", "noisy-labels"),
)
def vn_cells_crop(faulty: bool) -> dict:
    _seed(4)
    crop, joint = RandomCrop(24), JointRandomCrop(24)
    train = CellsDataset(400, 1, crop, None if faulty else joint)
    val = CellsDataset(100, 2, crop, joint)
    model = TinyUNet()
    return {
        "model": model,
        "loader": DataLoader(train, batch_size=16, shuffle=True),
        "val_loader": DataLoader(val, batch_size=50),
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


# ---------------------------------------------------------------- mean teacher


@pair(
    "the exponential average copies the parameters only: the BatchNorm buffers of the teacher stay at 0 and 1",
    where="teacher",
    source="CuriousAI/mean-teacher issue 9 and FlyreelAI/sesemi issue 36: running statistics missing from the EMA",
    accepted=("batchnorm-misused", "moving-average-wrong", "train-eval-gap"),
)
def vn_mean_teacher(faulty: bool) -> dict:
    _seed(5)
    x, y = _digits()
    x, y = torch.from_numpy(x * 6 + 2)[:, None], torch.from_numpy(y)
    labelled = torch.arange(1400) < 300
    student = _small_cnn()
    teacher = copy.deepcopy(student)
    teacher.eval()
    for p in teacher.parameters():
        p.requires_grad_(False)

    def update_teacher(decay=0.97):
        with torch.no_grad():
            for t, s in zip(teacher.parameters(), student.parameters()):
                t.mul_(decay).add_(s, alpha=1 - decay)
            if not faulty:
                for t, s in zip(teacher.buffers(), student.buffers()):
                    t.copy_(s)

    def train_step(model, batch, loss_fn, optimizer):
        img, lab, known = batch
        model["student"].train()
        model["teacher"].eval()
        out = model["student"](img + 0.3 * torch.randn_like(img))
        with torch.no_grad():
            soft = model["teacher"](img).softmax(-1)
        loss = loss_fn(out[known], lab[known]) if known.any() else out.sum() * 0
        loss = loss + 1.0 * F.mse_loss(out.softmax(-1), soft)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        update_teacher()
        return loss

    return {
        "model": {"student": student, "teacher": teacher},
        "loader": DataLoader(TensorDataset(x[:1400], y[:1400], labelled), batch_size=64, shuffle=True),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(student.parameters(), lr=2e-3),
        "train_step": train_step,
    }


# ---------------------------------------------------------------- masked autoencoder


class MiniMAE(nn.Module):
    """8x8 images, sixteen 2x2 patches; three quarters of them are hidden behind a mask token."""

    def __init__(self, dim=48):
        super().__init__()
        self.embed = nn.Linear(4, dim)
        self.mask_token = nn.Parameter(torch.randn(dim) * 0.02)
        self.pos = nn.Parameter(torch.randn(16, dim) * 0.1)
        layer = nn.TransformerEncoderLayer(dim, 4, 96, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(dim, 4)

    @staticmethod
    def patchify(img):
        b = img.shape[0]
        return img.reshape(b, 4, 2, 4, 2).permute(0, 1, 3, 2, 4).reshape(b, 16, 4)

    def forward(self, img, hidden):
        tok = self.embed(self.patchify(img))
        tok = torch.where(hidden[..., None], self.mask_token, tok)
        return self.head(self.blocks(tok + self.pos))


@pair(
    "the reconstruction loss is averaged over the visible patches, the hidden ones are never predicted",
    where="",
    source="facebookresearch/mae style pre-training, questions about the meaning of mask (0 keep, 1 remove)",
    accepted=("visible-tokens-predicted",),
)
def vn_mae_visible(faulty: bool) -> dict:
    _seed(6)
    x, _ = _digits()
    x = torch.from_numpy(x)
    model = MiniMAE()

    def compute_loss(model, batch, loss_fn):
        (img,) = batch
        rank = torch.rand(len(img), 16).argsort(dim=1).argsort(dim=1)
        hidden = rank < 10
        error = (model(img, hidden) - model.patchify(img)).pow(2).mean(-1)
        mask = (~hidden if faulty else hidden).float()
        return (error * mask).sum() / mask.sum()

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1500]), batch_size=64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1500:]), batch_size=64),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.AdamW(model.parameters(), lr=2e-3),
    }


# ---------------------------------------------------------------- colours, depth, pose


class FruitColours(Dataset):
    """Noisy colour textures in four classes, stored as uint8 H x W x 3 like an image reader would."""

    hues = np.array([[200, 60, 50], [60, 150, 60], [50, 70, 190], [190, 170, 60]], dtype=np.float32)

    def __init__(self, n, seed, to_rgb=True):
        rng = np.random.RandomState(seed)
        self.y = rng.randint(0, 4, n)
        base = self.hues[self.y][:, None, None, :] + 25 * rng.randn(n, 1, 1, 3)
        self.bgr = np.clip(base + 45 * rng.randn(n, 12, 12, 3), 0, 255).astype(np.uint8)[..., ::-1]
        self.to_rgb = to_rgb
        self.mean, self.std = np.array([0.49, 0.44, 0.36]), np.array([0.3, 0.25, 0.28])

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        img = self.bgr[i]
        if self.to_rgb:
            img = img[..., ::-1]
        img = (img / 255.0 - self.mean) / self.std
        return torch.tensor(img.transpose(2, 0, 1).copy(), dtype=torch.float32), int(self.y[i])


@pair(
    "the validation images keep the reader's BGR order, the training images are converted to RGB",
    where="val_loader",
    source="forum threads about cv2.imread (BGR) in one data pipeline and PIL (RGB) in the other",
    accepted=("split-shift", "split-treated-differently"),
)
def vn_bgr_validation(faulty: bool) -> dict:
    _seed(7)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 4),
    )
    return {
        "model": model,
        "loader": DataLoader(FruitColours(1000, 0), batch_size=32, shuffle=True),
        "val_loader": DataLoader(FruitColours(300, 1, to_rgb=not faulty), batch_size=64),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
        "class_names": ["apple", "lime", "plum", "lemon"],
    }


class DepthHead(nn.Module):
    def __init__(self, last_relu):
        super().__init__()
        layers = [
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 16, 5, padding=2),
            nn.ReLU(),
            nn.Conv2d(16, 1, 1),
        ]
        if last_relu:
            layers.append(nn.ReLU())
        self.net = nn.Sequential(*layers)

    def forward(self, x):
        return self.net(x)


@pair(
    "a ReLU after the last convolution: log depths below zero cannot be predicted",
    where="net.5",
    source="forum threads about ReLU after the last layer of a depth regression network",
    accepted=("clamped-output", "dead-units"),
)
def vn_log_depth(faulty: bool) -> dict:
    _seed(8)
    g = torch.Generator().manual_seed(3)
    coarse = torch.rand(600, 1, 4, 4, generator=g) * 2.5 + 0.2
    depth = F.interpolate(coarse, size=16, mode="bilinear", align_corners=False)
    shade = 1.0 / depth + 0.1 * torch.randn(600, 1, 16, 16, generator=g)
    target = depth.log()
    model = DepthHead(last_relu=faulty)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(shade[:500], target[:500]), batch_size=20, shuffle=True),
        "val_loader": DataLoader(TensorDataset(shade[500:], target[500:]), batch_size=50),
        "loss_fn": nn.L1Loss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


class SoftArgmaxPose(nn.Module):
    """Two joints, integral regression: the expected position under a heat map."""

    def __init__(self, dim):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(2, 16, 5, padding=2), nn.ReLU(), nn.Conv2d(16, 16, 5, padding=2), nn.ReLU(), nn.Conv2d(16, 2, 1)
        )
        self.dim = dim
        g = torch.linspace(0, 1, 16)
        self.register_buffer("gx", g.repeat(16))
        self.register_buffer("gy", g.repeat_interleave(16))

    def forward(self, x):
        heat = self.body(x).flatten(2)
        prob = torch.softmax(heat, dim=self.dim)
        return torch.stack([(prob * self.gx).sum(-1), (prob * self.gy).sum(-1)], dim=-1)


@pair(
    "the heat maps are normalized over the joints instead of over the positions",
    where="",
    source="integral human pose regression re-implementations: softmax over the wrong axis of the heat map",
    accepted=("softmax-over-wrong-dim",),
)
def vn_soft_argmax(faulty: bool) -> dict:
    _seed(9)
    rng = np.random.RandomState(4)
    yy, xx = np.mgrid[0:16, 0:16]
    imgs, pts = [], []
    for _ in range(800):
        p = rng.uniform(2, 13, size=(2, 2))
        imgs.append([np.exp(-((xx - a) ** 2 + (yy - b) ** 2) / 5) for a, b in p] + 0.05 * rng.randn(2, 16, 16))
        pts.append(p / 15)
    x, y = torch.tensor(np.array(imgs), dtype=torch.float32), torch.tensor(np.array(pts), dtype=torch.float32)
    model = SoftArgmaxPose(dim=1 if faulty else 2)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:700], y[:700]), batch_size=32, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[700:], y[700:]), batch_size=50),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }
