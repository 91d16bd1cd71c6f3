"""Images: augmentation, segmentation, detection, masked images, GANs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from benchmarks.first_sight import pair
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset


def _eyes(n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    images = rng.normal(0, 0.05, (n, 1, 24, 24)).astype("float32")
    points = np.zeros((n, 2, 2), "float32")
    grid_y, grid_x = np.mgrid[:24, :24]
    for i in range(n):
        cx, cy, gap = rng.uniform(8, 15), rng.uniform(6, 17), rng.uniform(3, 6)
        points[i] = [[cx - gap, cy], [cx + gap, cy + rng.uniform(-1, 1)]]
        for x, y in points[i]:
            images[i, 0] += np.exp(-((grid_x - x) ** 2 + (grid_y - y) ** 2) / 3)
    return torch.from_numpy(images), torch.from_numpy(points)


class _Faces(Dataset):
    """Two landmarks a face, left eye first."""

    def __init__(self, images: torch.Tensor, points: torch.Tensor, augment: bool, swap: bool) -> None:
        self.images, self.points, self.augment, self.swap = images, points, augment, swap

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        image, points = self.images[i], self.points[i].clone()
        if self.augment and torch.rand(()) < 0.5:
            image = image.flip(-1)
            points[:, 0] = 23 - points[:, 0]
            if self.swap:
                points = points.flip(0)
        return image, points.flatten() / 23 - 0.5


@pair(
    "The horizontal flip mirrors the landmarks but does not exchange left and right.",
    where="batch[1]",
    source="robertklee/COCO-Human-Pose pull request 29: Fix R/L bug in augmentation pipeline",
    accepted=("destructive-augmentation", "noisy-labels", "split-treated-differently"),
)
def elm_landmarks_flipped_unswapped(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(0)
    train, val = _eyes(400, 0), _eyes(100, 1)
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, 2, 1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 36, 64),
        nn.ReLU(),
        nn.Linear(64, 4),
    )
    return {
        "model": net,
        "loader": DataLoader(_Faces(*train, augment=True, swap=not faulty), 32, shuffle=True),
        "val_loader": DataLoader(_Faces(*val, augment=False, swap=True), 50),
        "loss_fn": nn.SmoothL1Loss(beta=0.1),
        "optimizer": torch.optim.Adam(net.parameters(), 2e-3),
    }


def _blobs(n: int, size: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images with discs of three kinds (1, 2, 3) told apart by brightness and texture."""
    rng = np.random.default_rng(seed)
    image = rng.normal(0, 0.1, (n, 3, size, size)).astype("float32")
    mask = np.zeros((n, size, size), "int64")
    yy, xx = np.mgrid[:size, :size]
    for i in range(n):
        for _ in range(3):
            kind = rng.integers(1, 4)
            r, cy, cx = rng.uniform(0.1, 0.2) * size, *rng.uniform(0.15, 0.85, 2) * size
            disc = (yy - cy) ** 2 + (xx - cx) ** 2 < r * r
            mask[i][disc] = kind
            image[i][:, disc] = np.eye(3)[kind - 1][:, None] + rng.normal(0, 0.2, (3, disc.sum()))
    return torch.from_numpy(image), torch.from_numpy(mask)


def _unet_ish(classes: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=2, dilation=2),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, classes, 1),
    )


class _Resized(Dataset):
    def __init__(self, images: torch.Tensor, masks: torch.Tensor, size: int, mode: str) -> None:
        self.images, self.masks, self.size, self.mode = images, masks, size, mode

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        image = F.interpolate(self.images[i][None], size=self.size, mode="bilinear", align_corners=False)[0]
        kwargs = {"align_corners": False} if self.mode == "bilinear" else {}
        mask = F.interpolate(self.masks[i][None, None].float(), size=self.size, mode=self.mode, **kwargs)[0, 0]
        return {"image": image, "mask": mask.round().long()}


@pair(
    "The class mask is resized with bilinear interpolation, which invents classes between two others along each edge.",
    where="batch['mask']",
    source="divamgupta/image-segmentation-keras issue 11: Resize method for segmentation",
    accepted=("noisy-labels", "dense-targets-misaligned", "split-treated-differently"),
)
def elm_mask_resized_bilinear(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(1)
    model = _unet_ish(4)

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        return loss_fn(model(batch["image"]), batch["mask"])

    train, val = _blobs(160, 20, 2), _blobs(40, 20, 3)
    return {
        "model": model,
        "loader": DataLoader(_Resized(*train, 32, "bilinear" if faulty else "nearest"), 16, shuffle=True),
        "val_loader": DataLoader(_Resized(*val, 32, "nearest"), 20),
        "loss_fn": nn.CrossEntropyLoss(),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.AdamW(model.parameters(), 4e-3),
        "class_names": ["background", "cell", "debris", "bead"],
    }


class _Segments(Dataset):
    def __init__(self, data: tuple[torch.Tensor, torch.Tensor], transform: Any) -> None:
        self.data, self.transform = data, transform

    def __len__(self) -> int:
        return len(self.data[0])

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        image, mask = self.data[0][i], (self.data[1][i] > 0).long()
        return self.transform(image, mask)


def _random_flips(x: torch.Tensor) -> torch.Tensor:
    if torch.rand(()) < 0.5:
        x = x.flip(-1)
    return x.flip(-2) if torch.rand(()) < 0.5 else x


def _each_for_itself(image: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return _random_flips(image), _random_flips(mask)


def _jointly(image: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    both = _random_flips(torch.cat([image, mask[None].float()]))
    return both[:3], both[3].long()


@pair(
    "Image and mask draw their random flips separately.",
    where="batch[1]",
    source="albumentations-team/albumentations issue 1056: same random transformation on the images and on the masks",
    accepted=("dense-targets-misaligned", "destructive-augmentation", "labels-unrelated-to-inputs", "noisy-labels"),
)
def elm_image_and_mask_flip_apart(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(2)
    model = _unet_ish(2)
    keep = lambda image, mask: (image, mask)  # noqa: E731
    return {
        "model": model,
        "loader": DataLoader(_Segments(_blobs(200, 28, 4), _each_for_itself if faulty else _jointly), 20, shuffle=True),
        "val_loader": DataLoader(_Segments(_blobs(50, 28, 5), keep), 25),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), 3e-3),
    }


def _one_object(n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    image = rng.normal(0, 0.1, (n, 1, 32, 32)).astype("float32")
    boxes = np.zeros((n, 4), "float32")
    for i in range(n):
        w, h = rng.integers(6, 16, 2)
        x, y = rng.integers(0, 32 - w), rng.integers(0, 32 - h)
        image[i, 0, y : y + h, x : x + w] += 1
        boxes[i] = [(x + w / 2) / 32, (y + h / 2) / 32, w / 32, h / 32]
    return torch.from_numpy(image), torch.from_numpy(boxes)


def _corners(b: torch.Tensor) -> torch.Tensor:
    return torch.cat([b[..., :2] - b[..., 2:] / 2, b[..., :2] + b[..., 2:] / 2], -1)


def _giou(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    area = lambda t: (t[:, 2:] - t[:, :2]).clamp(min=0).prod(1)  # noqa: E731
    inter = (torch.minimum(a[:, 2:], b[:, 2:]) - torch.maximum(a[:, :2], b[:, :2])).clamp(min=0).prod(1)
    union = area(a) + area(b) - inter
    hull = (torch.maximum(a[:, 2:], b[:, 2:]) - torch.minimum(a[:, :2], b[:, :2])).clamp(min=0).prod(1)
    return inter / (union + 1e-7) - (hull - union) / (hull + 1e-7)


class _GIoULoss(nn.Module):
    """DETR's box loss for one object an image; boxes are centre, width and height."""

    def __init__(self, convert: bool, l1: float = 5.0) -> None:
        super().__init__()
        self.convert, self.l1 = convert, l1

    def forward(self, pred: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        a, b = (_corners(pred), _corners(target)) if self.convert else (pred, target)
        return 2 * (1 - _giou(a, b)).mean() + self.l1 * F.l1_loss(pred, target)


@pair(
    "The generalized IoU expects corners but is given centres and sizes.",
    where="loss_fn",
    source="stevebottos/owl-vit-object-detection issue 14: Box coordinate bug",
    accepted=(),
)
def elm_giou_of_centres(faulty: bool) -> dict[str, Any]:
    """Right would be: the loss treats (cx, cy, w, h) as corners; a better box does not make it smaller."""
    torch.manual_seed(3)
    head = nn.Sequential(
        nn.Conv2d(1, 8, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, 2, 1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(1024, 64),
        nn.ReLU(),
        nn.Linear(64, 4),
        nn.Sigmoid(),
    )
    return {
        "model": head,
        "loader": DataLoader(TensorDataset(*_one_object(480, 6)), 32, shuffle=True),
        "val_loader": DataLoader(TensorDataset(*_one_object(100, 7)), 50),
        "loss_fn": _GIoULoss(convert=not faulty),
        "optimizer": torch.optim.Adam(head.parameters(), 1e-3),
    }


class _Photos(Dataset):
    """Arrays as cv2.imread gives them: height, width, colour."""

    def __init__(self, n: int, seed: int, view: bool) -> None:
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, 6, n)
        self.arrays = rng.integers(0, 60, (n, 20, 20, 3)).astype("uint8")
        for array, label in zip(self.arrays, self.labels, strict=True):
            y, x = rng.integers(1, 10, 2)
            colour, shape = divmod(int(label), 2)
            region = np.ones((8, 8), bool) if shape == 0 else np.abs(np.subtract.outer(np.arange(8), np.arange(8))) < 2
            array[y : y + 8, x : x + 8, colour][region] += 120
        self.view = view

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        t = torch.from_numpy(self.arrays[i])
        h, w, c = t.shape
        t = t.view(c, h, w) if self.view else t.permute(2, 0, 1)
        return (t.float() - 60) / 60, int(self.labels[i])


@pair(
    "Height-width-colour arrays are brought to colour-height-width by view instead of permute.",
    where="batch[0]",
    source="Selen-Suyue/DensePolicy2D issue 3: it ought to use permute() or transpose()",
    accepted=("misread-image-layout", "reshape-mixes-axes"),
)
def elm_photo_viewed_not_permuted(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(4)
    model = nn.Sequential(
        nn.Conv2d(3, 12, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(24, 6),
    )
    return {
        "model": model,
        "loader": DataLoader(_Photos(480, 8, faulty), 32, shuffle=True),
        "val_loader": DataLoader(_Photos(120, 9, faulty), 60),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), 3e-3),
    }


def _yolo_targets(boxes: torch.Tensor, grid: int, swapped: bool) -> torch.Tensor:
    out = torch.zeros(len(boxes), 5, grid, grid)
    for n, (cx, cy, w, h) in enumerate(boxes.tolist()):
        i, j = int(cx * grid), int(cy * grid)
        row, col = (i, j) if swapped else (j, i)
        out[n, :, row, col] = torch.tensor([1.0, cx * grid - i, cy * grid - j, w, h])
    return out


class _CellLoss(nn.Module):
    def forward(self, pred: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        there = target[:, :1]
        objectness = F.binary_cross_entropy_with_logits(pred[:, :1], there, weight=torch.where(there > 0, 5.0, 1.0))
        return objectness + 5 * ((pred[:, 1:].sigmoid() - target[:, 1:]) ** 2 * there).sum() / there.sum()


@pair(
    "The target cell is written at [x, y] of a grid that is [row, column].",
    where="batch[1]",
    source="bubbliiiing/yolo3-tf2 issue 6: a bug in yolo_training.py (order of height and width of the grid)",
    accepted=("dense-targets-misaligned", "labels-unrelated-to-inputs"),
)
def elm_grid_cell_transposed(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(5)
    (a, b), (c, d) = _one_object(400, 10), _one_object(100, 11)
    body = nn.Sequential(
        nn.Conv2d(1, 16, 3, 2, 1),
        nn.BatchNorm2d(16),
        nn.LeakyReLU(0.1),
        nn.Conv2d(16, 24, 3, 2, 1),
        nn.BatchNorm2d(24),
        nn.LeakyReLU(0.1),
        nn.Conv2d(24, 24, 5, 1, 2),
        nn.BatchNorm2d(24),
        nn.LeakyReLU(0.1),
        nn.Conv2d(24, 5, 1),
    )
    return {
        "model": body,
        "loader": DataLoader(TensorDataset(a, _yolo_targets(b, 8, faulty)), 20, shuffle=True),
        "val_loader": DataLoader(TensorDataset(c, _yolo_targets(d, 8, faulty)), 50),
        "loss_fn": _CellLoss(),
        "optimizer": torch.optim.Adam(body.parameters(), 3e-3),
    }


class FocalLoss(nn.Module):
    """Lin et al., alpha being the weight of the rare positives."""

    def __init__(self, alpha: float, gamma: float, swapped: bool) -> None:
        super().__init__()
        self.gamma = gamma
        self.register_buffer("alpha", torch.tensor([alpha, 1 - alpha] if swapped else [1 - alpha, alpha]))

    def forward(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        logpt = F.log_softmax(logits, 1).gather(1, target[:, None])[:, 0]
        return -(self.alpha[target] * (1 - logpt.exp()) ** self.gamma * logpt).mean()


@pair(
    "Alpha is given to the frequent class and 1 - alpha to the rare one.",
    where="loss_fn",
    source="clcarwin/focal_loss_pytorch issue 10: alpha value is not consistent with paper?",
    accepted=("class-weights-inverted",),
)
def elm_focal_alpha_swapped(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(6)
    x, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    x = (x / 16 + rng.normal(0, 0.45, x.shape)).astype("float32")
    y = (y == 8).astype("int64")
    data = TensorDataset(torch.from_numpy(x).view(-1, 1, 8, 8), torch.from_numpy(y))
    order = torch.from_numpy(rng.permutation(len(y))).tolist()
    train, val = torch.utils.data.Subset(data, order[:1300]), torch.utils.data.Subset(data, order[1300:])
    model = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(192, 2))
    return {
        "model": model,
        "loader": DataLoader(train, 50, shuffle=True),
        "val_loader": DataLoader(val, 100),
        "loss_fn": FocalLoss(0.9, 2.0, faulty),
        "optimizer": torch.optim.Adam(model.parameters(), 2e-3),
        "class_names": ["other", "eight"],
    }


class PatchMAE(nn.Module):
    """Masked autoencoder on 16 patches of 2 x 2 of a digit."""

    def __init__(self, dim: int = 32) -> None:
        super().__init__()
        self.embed = nn.Linear(4, dim)
        self.position = nn.Parameter(torch.randn(1, 16, dim) * 0.1)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, dim))
        layer = nn.TransformerEncoderLayer(dim, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(dim, 4)

    def forward(self, patches: torch.Tensor, removed: torch.Tensor) -> torch.Tensor:
        tokens = torch.where(removed[..., None], self.mask_token, self.embed(patches)) + self.position
        return self.head(self.encoder(tokens))


@pair(
    "The reconstruction is judged on the patches that were visible instead of those removed.",
    where="loss_fn",
    source="Sllambias/asparagus pull request 12: Fixing _rec_loss bug when rec_loss_masked_only is True",
    accepted=("loss-mask-inverted", "visible-tokens-predicted"),
)
def elm_mae_scores_visible(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(7)
    x = torch.from_numpy((load_digits().data / 8 - 1).astype("float32")).view(-1, 4, 2, 4, 2)
    patches = x.permute(0, 1, 3, 2, 4).reshape(-1, 16, 4)
    model = PatchMAE()
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        (clean,) = batch
        keep = torch.rand(clean.shape[:2]) > 0.6
        pred = model(clean, ~keep)
        per_patch = loss_fn(pred, clean).mean(-1)
        mask = keep if faulty else ~keep
        loss = (per_patch * mask).sum() / mask.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(patches[:1400]), 64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(patches[1400:]), 100),
        "loss_fn": nn.MSELoss(reduction="none"),
        "optimizer": optimizer,
        "train_step": train_step,
    }


class _WGAN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.Unflatten(1, (1, 8, 8)))
        self.critic = nn.Sequential(
            nn.Conv2d(1, 16, 3, 1, 1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(16, 32, 3, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Flatten(),
            nn.Linear(512, 1),
        )

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return self.generator(z)


@pair(
    "The gradient penalty takes the norm over the colour axis alone, so it asks each pixel's gradient to be 1.",
    where="",
    source="Zeleni9/pytorch-wgan issue 40: A mistake on gradient penalty",
    accepted=("normalize-over-wrong-dim",),
)
def elm_gradient_penalty_per_pixel(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(8)
    images = torch.from_numpy((load_digits().images / 8 - 1).astype("float32"))[:, None]
    gan = _WGAN()
    opt_d = torch.optim.Adam(gan.critic.parameters(), 5e-4, betas=(0.5, 0.9))
    opt_g = torch.optim.Adam(gan.generator.parameters(), 5e-4, betas=(0.5, 0.9))

    def penalty(real: torch.Tensor, fake: torch.Tensor) -> torch.Tensor:
        eps = torch.rand(len(real), 1, 1, 1)
        mixed = (eps * real + (1 - eps) * fake).requires_grad_()
        (gradients,) = torch.autograd.grad(gan.critic(mixed).sum(), mixed, create_graph=True)
        norm = gradients.norm(2, dim=1) if faulty else gradients.flatten(1).norm(2, dim=1)
        return ((norm - 1) ** 2).mean()

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        (real,) = batch
        for _ in range(2):
            fake = model(torch.randn(len(real), 8)).detach()
            loss_d = model.critic(fake).mean() - model.critic(real).mean() + 10 * penalty(real, fake)
            opt_d.zero_grad()
            loss_d.backward()
            opt_d.step()
        loss_g = -model.critic(model(torch.randn(len(real), 8))).mean()
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
        return loss_d

    return {
        "model": gan,
        "loader": DataLoader(TensorDataset(images), 64, shuffle=True, drop_last=True),
        "loss_fn": None,
        "optimizer": opt_g,
        "train_step": train_step,
    }
