"""Losses, loops and fine-tuning."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_diabetes, load_digits, load_iris, make_classification
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.first_sight import pair


def f32(a):
    return torch.tensor(np.asarray(a), dtype=torch.float32)


# ---------------------------------------------------------------------------------------------------------------------
@pair(
    "a StepLR that counts epochs is stepped after every batch, so the rate is divided by ten every three batches",
    where="scheduler",
    source="ivadomed/ivadomed pull request 55: scheduler was incorrectly stepped in the batch loop instead of the epoch loop",
    accepted=("schedule-unit-wrong", "schedule-reaches-zero", "learning-rate-too-low"),
)
def quay_steplr_in_batch_loop(faulty: bool) -> dict:
    torch.manual_seed(5)
    raw = load_digits()
    X, y = f32(raw.data) / 16, torch.tensor(raw.target)
    a, b = train_test_split(np.arange(len(y)), test_size=0.25, random_state=5, stratify=y)
    model = nn.Sequential(nn.Linear(64, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 10))
    loader = DataLoader(TensorDataset(X[a], y[a]), batch_size=32, shuffle=True, drop_last=True)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(opt, step_size=3, gamma=0.1)
    done = {"batches": 0}

    def train_step(model, batch, loss_fn, optimizer):
        inputs, targets = batch
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        done["batches"] += 1
        if faulty or done["batches"] % len(loader) == 0:
            scheduler.step()
        return loss

    return {
        "model": model,
        "loader": loader,
        "val_loader": DataLoader(TensorDataset(X[b], y[b]), batch_size=128),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": opt,
        "scheduler": scheduler,
        "train_step": train_step,
    }


# ---------------------------------------------------------------------------------------------------------------------
@pair(
    "the class weights come from value_counts(), which sorts by frequency: class 0, the rarest, gets the weight of the most frequent",
    where="loss_fn",
    source="stackoverflow and kaggle notebooks: weights from value_counts() are not in the order of the class ids",
    accepted=("class-weights-inverted",),
)
def quay_weights_in_value_counts_order(faulty: bool) -> dict:
    import pandas as pd

    torch.manual_seed(2)
    X, y = make_classification(
        2400,
        12,
        n_informative=6,
        n_redundant=2,
        n_classes=3,
        weights=[0.05, 0.2, 0.75],
        class_sep=0.9,
        flip_y=0.02,
        random_state=8,
    )
    Xa, Xb, ya, yb = train_test_split(X, y, test_size=0.25, stratify=y, random_state=1)
    scaler = StandardScaler().fit(Xa)
    counts = pd.Series(ya).value_counts()
    if not faulty:
        counts = counts.sort_index()
    weights = f32(len(ya) / (3.0 * counts.to_numpy()))
    model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(f32(scaler.transform(Xa)), torch.tensor(ya)), batch_size=60, shuffle=True),
        "val_loader": DataLoader(TensorDataset(f32(scaler.transform(Xb)), torch.tensor(yb)), batch_size=200),
        "loss_fn": nn.CrossEntropyLoss(weight=weights),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }


# ---------------------------------------------------------------------------------------------------------------------
class TwoTasks(nn.Module):
    def __init__(self, plain):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(64, 48), nn.ReLU())
        heads = {"digit": nn.Linear(48, 10), "ink": nn.Linear(48, 1)}
        self.heads = heads if plain else nn.ModuleDict(heads)

    def forward(self, x):
        h = self.trunk(x)
        return {name: head(h) for name, head in self.heads.items()}


@pair(
    "the heads of the tasks are in a plain dict, so model.parameters() does not have them",
    where="heads",
    source="discuss.pytorch on multi-task heads: submodules in a python dict instead of ModuleDict",
    accepted=("unregistered-parameters", "parameters-missing-from-optimizer"),
)
def quay_heads_in_a_dict(faulty: bool) -> dict:
    torch.manual_seed(13)
    raw = load_digits()
    X, digit = f32(raw.data) / 16 - 0.3, torch.tensor(raw.target)
    ink = X.mean(1)
    ink = (ink - ink.mean()) / ink.std()
    model = TwoTasks(plain=faulty)

    def compute_loss(model, batch, loss_fn):
        x, d, i = batch
        out = model(x)
        return loss_fn["digit"](out["digit"], d) + 0.5 * loss_fn["ink"](out["ink"].squeeze(-1), i)

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(X[:1400], digit[:1400], ink[:1400]), batch_size=40, shuffle=True),
        "val_loader": DataLoader(TensorDataset(X[1400:], digit[1400:], ink[1400:]), batch_size=100),
        "loss_fn": nn.ModuleDict({"digit": nn.CrossEntropyLoss(), "ink": nn.MSELoss()}),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
        "compute_loss": compute_loss,
    }


# ---------------------------------------------------------------------------------------------------------------------
@pair(
    "the class numbers of the training table are remapped in place, one after the other, so two classes become one",
    where="loader",
    source="donglao/PCEDA issue 5: label2 = label without clone, already changed labels are changed again",
    accepted=("split-treated-differently", "split-shift", "noisy-labels", "class-imbalance"),
)
def quay_labels_remapped_in_place(faulty: bool) -> dict:
    torch.manual_seed(7)
    X, y = load_iris(return_X_y=True)
    g = np.random.default_rng(7)
    rows = g.permutation(150)
    tr, va = np.repeat(rows[:105], 4), np.repeat(rows[105:], 3)
    noise = lambda idx: X[idx] + 0.08 * g.standard_normal((len(idx), 4))  # noqa: E731
    Xtr, Xva = noise(tr), noise(va)
    ordering = {0: 1, 1: 2, 2: 0}

    def permute(label):
        label2 = label if faulty else label.clone()
        for old, new in ordering.items():
            label2[label == old] = new
        return label2

    y_train = permute(torch.tensor(y[tr]))
    y_val = torch.tensor([ordering[int(c)] for c in y[va]])
    sc = StandardScaler().fit(Xtr)
    model = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 3))
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(f32(sc.transform(Xtr)), y_train), batch_size=20, shuffle=True),
        "val_loader": DataLoader(TensorDataset(f32(sc.transform(Xva)), y_val), batch_size=45),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=5e-3),
        "class_names": ["virginica", "setosa", "versicolor"],
    }


# ---------------------------------------------------------------------------------------------------------------------
@pair(
    "predictions have the shape (N, 1) and targets (N,), which the squared error broadcasts to all pairs",
    where="loss_fn",
    source="LAMDA-Tabular/TALENT pull request 92 and jsboige/CoursIA pull request 926: MSE of (n, 1) and (n,)",
    accepted=("incompatible-target-shape",),
)
def quay_diabetes_all_pairs(faulty: bool) -> dict:
    torch.manual_seed(1)
    X, y = load_diabetes(return_X_y=True)
    X, y = StandardScaler().fit_transform(X), (y - y.mean()) / y.std()
    a, b = train_test_split(np.arange(len(y)), test_size=0.25, random_state=0)
    target = f32(y) if faulty else f32(y).unsqueeze(1)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.bn, self.fc2 = nn.Linear(10, 24), nn.BatchNorm1d(24), nn.Linear(24, 1)

        def forward(self, x):
            return self.fc2(F.silu(self.bn(self.fc1(x))))

    def squared_error(pred, true):
        return torch.mean((pred - true) ** 2)

    model = Net()
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(f32(X)[a], target[a]), batch_size=32, shuffle=True, drop_last=True),
        "val_loader": DataLoader(TensorDataset(f32(X)[b], target[b]), batch_size=111),
        "loss_fn": squared_error,
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-3),
    }


# ---------------------------------------------------------------------------------------------------------------------
@pair(
    "modules_to_save is the result of list.append, which is None, so the new classifier stays frozen at its random weights",
    where="classifier.weight",
    source="huggingface/peft issue 577: modules_to_save=lora_target_modules.append('score')",
    accepted=("frozen-parameters",),
)
def quay_lora_modules_to_save_none(faulty: bool) -> dict:
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(4)
    raw = load_digits()
    X, y = f32(raw.data) / 16, torch.tensor(raw.target)

    class Backbone(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.dense1, self.dense2 = nn.Linear(64, 64), nn.Linear(64, 64)
            self.classifier = nn.Linear(64, n)

        def forward(self, x):
            return self.classifier(torch.relu(self.dense2(torch.relu(self.dense1(x)))))

    base = Backbone(2)  # pretrained on another question about the same images
    pre = torch.optim.Adam(base.parameters(), lr=3e-3)
    for i in range(80):
        rows = torch.randint(0, 1400, (64,))
        pre.zero_grad()
        F.cross_entropy(base(X[rows]), y[rows] % 2).backward()
        pre.step()
    base.classifier = nn.Linear(64, 10)
    nn.init.normal_(base.classifier.weight, std=0.02)
    nn.init.zeros_(base.classifier.bias)
    targets = ["dense1", "dense2"]
    to_save = ["classifier"]
    if faulty:
        to_save = list(targets).append("classifier")
    model = get_peft_model(base, LoraConfig(r=4, lora_alpha=8, target_modules=targets, modules_to_save=to_save))
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(X[:1400], y[:1400]), batch_size=50, shuffle=True),
        "val_loader": DataLoader(TensorDataset(X[1400:], y[1400:]), batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=4e-3),
    }


# ---------------------------------------------------------------------------------------------------------------------
@pair(
    "the second derivatives are taken of both first derivatives at once, which adds the mixed derivative to each of them",
    where="compute_loss",
    source="prateekbhustali/Physics-Informed-Neural-Networks issue 4: the code mixes the partial derivatives into the Laplace term",
    accepted=(),
)
def quay_poisson_mixed_derivatives(faulty: bool) -> dict:
    torch.manual_seed(0)
    g = torch.rand(1500, 2, generator=torch.Generator().manual_seed(1))
    side = torch.linspace(0, 1, 50)
    edge = torch.cat(
        [
            torch.stack([side, 0 * side], 1),
            torch.stack([side, 0 * side + 1], 1),
            torch.stack([0 * side, side], 1),
            torch.stack([0 * side + 1, side], 1),
        ]
    )

    def exact(p):
        return p[:, :1] * p[:, 1:] + 0.5 * torch.sin(np.pi * p[:, :1]) * torch.sin(np.pi * p[:, 1:])

    def source(p):
        return -(np.pi**2) * torch.sin(np.pi * p[:, :1]) * torch.sin(np.pi * p[:, 1:])

    net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))

    def grad(out, p):
        return torch.autograd.grad(out, p, torch.ones_like(out), create_graph=True)[0]

    def compute_loss(model, batch, loss_fn):
        p = batch[0].clone().requires_grad_(True)
        du = grad(model(p), p)
        if faulty:
            d2u = grad(du, p)
            laplace = d2u[:, :1] + d2u[:, 1:]
        else:
            laplace = grad(du[:, :1], p)[:, :1] + grad(du[:, 1:], p)[:, 1:]
        residual = laplace - source(p)
        boundary = model(edge) - exact(edge)
        return residual.pow(2).mean() + 20.0 * boundary.pow(2).mean()

    return {
        "model": net,
        "loader": DataLoader(TensorDataset(g), batch_size=100, shuffle=True),
        "optimizer": torch.optim.Adam(net.parameters(), lr=3e-3),
        "compute_loss": compute_loss,
    }


# ---------------------------------------------------------------------------------------------------------------------
@pair(
    "the labels of padding tokens are 0, the class 'O', instead of -100, so most of the loss is about padding",
    where="labels",
    source="huggingface/transformers threads on token classification: padded labels must be -100",
    accepted=("padding-dominates",),
)
def quay_padded_tags_are_outside(faulty: bool) -> dict:
    from transformers import BertConfig, BertForTokenClassification

    torch.manual_seed(3)
    g = np.random.default_rng(3)

    def sentences(n):
        rows = []
        for _ in range(n):
            size = int(g.integers(5, 13))
            words = g.integers(5, 60, size)
            tags = np.where(words < 12, 1, 0)
            tags[1:][(words[:-1] >= 55)] = 2  # the word after a title is a name
            rows.append((words, tags))
        return rows

    def collate(rows):
        n, width = len(rows), 48
        ids, mask = torch.zeros(n, width, dtype=torch.long), torch.zeros(n, width, dtype=torch.long)
        labels = torch.full((n, width), 0 if faulty else -100)
        for i, (w, t) in enumerate(rows):
            ids[i, : len(w)], mask[i, : len(w)], labels[i, : len(w)] = torch.tensor(w), 1, torch.tensor(t)
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}

    config = BertConfig(
        vocab_size=60,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        num_labels=3,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = BertForTokenClassification(config)
    return {
        "model": model,
        "loader": DataLoader(sentences(1000), batch_size=25, shuffle=True, collate_fn=collate),
        "val_loader": DataLoader(sentences(200), batch_size=50, collate_fn=collate),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=1e-3),
        "compute_loss": lambda model, batch, loss_fn: model(**batch).loss,
    }
