"""Tables, samplers, optimizers, schedules, transfer."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from benchmarks.first_sight import pair
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine, make_classification
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset, WeightedRandomSampler


def _scaled(x: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(((x - x.mean(0)) / (x.std(0) + 1e-8)).astype("float32"))


@pair(
    "Predictions of shape (n, 1) meet targets of shape (n,): the error is taken between all pairs.",
    where="loss_fn",
    source="pytorch/pytorch issue 16045: fail to throw error when computing loss between shapes [n, 1] and [n]",
    accepted=("incompatible-target-shape",),
)
def elm_huber_between_all_pairs(faulty: bool) -> dict[str, Any]:
    """The loss is written by hand, so there's no warning."""
    torch.manual_seed(0)
    x, y = load_diabetes(return_X_y=True)
    x, y = _scaled(x), _scaled(y[:, None])[:, 0]
    if not faulty:
        y = y[:, None]
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))

    def pseudo_huber(pred: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return ((1 + (pred - target) ** 2).sqrt() - 1).mean()

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:350], y[:350]), 32, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[350:], y[350:]), 46),
        "loss_fn": pseudo_huber,
        "optimizer": torch.optim.Adam(model.parameters(), 3e-3),
    }


class CoxLoss(nn.Module):
    """Negative partial log likelihood without ties."""

    def __init__(self, as_bool: bool) -> None:
        super().__init__()
        self.as_bool = as_bool

    def forward(self, log_hz: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        time, event = target[:, 0], target[:, 1].long()
        order = time.argsort()
        log_hz, event = log_hz[order, 0], event[order]
        log_denominator = log_hz.flip(0).logcumsumexp(0).flip(0)
        return -(log_hz - log_denominator)[event.bool() if self.as_bool else event].mean()


@pair(
    "The event indicator (0 or 1 as integers) selects rows 0 and 1 again and again instead of masking.",
    where="loss_fn",
    source="Novartis/torchsurv issue 117: Cox partial likelihood doesn't seem to index over all events",
    accepted=("mask-used-as-index",),
)
def elm_cox_events_as_indices(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(1)
    g = torch.Generator().manual_seed(0)
    x = torch.randn(900, 12, generator=g)
    risk = x[:, 0] - 0.8 * x[:, 1] + x[:, 2] * x[:, 3]
    time = torch.empty(900).exponential_(generator=g) * torch.exp(-risk)
    censor = torch.empty(900).exponential_(generator=g) * 1.5
    target = torch.stack([torch.minimum(time, censor), (time <= censor).float()], 1)
    model = nn.Sequential(nn.Linear(12, 32), nn.SELU(), nn.Linear(32, 1, bias=False))
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:700], target[:700]), 64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[700:], target[700:]), 200),
        "loss_fn": CoxLoss(as_bool=not faulty),
        "optimizer": torch.optim.Adam(model.parameters(), 2e-3),
    }


class PinballLoss(nn.Module):
    def __init__(self, taus: tuple[float, ...], exchanged: bool) -> None:
        super().__init__()
        self.register_buffer("taus", torch.tensor(taus))
        self.exchanged = exchanged

    def forward(self, outputs: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        value = value.unsqueeze(-1)
        if self.exchanged:
            return torch.abs((outputs - value) * ((value >= outputs).float() - self.taus)).mean()
        return torch.abs((outputs - value) * ((value <= outputs).float() - self.taus)).mean()


@pair(
    "The pinball loss weighs over- and underestimates the wrong way round: the 10% output learns the 90% quantile.",
    where="loss_fn",
    source="ufal/npfl139 issue 17: Incorrect quantile regression loss; awslabs/gluonts pull request 1784",
    accepted=(),
)
def elm_pinball_exchanged(faulty: bool) -> dict[str, Any]:
    """Right would be: the quantile that an output learns is 1 - tau of its name."""
    torch.manual_seed(2)
    g = torch.Generator().manual_seed(1)
    x = torch.rand(2000, 3, generator=g) * 2 - 1
    y = torch.sin(3 * x[:, 0]) + (0.2 + 0.5 * (x[:, 1] + 1)) * torch.randn(2000, generator=g)
    model = nn.Sequential(nn.Linear(3, 48), nn.Tanh(), nn.Linear(48, 3))
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1600], y[:1600]), 64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1600:], y[1600:]), 100),
        "loss_fn": PinballLoss((0.1, 0.5, 0.9), exchanged=faulty),
        "optimizer": torch.optim.Adam(model.parameters(), 5e-3),
    }


class MixtureHead(nn.Module):
    def __init__(self, inputs: int, parts: int) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(inputs, 48), nn.Tanh())
        self.logit_probs, self.means, self.log_scales = (nn.Linear(48, parts) for _ in range(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        h = self.trunk(x)
        return self.logit_probs(h), self.means(h) * 2, self.log_scales(h).clamp(min=-5)


@pair(
    "The log probabilities of the components are summed before they are mixed, a product instead of a mixture.",
    where="loss_fn",
    source="r9y9/wavenet_vocoder issues 33 and 34: Is it wrong for the discretized_mix_logistic_loss?",
    accepted=(),
)
def elm_mixture_summed_before_mixing(faulty: bool) -> dict[str, Any]:
    """Right would be: the mixture's likelihood adds up log densities over components; components all learn the mean."""
    torch.manual_seed(3)
    g = torch.Generator().manual_seed(2)
    x = torch.rand(2000, 1, generator=g) * 4 - 2
    branch = torch.randint(0, 2, (2000,), generator=g) * 2 - 1
    y = branch * (1 + x[:, 0].abs()) + 0.15 * torch.randn(2000, generator=g)

    def mixture_nll(output: Any, y: torch.Tensor) -> torch.Tensor:
        logit_probs, means, log_scales = output
        z = (y[:, None] - means) / log_scales.exp()
        log_probs = -0.5 * z**2 - log_scales - 0.5 * math.log(2 * math.pi)
        if faulty:
            log_probs = log_probs.sum(-1, keepdim=True)
        return -torch.logsumexp(log_probs + F.log_softmax(logit_probs, -1), -1).mean()

    model = MixtureHead(1, 4)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1600], y[:1600]), 64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1600:], y[1600:]), 100),
        "loss_fn": mixture_nll,
        "optimizer": torch.optim.Adam(model.parameters(), 3e-3),
    }


class FactorizationMachine(nn.Module):
    def __init__(self, field_dims: list[int], dim: int, use_offsets: bool) -> None:
        super().__init__()
        offsets = np.array((0, *np.cumsum(field_dims)[:-1])) if use_offsets else np.zeros(len(field_dims), "int64")
        self.register_buffer("offsets", torch.as_tensor(offsets))
        self.embedding, self.linear = nn.Embedding(sum(field_dims), dim), nn.Embedding(sum(field_dims), 1)
        self.bias = nn.Parameter(torch.zeros(1))
        nn.init.xavier_uniform_(self.embedding.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.offsets
        e = self.embedding(x)
        second = 0.5 * (e.sum(1) ** 2 - (e**2).sum(1)).sum(1)
        return self.linear(x).sum((1, 2)) + self.bias + second


@pair(
    "All fields look up the same rows of one embedding: user 3, item 3 and weekday 3 share their vector.",
    where="embedding",
    source="rixwew/pytorch-fm issue 4: FeatureEmbedding Implementation (the offsets are needed)",
    accepted=(),
)
def elm_fields_without_offsets(faulty: bool) -> dict[str, Any]:
    """Right would be: fields share embedding rows, or: half of the embedding's rows never get a gradient."""
    torch.manual_seed(4)
    g = torch.Generator().manual_seed(3)
    dims = [30, 40, 7]
    x = torch.stack([torch.randint(0, d, (6000,), generator=g) for d in dims], 1)
    u, v, w = (torch.randn(d, 4, generator=g) for d in dims)
    logit = (u[x[:, 0]] * v[x[:, 1]]).sum(1) + 2 * w[x[:, 2], 0] + v[x[:, 1], 1]
    y = (torch.rand(6000, generator=g) < torch.sigmoid(1.5 * logit)).float()
    model = FactorizationMachine(dims, 6, use_offsets=not faulty)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:5000], y[:5000]), 100, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[5000:], y[5000:]), 200),
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), 1e-2, weight_decay=1e-5),
    }


class _Folder(Dataset):
    """Like ImageFolder; the order of os.listdir is that of the file system."""

    def __init__(self, x: torch.Tensor, names: list[str], listing: list[str]) -> None:
        self.x, self.names = x, names
        self.class_to_idx = {name: i for i, name in enumerate(listing)}

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        return self.x[i], self.class_to_idx[self.names[i]]


@pair(
    "Class numbers come from the unsorted listing of each split's folder and differ between training and validation.",
    where="val_loader",
    source="uzh-rpg/rpg_event_representation_learning issue 2: Validation accuracy lower than expected",
    accepted=("split-shift", "split-treated-differently"),
)
def elm_class_numbers_differ_by_split(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(6)
    digits, label = load_digits(return_X_y=True)
    words = "zero one two three four five six seven eight nine".split()
    names = [words[i] for i in label]
    x = torch.from_numpy((digits / 16).astype("float32"))
    listing_train = sorted(words)
    listing_val = list(np.random.default_rng(4).permutation(words)) if faulty else sorted(words)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    return {
        "model": model,
        "loader": DataLoader(_Folder(x[:1300], names[:1300], listing_train), 32, shuffle=True),
        "val_loader": DataLoader(_Folder(x[1300:], names[1300:], listing_val), 100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), 2e-3),
        "class_names": listing_train,
    }


@pair(
    "The sampler is given one weight per class instead of one per example and draws the first three examples only.",
    where="loader",
    source="deep-voice/soundbay pull request 49: hotfix, using random sampler in a problematic way",
    accepted=("samples-dropped", "repeated-batches", "duplicate-samples", "too-few-examples"),
)
def elm_sampler_weights_per_class(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(7)
    x, y = load_wine(return_X_y=True)
    order = np.random.default_rng(3).permutation(len(y))
    x, y = _scaled(x)[order], torch.from_numpy(y[order])
    class_weights = 1.0 / torch.bincount(y[:130]).float()
    weights = class_weights if faulty else class_weights[y[:130]]
    sampler = WeightedRandomSampler(weights, num_samples=130, replacement=True)
    model = nn.Sequential(nn.Linear(13, 16), nn.ReLU(), nn.Linear(16, 3))
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:130], y[:130]), 26, sampler=sampler),
        "val_loader": DataLoader(TensorDataset(x[130:], y[130:]), 48),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), 5e-3),
    }


@pair(
    "ReduceLROnPlateau watches the accuracy in its default mode 'min' and cuts the rate while accuracy rises.",
    where="optimizer",
    source="md-mohaiminul/ViS4mer issue 4: ReduceLROnPlateau",
    accepted=("learning-rate-too-low", "schedule-reaches-zero", "schedule-unit-wrong"),
)
def elm_plateau_in_min_mode(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(8)
    x, y = make_classification(2400, 20, n_informative=10, n_classes=4, n_clusters_per_class=3, random_state=0)
    x, y = _scaled(x), torch.from_numpy(y)
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    mode = "min" if faulty else "max"
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode, factor=0.2, patience=1)
    state = {"step": 0}

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        xb, yb = batch
        loss = loss_fn(model(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        state["step"] += 1
        if state["step"] % 20 == 0:
            model.eval()
            with torch.no_grad():
                accuracy = (model(x[2000:]).argmax(1) == y[2000:]).float().mean().item()
            model.train()
            plateau.step(accuracy)
        return loss

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:2000], y[:2000]), 50, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[2000:], y[2000:]), 200),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "train_step": train_step,
    }


@pair(
    "clip_grad_norm_ is called before backward, when there are no gradients to clip.",
    where="",
    source="yandex-research/tabm issue 20: Incorrect gradient clipping?",
    accepted=("clipping-without-effect",),
)
def elm_clipped_before_backward(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(9)
    g = torch.Generator().manual_seed(4)
    x = torch.randn(1200, 8, generator=g)
    y = x[:, :1] * 2 + torch.sin(2 * x[:, 1:2])
    y[torch.rand(1200, generator=g) < 0.03] += 60
    model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        xb, yb = batch
        optimizer.zero_grad()
        loss = loss_fn(model(xb), yb)
        if faulty:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            loss.backward()
        else:
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        return loss

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1000], y[:1000]), 20, shuffle=True),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.SGD(model.parameters(), 0.02),
        "train_step": train_step,
    }


@pair(
    "zero_grad is called for each micro-batch, so only the last of the four reaches the step.",
    where="",
    source="bytetriper/RAE issue 67: train.py: zero_grad is called per microbatch, breaking gradient accumulation",
    accepted=("gradients-discarded",),
)
def elm_zeroed_each_micro_batch(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(10)
    x, y = load_digits(return_X_y=True)
    x, y = torch.from_numpy((x / 16).astype("float32")), torch.from_numpy(y)
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        xb, yb = batch
        micro = list(zip(xb.chunk(4), yb.chunk(4), strict=True))
        total = 0.0
        if not faulty:
            optimizer.zero_grad(set_to_none=True)
        for xm, ym in micro:
            if faulty:
                optimizer.zero_grad(set_to_none=True)
            loss = loss_fn(model(xm), ym) / len(micro)
            loss.backward()
            total = total + loss.detach()
        optimizer.step()
        return total

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1280], y[:1280]), 64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1280:], y[1280:]), 100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.SGD(model.parameters(), 0.1, momentum=0.9),
        "train_step": train_step,
    }


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, rank: int, both_zero: bool) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        std = 0.0 if both_zero else 1 / math.sqrt(rank)
        self.lora_A = nn.Parameter(torch.randn(base.in_features, rank) * std)
        self.lora_B = nn.Parameter(torch.zeros(rank, base.out_features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + x @ self.lora_A @ self.lora_B


def _fit(model: nn.Module, x: torch.Tensor, y: torch.Tensor, steps: int, lr: float = 1e-2) -> None:
    """A short pre-training, standing for a checkpoint from elsewhere."""
    optimizer = torch.optim.Adam(model.parameters(), lr)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


@pair(
    "Both LoRA factors start at zero, so neither ever gets a gradient; only the new head is trained.",
    where="0.lora_A",
    source="circle-hit/SAPT issue 11: InCorrect LoRALayer initialization of lora_A",
    accepted=("untrained-parameters", "symmetric-initialization", "vanishing-gradients"),
)
def elm_lora_both_zero(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(11)
    x, y = load_digits(return_X_y=True)
    x, y = torch.from_numpy((x / 16).astype("float32")), torch.from_numpy(y)
    body = nn.Sequential(nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 2))
    _fit(body, x[:600], y[:600] % 2, 60)
    model = nn.Sequential(
        LoRALinear(body[0], 4, faulty), nn.Tanh(), LoRALinear(body[2], 4, faulty), nn.Tanh(), nn.Linear(8, 10)
    )
    trainable = [p for p in model.parameters() if p.requires_grad]
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1400], y[:1400]), 32, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1400:], y[1400:]), 100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.AdamW(trainable, 5e-3),
    }


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 8, 3, 1, 1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3, 2, 1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Flatten(),
        )
        self.head = nn.Linear(256, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.backbone(x))


@pair(
    "The checkpoint's names have a prefix that the model lacks; strict=False loads none, and the backbone is frozen.",
    where="backbone",
    source="stefanopini/simple-HRNet issue 79 and microsoft/voxelpose-pytorch issue 59: backbone prefix mismatch",
    accepted=("checkpoint-not-loaded",),
)
def elm_prefix_loads_nothing(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(12)
    x, y = load_digits(return_X_y=True)
    x, y = torch.from_numpy((x / 16).astype("float32")).view(-1, 1, 8, 8), torch.from_numpy(y)
    donor = Detector()
    _fit(donor, x[:400], y[:400], 25)
    checkpoint = {f"module.{k}": v.clone() for k, v in donor.state_dict().items() if k.startswith("backbone")}
    model = Detector()
    if not faulty:
        checkpoint = {k.removeprefix("module."): v for k, v in checkpoint.items()}
    model.load_state_dict(checkpoint, strict=False)
    model.backbone.requires_grad_(False)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[800:900], y[800:900]), 20, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[900:], y[900:]), 100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.head.parameters(), 2e-3),
    }


class MeanTeacher(nn.Module):
    """Student learns from labels and from the averaged teacher on unlabelled views."""

    def __init__(self, student: nn.Module, decay: float, buffers: bool) -> None:
        super().__init__()
        self.student, self.teacher = student, copy.deepcopy(student).requires_grad_(False)
        self.decay, self.buffers = decay, buffers
        self.teacher.eval()

    def train(self, mode: bool = True) -> MeanTeacher:
        super().train(mode)
        self.teacher.eval()
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.student(x)

    @torch.no_grad()
    def update(self) -> None:
        for mp, op in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
            mp.mul_(self.decay).add_(op, alpha=1 - self.decay)
        if self.buffers:
            for mb, ob in zip(self.teacher.buffers(), self.student.buffers(), strict=True):
                mb.copy_(ob)


@pair(
    "The teacher averages parameters but not the batch norm statistics, which stay at 0 and 1.",
    where="teacher",
    source="saltoricristiano/cosmix-uda issue 21: EMA with buffers; lucidrains/byol-pytorch issue 73",
    accepted=("moving-average-wrong", "batchnorm-misused"),
)
def elm_teacher_without_statistics(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(13)
    x, y = load_digits(return_X_y=True)
    x, y = torch.from_numpy(x.astype("float32")), torch.from_numpy(y)
    student = nn.Sequential(nn.BatchNorm1d(64), nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))
    model = MeanTeacher(student, 0.95, buffers=not faulty)

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        xb, yb = batch
        known = yb >= 0
        noisy = xb + 2 * torch.randn_like(xb)
        logits = model(noisy)
        with torch.no_grad():
            guess = model.teacher(xb).softmax(1)
        loss = loss_fn(logits[known], yb[known]) - 0.5 * (guess * logits.log_softmax(1)).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.update()
        return loss

    labels = y.clone()
    labels[:1400][torch.rand(1400) < 0.9] = -1
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1400], labels[:1400]), 100, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1400:], y[1400:]), 100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(student.parameters(), 2e-3),
        "train_step": train_step,
    }


class SimSiam(nn.Module):
    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(inputs, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 32))
        self.predictor = nn.Sequential(nn.Linear(32, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 32))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        z = self.encoder(x)
        return z, self.predictor(z)


@pair(
    "The stop-gradient on the other view is missing and the representation collapses.",
    where="encoder",
    source="PatrickHua/SimSiam issue 39: There should be a stop gradient in the simsiam model",
    accepted=("representation-collapse", "outputs-identical"),
)
def elm_simsiam_without_stop(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(14)
    x = torch.from_numpy((load_digits().data / 8 - 1).astype("float32"))
    model = SimSiam(64)

    def similarity(p: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return -F.cosine_similarity(p, z if faulty else z.detach(), dim=-1).mean()

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        (xb,) = batch
        views = [F.dropout(xb, 0.2) + 0.3 * torch.randn_like(xb) for _ in range(2)]
        (z1, p1), (z2, p2) = (model(v) for v in views)
        return (loss_fn(p1, z2) + loss_fn(p2, z1)) / 2

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1500]), 100, shuffle=True, drop_last=True),
        "loss_fn": similarity,
        "compute_loss": compute_loss,
        "optimizer": torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, weight_decay=1e-4),
    }


class _Patients(Dataset):
    def __init__(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        return {"features": self.x[i], "label": self.y[i]}


@pair(
    "The gradients are clipped while still multiplied by the scaler's 1024, and shrink to nothing when unscaled.",
    where="",
    source="TorchSSL/TorchSSL pull request 59: fix bug in gradient clipping; milesial/Pytorch-UNet pull request 470",
    accepted=("clipping-too-tight",),
)
def elm_scaled_gradients_clipped(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(15)
    x, y = load_breast_cancer(return_X_y=True)
    x, y = _scaled(x), torch.from_numpy(y).float()
    model = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(batch["features"])
        loss = loss_fn(logits.float(), batch["label"])
        scaler.scale(loss).backward()
        if not faulty:
            scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    return {
        "model": model,
        "loader": DataLoader(_Patients(x[:450], y[:450]), 30, shuffle=True),
        "val_loader": DataLoader(_Patients(x[450:], y[450:]), 60),
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": torch.optim.SGD(model.parameters(), 0.05, momentum=0.9),
        "train_step": train_step,
    }
