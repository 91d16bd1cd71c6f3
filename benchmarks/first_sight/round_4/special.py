"""Special fields: graphs, segmentation, boxes, tables, recommender, distillation, audio, adapters, physics."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks.first_sight import pair


# --- tables ----------------------------------------------------------------------------------------------------------
class TabTransformer(nn.Module):
    def __init__(self, n_fields, n_values, batch_first):
        super().__init__()
        self.values = nn.Embedding(n_fields * n_values, 24)
        self.register_buffer("offsets", torch.arange(n_fields) * n_values)
        layer = nn.TransformerEncoderLayer(24, 4, 48, dropout=0.0, batch_first=batch_first)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(24, 2)

    def forward(self, x):
        return self.head(self.encoder(self.values(x + self.offsets)).mean(1))


def card_rows(n, seed, fields=6, values=5):
    g = np.random.default_rng(seed)
    x = g.integers(0, values, (n, fields))
    y = ((x[:, 0] + x[:, 1]) % 2).astype(np.int64)
    return torch.tensor(x), torch.tensor(y)


@pair(
    "the transformer gets (rows, fields, features) without batch_first, so each row attends to the other rows of the batch",
    where="encoder",
    source="IBM/TabFormer pull request 14: set the correct ordering of dimensions in the input tensor",
    accepted=("batch-mixing",),
)
def quay_rows_attend_to_rows(faulty: bool) -> dict:
    torch.manual_seed(0)
    model = TabTransformer(6, 5, batch_first=not faulty)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(*card_rows(2000, 0)), batch_size=64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(*card_rows(400, 1)), batch_size=64),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


@pair(
    "the label encoder of the city column is fitted again on the validation rows, where some cities are missing, so the codes differ",
    where="val_loader",
    source="scikit-learn issue 10324: label encoding of train and test separately gives different numbers",
    accepted=("split-treated-differently", "split-shift"),
)
def quay_city_codes_refitted(faulty: bool) -> dict:
    from sklearn.preprocessing import LabelEncoder

    torch.manual_seed(0)
    g = np.random.default_rng(4)
    cities = np.array([f"city_{c:02d}" for c in range(14)])
    effect = g.normal(0, 1.5, 14)

    def rows(n, pool):
        c = g.choice(pool, n)
        area = g.normal(0, 1, n)
        return cities[c], area, effect[c] + 0.7 * area + 0.2 * g.standard_normal(n)

    train, val = rows(1500, np.arange(14)), rows(300, np.array([2, 3, 5, 6, 8, 9, 11, 13]))
    encoder = LabelEncoder().fit(train[0])
    val_codes = LabelEncoder().fit_transform(val[0]) if faulty else encoder.transform(val[0])

    def pack(codes, area, price):
        return TensorDataset(
            torch.tensor(codes), torch.tensor(area, dtype=torch.float32), torch.tensor(price, dtype=torch.float32)
        )

    class Prices(nn.Module):
        def __init__(self):
            super().__init__()
            self.city = nn.Embedding(14, 8)
            self.mlp = nn.Sequential(nn.Linear(9, 32), nn.ReLU(), nn.Linear(32, 1))

        def forward(self, city, area):
            return self.mlp(torch.cat([self.city(city), area.unsqueeze(1)], 1)).squeeze(1)

    model = Prices()
    return {
        "model": model,
        "loader": DataLoader(pack(encoder.transform(train[0]), train[1], train[2]), batch_size=50, shuffle=True),
        "val_loader": DataLoader(pack(val_codes, val[1], val[2]), batch_size=100),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=5e-3),
        "compute_loss": lambda model, batch, loss_fn: loss_fn(model(batch[0], batch[1]), batch[2]),
    }


@pair(
    "assays that were not measured are marked -1, and the loss takes the mark as a target",
    where="loss_fn",
    source="MoleculeNet/Tox21 multi-task threads: missing labels fed to BCEWithLogitsLoss",
    accepted=("invalid-labels", "loss-unbounded-below", "wrong-loss-for-task"),
)
def quay_missing_assays(faulty: bool) -> dict:
    torch.manual_seed(6)
    g = np.random.default_rng(6)

    def table(n):
        x = g.standard_normal((n, 16))
        w = np.random.default_rng(1).standard_normal((16, 6))
        y = (x @ w / 4 + 0.3 * g.standard_normal((n, 6)) > 0.2).astype(np.float32)
        y[g.random((n, 6)) < 0.4] = -1
        return TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y))

    def masked(logits, target):
        known = target >= 0
        return F.binary_cross_entropy_with_logits(logits[known], target[known])

    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 6))
    return {
        "model": model,
        "loader": DataLoader(table(1500), batch_size=64, shuffle=True),
        "val_loader": DataLoader(table(300), batch_size=100),
        "loss_fn": nn.BCEWithLogitsLoss() if faulty else masked,
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


# --- graphs ----------------------------------------------------------------------------------------------------------
def ring_or_star(n, seed):
    """Which of two kinds of nodes is better connected among its own?"""
    g = np.random.default_rng(seed)
    out = []
    for _ in range(n):
        label, size = int(g.integers(2)), int(g.integers(8, 15))
        kind = g.integers(0, 2, size)
        pairs = [
            (i, j)
            for i in range(size)
            for j in range(i)
            if g.random() < (0.5 if (kind[i] == kind[j]) == bool(label) else 0.08)
        ]
        edges = np.array([(a, b) for i, j in pairs for a, b in ((i, j), (j, i))]).reshape(-1, 2).T
        x = np.eye(2)[kind] + 0.1 * g.standard_normal((size, 2))
        out.append((torch.tensor(x, dtype=torch.float32), torch.tensor(edges, dtype=torch.long), label))
    return out


class SumGNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.self1, self.nbr1 = nn.Linear(2, 32), nn.Linear(2, 32)
        self.self2, self.nbr2 = nn.Linear(32, 32), nn.Linear(32, 32)
        self.out = nn.Linear(32, 2)

    @staticmethod
    def gather(h, edges):
        deg = torch.zeros(len(h), 1).index_add_(0, edges[1], torch.ones(edges.shape[1], 1)).clamp(min=1)
        return torch.zeros_like(h).index_add_(0, edges[1], h[edges[0]]) / deg

    def forward(self, x, edges, batch):
        h = torch.relu(self.self1(x) + self.nbr1(self.gather(x, edges)))
        h = torch.relu(self.self2(h) + self.nbr2(self.gather(h, edges)))
        n = int(batch.max()) + 1
        pooled = torch.zeros(n, 32).index_add_(0, batch, h) / torch.bincount(batch, minlength=n).unsqueeze(1)
        return self.out(pooled)


@pair(
    "the collate function joins the nodes of all graphs but does not shift the edges, so all edges lie in the first graph",
    where="loader",
    source="discuss.pytorch and pyg-team/pytorch_geometric discussions on own collate functions for graphs: edge_index without offsets",
    accepted=("batch-mixing", "loss-depends-on-order", "inputs-ignored"),
)
def quay_edges_without_offset(faulty: bool) -> dict:
    torch.manual_seed(2)

    def collate(graphs):
        xs, es, ids, ys, seen = [], [], [], [], 0
        for i, (x, e, y) in enumerate(graphs):
            xs.append(x)
            es.append(e if faulty else e + seen)
            ids.append(torch.full((len(x),), i))
            ys.append(y)
            seen += len(x)
        return {"x": torch.cat(xs), "edge_index": torch.cat(es, 1), "batch": torch.cat(ids), "y": torch.tensor(ys)}

    model = SumGNN()
    return {
        "model": model,
        "loader": DataLoader(ring_or_star(1000, 1), batch_size=32, shuffle=True, collate_fn=collate),
        "val_loader": DataLoader(ring_or_star(200, 2), batch_size=50, collate_fn=collate),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=5e-3),
        "compute_loss": lambda m, b, loss_fn: loss_fn(m(b["x"], b["edge_index"], b["batch"]), b["y"]),
    }


# --- segmentation and boxes ------------------------------------------------------------------------------------------
class Leaves(Dataset):
    def __init__(self, n, seed, train, together):
        g = np.random.default_rng(seed)
        yy, xx = np.mgrid[0:24, 0:24]
        self.img, self.mask, self.train, self.together = [], [], train, together
        for _ in range(n):
            cy, cx, a, b, t = *g.uniform(6, 18, 2), *g.uniform(3, 7, 2), g.uniform(0, np.pi)
            u, v = (xx - cx) * np.cos(t) + (yy - cy) * np.sin(t), (yy - cy) * np.cos(t) - (xx - cx) * np.sin(t)
            m = ((u / a) ** 2 + (v / b) ** 2 < 1).astype(np.float32)
            self.img.append(
                torch.tensor(m * g.uniform(0.7, 1.3) + 0.5 * g.standard_normal((24, 24)), dtype=torch.float32)[None]
            )
            self.mask.append(torch.tensor(m)[None])

    def __len__(self):
        return len(self.img)

    @staticmethod
    def random_flip(t, coin):
        return t.flip(-1) if coin < 0.5 else t

    def __getitem__(self, i):
        img, mask = self.img[i], self.mask[i]
        if self.train:
            coin = torch.rand(1).item()
            img = self.random_flip(img, coin)
            mask = self.random_flip(mask, coin if self.together else torch.rand(1).item())
        return img, mask


def small_unet():
    class UNet(nn.Module):
        def __init__(self, c=12):
            super().__init__()
            block = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())  # noqa: E731
            self.down1, self.down2 = block(1, c), block(c, 2 * c)
            self.up = nn.ConvTranspose2d(2 * c, c, 2, stride=2)
            self.last = nn.Sequential(block(2 * c, c), nn.Conv2d(c, 1, 1))

        def forward(self, x):
            a = self.down1(x)
            b = self.down2(F.max_pool2d(a, 2))
            return self.last(torch.cat([a, self.up(b)], 1))

    return UNet()


@pair(
    "the random flip of the image and that of its mask are drawn independently",
    where="loader",
    source="huggingface/diffusers issue 10697 and NVIDIA/flownet2-pytorch issue 22: random transform drawn anew for the target image",
    accepted=("dense-targets-misaligned", "split-treated-differently"),
)
def quay_leaf_masks_flipped_alone(faulty: bool) -> dict:
    torch.manual_seed(9)
    model = small_unet()
    return {
        "model": model,
        "loader": DataLoader(Leaves(500, 1, True, not faulty), batch_size=20, shuffle=True),
        "val_loader": DataLoader(Leaves(100, 2, False, True), batch_size=50),
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


class OneBox(Dataset):
    def __init__(self, n, seed, augment, flip_box):
        g = np.random.default_rng(seed)
        self.augment, self.flip_box, self.items = augment, flip_box, []
        for _ in range(n):
            w, h = g.integers(5, 12, 2)
            x0, y0 = g.integers(0, 24 - w), g.integers(0, 24 - h)
            img = 0.3 * g.standard_normal((1, 24, 24))
            img[:, y0 : y0 + h, x0 : x0 + w] += 1.0
            self.items.append((torch.tensor(img, dtype=torch.float32), torch.tensor([x0, y0, x0 + w, y0 + h]) / 24.0))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        img, box = self.items[i]
        if self.augment and torch.rand(1) < 0.5:
            img = img.flip(-1)
            if self.flip_box:
                x0, y0, x1, y1 = box.tolist()
                box = torch.tensor([1 - x1, y0, 1 - x0, y1])
        return {"image": img, "box": box}


@pair(
    "horizontal flips are applied to the image, but the box keeps its place",
    where="loader",
    source="discuss.pytorch on torchvision transforms in detection: RandomHorizontalFlip in the dataset, boxes not flipped",
    accepted=("split-treated-differently", "noisy-labels", "dense-targets-misaligned"),
)
def quay_boxes_left_unflipped(faulty: bool) -> dict:
    torch.manual_seed(10)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 24, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(24 * 36, 64),
        nn.ReLU(),
        nn.Linear(64, 4),
        nn.Sigmoid(),
    )
    return {
        "model": model,
        "loader": DataLoader(OneBox(1000, 1, True, not faulty), batch_size=32, shuffle=True),
        "val_loader": DataLoader(OneBox(200, 2, False, True), batch_size=50),
        "loss_fn": nn.SmoothL1Loss(beta=0.05),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
        "compute_loss": lambda m, b, loss_fn: loss_fn(m(b["image"]), b["box"]),
    }


# --- recommender -----------------------------------------------------------------------------------------------------
@pair(
    "the number of items is read from the wrong axis of the item table, so negatives come only from the first 16 items",
    where="item",
    source="benfred/implicit pull request 747: n_items used item_vectors.shape[1] instead of shape[0]",
    accepted=(),
)
def quay_bpr_negatives_from_factors(faulty: bool) -> dict:
    torch.manual_seed(0)
    g = np.random.default_rng(0)
    n_users, n_items, k = 120, 160, 16
    pu, qi = g.standard_normal((n_users, 4)), g.standard_normal((n_items, 4))
    liked = [np.argsort(-(pu[u] @ qi.T + 0.5 * g.standard_normal(n_items)))[:20] for u in range(n_users)]
    tr = torch.tensor([(u, i) for u in range(n_users) for i in liked[u][::2]])
    va = torch.tensor([(u, i) for u in range(n_users) for i in liked[u][1::2]])

    class MF(nn.Module):
        def __init__(self):
            super().__init__()
            self.user, self.item = nn.Embedding(n_users, k), nn.Embedding(n_items, k)
            nn.init.normal_(self.user.weight, std=0.1)
            nn.init.normal_(self.item.weight, std=0.1)

        def forward(self, u, i):
            return (self.user(u) * self.item(i)).sum(-1)

    def compute_loss(model, batch, loss_fn):
        u, i = batch[0].unbind(1)
        count = model.item.weight.shape[1] if faulty and model.training else model.item.weight.shape[0]
        j = torch.randint(0, count, i.shape)
        return loss_fn(model(u, i) - model(u, j))

    model = MF()
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(tr), batch_size=64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(va), batch_size=300),
        "loss_fn": lambda diff: -F.logsigmoid(diff).mean(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-2),
        "compute_loss": compute_loss,
    }


# --- distillation ----------------------------------------------------------------------------------------------------
@pair(
    "the distillation term compares the teacher with itself, so the student learns from the few labels only",
    where="compute_loss",
    source="labmlai/annotated_deep_learning_paper_implementations issue 66: large_logits is used again in place of the student's output",
    accepted=("loss-terms-unbalanced",),
)
def quay_teacher_against_itself(faulty: bool) -> dict:
    torch.manual_seed(0)
    raw = load_digits()
    x, y = torch.tensor(raw.data / 16.0, dtype=torch.float32), torch.tensor(raw.target)
    teacher = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    opt = torch.optim.Adam(teacher.parameters(), lr=1e-2)
    for _ in range(60):
        opt.zero_grad()
        F.cross_entropy(teacher(x[:1400]), y[:1400]).backward()
        opt.step()
    teacher.requires_grad_(False).eval()
    labels = y.clone()
    labels[:1400][torch.arange(1400) % 20 != 0] = -100
    student = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    T = 3.0

    def compute_loss(model, batch, loss_fn):
        data, target = batch
        output = model(data)
        known = target >= 0
        hard = loss_fn(output[known], target[known]) if known.any() else output.sum() * 0.0
        if not model.training:
            return hard
        with torch.no_grad():
            large_logits = teacher(data)
        soft_targets = F.softmax(large_logits / T, dim=-1)
        small = large_logits if faulty else output
        soft = F.kl_div(F.log_softmax(small / T, dim=-1), soft_targets, reduction="batchmean")
        return soft * T * T + 0.5 * hard

    return {
        "model": student,
        "loader": DataLoader(TensorDataset(x[:1400], labels[:1400]), batch_size=50, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1400:], y[1400:]), batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(student.parameters(), lr=3e-3),
        "compute_loss": compute_loss,
    }


# --- audio-like ------------------------------------------------------------------------------------------------------
class Notes(Dataset):
    def __init__(self, n, seed, rate):
        g = np.random.default_rng(seed)
        freqs, self.clips, self.labels = 200 * 2 ** (np.arange(8) / 6), [], g.integers(0, 8, n)
        t = np.arange(int(0.128 * rate)) / rate
        for k in self.labels:
            f = freqs[k] * g.uniform(0.985, 1.015)
            wave = sum(
                np.sin(2 * np.pi * f * h * t + g.uniform(0, 6)) / h for h in (1, 2, 3)
            ) + 0.4 * g.standard_normal(len(t))
            self.clips.append(torch.tensor(wave[:512] if len(t) >= 512 else wave, dtype=torch.float32))

    def __len__(self):
        return len(self.clips)

    def __getitem__(self, i):
        spec = torch.stft(self.clips[i], 128, 32, window=torch.hann_window(128), return_complex=True).abs()
        return (torch.log1p(spec) - 1.0), int(self.labels[i])


@pair(
    "the validation clips are loaded at twice the sampling rate of the training clips, so every note is an octave lower",
    where="val_loader",
    source="Lab41/Magnolia pull request 27 (features with the wrong sample rate) and librosa threads on sr=22050 by default",
    accepted=("split-shift", "split-treated-differently"),
)
def quay_clips_at_other_rate(faulty: bool) -> dict:
    torch.manual_seed(3)
    model = nn.Sequential(
        nn.Conv1d(65, 32, 3, padding=1),
        nn.BatchNorm1d(32),
        nn.ReLU(),
        nn.Conv1d(32, 32, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(32, 8),
    )
    return {
        "model": model,
        "loader": DataLoader(Notes(800, 1, 4000), batch_size=32, shuffle=True),
        "val_loader": DataLoader(Notes(200, 2, 8000 if faulty else 4000), batch_size=50),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


# --- fine-tuning -----------------------------------------------------------------------------------------------------
@pair(
    "the optimizer was made before the classifier was replaced, and holds the parameters of the old head",
    where="classifier.weight",
    source="microsoft/nni issue 4521 and discuss.pytorch on finetuning: optimizer created before model.fc was replaced",
    accepted=("parameters-missing-from-optimizer",),
)
def quay_vit_head_replaced_late(faulty: bool) -> dict:
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(1)
    raw = load_digits()
    x, y = torch.tensor(raw.images, dtype=torch.float32).unsqueeze(1) / 8 - 1, torch.tensor(raw.target)
    config = ViTConfig(
        image_size=8,
        patch_size=2,
        num_channels=1,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        num_labels=100,
    )
    model = ViTForImageClassification(config)
    if not faulty:
        model.classifier = nn.Linear(32, 10)
    groups = [
        {"params": list(model.classifier.parameters()), "lr": 5e-3},
        {"params": list(model.vit.parameters()), "lr": 5e-4},
    ]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    if faulty:
        model.classifier = nn.Linear(32, 10)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1400], y[:1400]), batch_size=50, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1400:], y[1400:]), batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "compute_loss": lambda model, batch, loss_fn: loss_fn(model(pixel_values=batch[0]).logits, batch[1]),
    }
