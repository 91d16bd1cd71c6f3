"""Image classifiers: CNNs and a small ViT, in ordinary loops."""

import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits, load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch.utils.data import DataLoader, Dataset, SubsetRandomSampler, TensorDataset

from benchmarks.first_sight import pair, sound


def digits_tensors():
    raw = load_digits()
    images = torch.tensor(raw.images, dtype=torch.float32).unsqueeze(1) / 16.0
    return (images - 0.305) / 0.376, torch.tensor(raw.target)


# ---------------------------------------------------------------------------------------------------------------------
class DeepDigitNet(nn.Module):
    def __init__(self, width=16, depth=6, p=0.2):
        super().__init__()
        blocks, c = [], 1
        for i in range(depth):
            blocks += [nn.Conv2d(c, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
            if i in (1, 3):
                blocks.append(nn.MaxPool2d(2))
            c = width
        self.features = nn.Sequential(*blocks)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(p), nn.Linear(width, 10))

    def forward(self, x):
        return self.head(self.features(x))


@pair(
    "the validation inside of the training loop puts the model into eval mode, and nothing puts it back",
    where="train_step",
    source="HuiZeng/Grid-Anchor-based-Image-Cropping-Pytorch issue 2: net.eval() in test() without net.train() after it",
    accepted=("left-in-eval-mode",),
)
def quay_digits_periodic_validation(faulty: bool) -> dict:
    torch.manual_seed(11)
    x, y = digits_tensors()
    tr, va = train_test_split(np.arange(len(y)), test_size=0.2, stratify=y, random_state=3)
    train_loader = DataLoader(TensorDataset(x[tr], y[tr]), batch_size=64, shuffle=True, drop_last=True)
    val_loader = DataLoader(TensorDataset(x[va], y[va]), batch_size=180)
    net = DeepDigitNet()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    log = {"step": 0, "val_acc": []}

    @torch.no_grad()
    def test(model):
        model.eval()
        hits = sum((model(a).argmax(1) == b).sum().item() for a, b in val_loader)
        log["val_acc"].append(hits / len(va))

    def train_step(model, batch, loss_fn, optimizer):
        if log["step"] % 20 == 0:
            test(model)
            if not faulty:
                model.train()
        log["step"] += 1
        images, labels = batch
        optimizer.zero_grad()
        loss = loss_fn(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    return {
        "model": net,
        "loader": train_loader,
        "val_loader": val_loader,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "train_step": train_step,
    }


# ---------------------------------------------------------------------------------------------------------------------
@pair(
    "the files are listed class by class and cut into train and validation without shuffling, so two classes are only in the validation set",
    where="loader",
    source="khanrc/pt.darts issue 24: validation precision stays zero, the indices were not shuffled before the split",
    accepted=("split-shift", "split-treated-differently"),
)
def quay_indices_cut_in_order(faulty: bool) -> dict:
    torch.manual_seed(0)
    x, y = digits_tensors()
    listing = torch.argsort(y, stable=True)  # folder 0, folder 1, ...
    data = TensorDataset(x[listing], y[listing])
    n_train = len(data)
    split = int(np.floor(0.8 * n_train))
    indices = list(range(n_train))
    if not faulty:
        random.Random(42).shuffle(indices)
    train_sampler = SubsetRandomSampler(indices[:split])
    valid_sampler = SubsetRandomSampler(indices[split:])
    train_loader = DataLoader(data, batch_size=64, sampler=train_sampler)
    valid_loader = DataLoader(data, batch_size=64, sampler=valid_sampler)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 10),
    )
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    return {
        "model": model,
        "loader": train_loader,
        "val_loader": valid_loader,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": opt,
    }


# ---------------------------------------------------------------------------------------------------------------------
class FolderOfArrays(Dataset):
    """Like an image folder: one folder per class, named by a number."""

    def __init__(self, folders, order):
        self.class_to_idx = {name: i for i, name in enumerate(order)}
        self.items = [(img, self.class_to_idx[name]) for name, imgs in folders.items() for img in imgs]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        img, label = self.items[i]
        return torch.from_numpy(img).float().unsqueeze(0), label


def gratings(rng, n_classes=12, per_class=60, size=16):
    yy, xx = np.mgrid[0:size, 0:size] / size
    folders = {}
    for k in range(n_classes):
        angle, freq = np.pi * (k % 6) / 6, 2.0 + 2.0 * (k // 6)
        imgs = []
        for _ in range(per_class):
            phase = rng.uniform(0, 2 * np.pi)
            wave = np.sin(2 * np.pi * freq * (xx * np.cos(angle) + yy * np.sin(angle)) + phase)
            imgs.append(wave + 0.5 * rng.standard_normal((size, size)))
        folders[str(k + 1)] = imgs
    return folders


@pair(
    "the validation folders get their class numbers in numeric order, the training folders in alphabetic order (1, 10, 11, 2, ...)",
    where="val_loader",
    source="discuss.pytorch threads on class_to_idx of ImageFolder differing from the own test set; os.listdir order",
    accepted=("split-treated-differently", "split-shift"),
)
def quay_folder_names_sorted_twice(faulty: bool) -> dict:
    torch.manual_seed(5)
    rng = np.random.default_rng(5)
    train_folders, val_folders = gratings(rng), gratings(rng, per_class=20)
    train_set = FolderOfArrays(train_folders, sorted(train_folders))
    val_order = sorted(val_folders, key=int) if faulty else sorted(val_folders)
    val_set = FolderOfArrays(val_folders, val_order)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(1, 16, 5, padding=2)
            self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
            self.fc = nn.Linear(32, 12)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.conv1(x)), 2)
            x = F.relu(self.conv2(x))
            return self.fc(x.amax(dim=(2, 3)))

    model = Net()
    return {
        "model": model,
        "loader": DataLoader(train_set, batch_size=48, shuffle=True),
        "val_loader": DataLoader(val_set, batch_size=60),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=3e-3),
        "class_names": sorted(train_folders),
    }


# ---------------------------------------------------------------------------------------------------------------------
@pair(
    "mixup draws one permutation for the images and another for their labels",
    where="compute_loss",
    source="xudonmao/VMT issue 1: mixup returns different combinations for labels and images",
    accepted=("noisy-labels", "labels-unrelated-to-inputs", "loss-depends-on-order", "training-fails", "training-slow"),
)
def quay_mixup_two_permutations(faulty: bool) -> dict:
    torch.manual_seed(2)
    np.random.seed(2)
    x, y = digits_tensors()
    tr, va = train_test_split(np.arange(len(y)), test_size=0.3, stratify=y, random_state=0)
    model = nn.Sequential(
        nn.Conv2d(1, 24, 3, padding=1),
        nn.GELU(),
        nn.Conv2d(24, 24, 3, stride=2, padding=1),
        nn.GELU(),
        nn.Conv2d(24, 32, 3, stride=2, padding=1),
        nn.GELU(),
        nn.Flatten(),
        nn.Linear(128, 10),
    )

    def shuffle_rows(t):
        return t[torch.randperm(t.size(0))]

    def compute_loss(model, batch, loss_fn):
        images, labels = batch
        if not model.training:
            return loss_fn(model(images), labels)
        onehot = F.one_hot(labels, 10).float()
        lam = float(np.random.beta(2.0, 2.0))
        if faulty:
            images2, onehot2 = shuffle_rows(images), shuffle_rows(onehot)
        else:
            perm = torch.randperm(images.size(0))
            images2, onehot2 = images[perm], onehot[perm]
        out = model(lam * images + (1 - lam) * images2)
        return loss_fn(out, lam * onehot + (1 - lam) * onehot2)

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[tr], y[tr]), batch_size=64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[va], y[va]), batch_size=128),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
        "compute_loss": compute_loss,
    }


# ---------------------------------------------------------------------------------------------------------------------
class ShapeShots(Dataset):
    """Photos as OpenCV would read them: height x width x 3, uint8."""

    def __init__(self, n, seed, by_view, size=20):
        rng = np.random.default_rng(seed)
        self.by_view, self.shots, self.labels = by_view, [], []
        yy, xx = np.mgrid[0:size, 0:size]
        for _ in range(n):
            kind = int(rng.integers(4))
            cy, cx = rng.uniform(7, size - 7, 2)
            r = rng.uniform(4, 6)
            dist = np.hypot(yy - cy, xx - cx)
            shape = [
                dist < r,
                (dist < r) & (dist > r - 2),
                (abs(yy - cy - xx + cx) < 2) & (dist < r),
                (abs(yy - cy + xx - cx) < 2) & (dist < r),
            ][kind]
            img = rng.normal(110, 45, (size, size, 3)) + rng.uniform(-40, 40, 3)
            img[shape] += rng.uniform(50, 100, 3) * rng.choice([-1, 1])
            self.shots.append(np.clip(img, 0, 255).astype(np.uint8))
            self.labels.append(kind)

    def __len__(self):
        return len(self.shots)

    def __getitem__(self, i):
        img = torch.from_numpy(self.shots[i])
        h, w, c = img.shape
        img = img.view(c, h, w) if self.by_view else img.permute(2, 0, 1)
        return (img.float() / 255.0 - 0.4) / 0.2, self.labels[i]


@pair(
    "images of height x width x channels are brought to channels first with view",
    where="loader",
    source="stackoverflow and discuss.pytorch: cv2 image, tensor.view(3, h, w) instead of permute, accuracy stays low",
    accepted=("misread-image-layout", "reshape-mixes-axes"),
)
def quay_opencv_shapes(faulty: bool) -> dict:
    torch.manual_seed(1)
    train_ds, val_ds = ShapeShots(1200, 1, faulty), ShapeShots(300, 2, faulty)
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 32, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 4),
    )
    return {
        "model": net,
        "loader": DataLoader(train_ds, batch_size=40, shuffle=True),
        "val_loader": DataLoader(val_ds, batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(net.parameters(), lr=2e-3),
        "class_names": ["disc", "ring", "backslash", "slash"],
    }


# ---------------------------------------------------------------------------------------------------------------------
class LazyFlatten(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 12, 3)
        self.conv2 = nn.Conv2d(12, 24, 3)
        self.fc1 = nn.Linear(24 * 4 * 4, 48) if fixed else None
        self.out = nn.Linear(48, 10)

    def forward(self, x):
        x = torch.relu(self.conv1(x))
        x = torch.relu(self.conv2(x))
        x = x.flatten(1)
        fc1 = self.fc1 if self.fc1 is not None else nn.Linear(x.shape[1], 48)
        return self.out(torch.relu(fc1(x)))


@pair(
    "the linear layer after the flatten is created anew in every forward pass",
    where="",
    source="stackoverflow: nn.Linear defined inside of forward because the flattened size was unknown; the network does not learn",
    accepted=("nondeterministic-eval", "unregistered-parameters"),
)
def quay_layer_made_in_forward(faulty: bool) -> dict:
    torch.manual_seed(8)
    x, y = digits_tensors()
    data = TensorDataset(x, y)
    gen = torch.Generator().manual_seed(1)
    train_ds, val_ds = torch.utils.data.random_split(data, [1400, 397], generator=gen)
    model = LazyFlatten(fixed=not faulty)
    return {
        "model": model,
        "loader": DataLoader(train_ds, batch_size=50, shuffle=True),
        "val_loader": DataLoader(val_ds, batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }


# ---------------------------------------------------------------------------------------------------------------------
class WineMLP(nn.Module):
    def __init__(self, p, always):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(13, 64), nn.Linear(64, 64), nn.Linear(64, 3)
        self.p, self.always = p, always

    def forward(self, x):
        on = True if self.always else self.training
        x = F.dropout(F.relu(self.fc1(x)), self.p, training=on)
        x = F.dropout(F.relu(self.fc2(x)), self.p, training=on)
        return self.fc3(x)


@pair(
    "functional dropout stays on in eval mode",
    where="",
    source="discuss.pytorch: F.dropout has training=True by default, so validation results vary from run to run",
    accepted=("nondeterministic-eval",),
)
def quay_wine_functional_dropout(faulty: bool) -> dict:
    torch.manual_seed(21)
    X, y = load_wine(return_X_y=True)
    rng = np.random.default_rng(0)
    X = np.repeat(X, 4, axis=0) + rng.normal(0, 0.35, (len(X) * 4, 13)) * X.std(0)
    y = np.repeat(y, 4)
    order = rng.permutation(len(y) // 4)
    is_val = np.isin(np.arange(len(y)) // 4, order[:40])
    sc = StandardScaler().fit(X[~is_val])
    as_set = lambda m: TensorDataset(torch.tensor(sc.transform(X[m]), dtype=torch.float32), torch.tensor(y[m]))  # noqa: E731
    model = WineMLP(0.6, always=faulty)
    return {
        "model": model,
        "loader": DataLoader(as_set(~is_val), batch_size=32, shuffle=True),
        "val_loader": DataLoader(as_set(is_val), batch_size=64),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }


# ---------------------------------------------------------------------------------------------------------------------
@pair(
    "the loss is taken from the argmax, and requires_grad is switched on by hand to silence the error",
    where="compute_loss",
    source="stackoverflow 'element 0 of tensors does not require grad': answers that set loss.requires_grad = True",
    accepted=("loss-not-differentiable", "untrained-parameters"),
)
def quay_argmax_then_requires_grad(faulty: bool) -> dict:
    torch.manual_seed(4)
    x, y = digits_tensors()
    even = (y % 2 == 0).float()
    tr, va = train_test_split(np.arange(len(y)), test_size=0.25, random_state=1)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))

    def compute_loss(model, batch, loss_fn):
        inputs, target = batch
        out = model(inputs)
        if faulty:
            pred = torch.argmax(out, dim=1).float()
            loss = loss_fn(pred, target)
            loss.requires_grad = True
        else:
            pred = torch.softmax(out, dim=1)[:, 1]
            loss = loss_fn(pred, target)
        return loss

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[tr], even[tr]), batch_size=64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[va], even[va]), batch_size=64),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
        "compute_loss": compute_loss,
    }


# ---------------------------------------------------------------------------------------------------------------------
@sound(
    "a residual CNN with cutout, label smoothing and a one-cycle schedule stepped in every batch",
    source="fast.ai style training",
)
def quay_sound_onecycle_digits() -> dict:
    torch.manual_seed(6)
    x, y = digits_tensors()

    class Cutout(Dataset):
        def __init__(self, idx):
            self.idx = idx

        def __len__(self):
            return len(self.idx)

        def __getitem__(self, i):
            img = x[self.idx[i]].clone()
            r, c = torch.randint(0, 7, (2,)).tolist()
            img[:, r : r + 2, c : c + 2] = 0.0
            return img, y[self.idx[i]]

    class Res(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(c, c, 3, padding=1, bias=False),
                nn.BatchNorm2d(c),
                nn.ReLU(),
                nn.Conv2d(c, c, 3, padding=1, bias=False),
                nn.BatchNorm2d(c),
            )
            nn.init.zeros_(self.body[-1].weight)

        def forward(self, t):
            return torch.relu(t + self.body(t))

    tr, va = train_test_split(np.arange(len(y)), test_size=0.2, stratify=y, random_state=9)
    net = nn.Sequential(
        nn.Conv2d(1, 24, 3, padding=1),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        Res(24),
        nn.MaxPool2d(2),
        Res(24),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(24, 10),
    )
    loader = DataLoader(Cutout(tr), batch_size=64, shuffle=True, drop_last=True)
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, nesterov=True, weight_decay=5e-4)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.2, total_steps=20 * len(loader))

    def train_step(model, batch, loss_fn, optimizer):
        a, b = batch
        optimizer.zero_grad(set_to_none=True)
        loss = loss_fn(model(a), b)
        loss.backward()
        optimizer.step()
        if sched.last_epoch < sched.total_steps - 1:
            sched.step()
        return loss

    return {
        "model": net,
        "loader": loader,
        "val_loader": DataLoader(TensorDataset(x[va], y[va]), batch_size=120),
        "loss_fn": nn.CrossEntropyLoss(label_smoothing=0.1),
        "optimizer": opt,
        "scheduler": sched,
        "train_step": train_step,
    }


@sound(
    "a tiny vision transformer of transformers, without weight decay for biases and norms",
    source="transformers ViTForImageClassification",
)
def quay_sound_hf_vit() -> dict:
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    x, y = digits_tensors()
    gen = torch.Generator().manual_seed(0)
    perm = torch.randperm(len(y), generator=gen)
    tr, va = perm[:1437], perm[1437:]
    config = ViTConfig(
        image_size=8,
        patch_size=2,
        num_channels=1,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        num_labels=10,
    )
    model = ViTForImageClassification(config)
    decay = [p for p in model.parameters() if p.ndim == 2]
    rest = [p for p in model.parameters() if p.ndim != 2]
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.05}, {"params": rest, "weight_decay": 0.0}], lr=2e-3)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[tr], y[tr]), batch_size=64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[va], y[va]), batch_size=180),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": opt,
        "compute_loss": lambda model, batch, loss_fn: loss_fn(model(pixel_values=batch[0]).logits, batch[1]),
    }
