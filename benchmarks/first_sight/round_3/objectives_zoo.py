"""Objectives beyond cross entropy: survival, distillation, metric learning, ranking, quantiles, counts."""

import random
from collections import defaultdict

import numpy as np
import torch
from sklearn.datasets import load_digits, make_classification
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

from benchmarks.first_sight import pair


def to_float(*arrays):
    return [torch.as_tensor(np.ascontiguousarray(a), dtype=torch.float32) for a in arrays]


# ======================= survival =======================


def cox_loss(log_hz, event, time, by_index=False):
    order = torch.argsort(time)
    log_hz, event = log_hz.squeeze(-1)[order], event[order]
    log_denominator = torch.logcumsumexp(log_hz.flip(0), dim=0).flip(0)
    pll = log_hz - log_denominator
    if by_index:
        picked = pll[event]
    else:
        picked = pll[event.bool()]
    return -picked.mean()


@pair(
    "the event indicator is an integer tensor and used as an index: the loss only repeats the first two subjects of each batch",
    where="",
    source="Novartis/torchsurv issue 117: Cox partial likelihood doesn't seem to index over all events",
    accepted=("training-fails", "training-slow", "inputs-ignored"),
)
def obj_cox_events(faulty: bool) -> dict:
    torch.manual_seed(31)
    rng = np.random.RandomState(0)
    x = rng.randn(2000, 10)
    risk = 1.2 * x[:, 0] - 0.8 * x[:, 1] + 0.8 * x[:, 2] * (x[:, 3] > 0)
    t = rng.exponential(1 / np.exp(risk))
    c = rng.exponential(np.median(t) * 3, size=2000)
    time, event = np.minimum(t, c), (t <= c).astype(np.int64)
    x, time = to_float(x, time)
    event = torch.as_tensor(event)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 1))

    def compute_loss(model, batch, loss_fn):
        xb, eb, tb = batch
        return loss_fn(model(xb), eb, tb, by_index=faulty)

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1600], event[:1600], time[:1600]), batch_size=100, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1600:], event[1600:], time[1600:]), batch_size=100),
        "loss_fn": cox_loss,
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


# ======================= distillation =======================


@pair(
    "the soft loss compares the teacher with itself: the student's logits do not appear in it",
    where="",
    source="labmlai/annotated_deep_learning_paper_implementations issue 66: small error in distillation code",
    accepted=("loss-not-differentiable", "loss-terms-unbalanced"),
)
def obj_distill_self(faulty: bool) -> dict:
    torch.manual_seed(32)
    d = load_digits()
    x = torch.tensor(d.data / 16.0, dtype=torch.float32)
    clean = torch.tensor(d.target)
    teacher = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    opt = torch.optim.Adam(teacher.parameters(), lr=5e-3)
    for _ in range(80):
        opt.zero_grad()
        F.cross_entropy(teacher(x[:1400]), clean[:1400]).backward()
        opt.step()
    teacher.requires_grad_(False).eval()
    g = torch.Generator().manual_seed(2)
    weak = torch.where(torch.rand(len(clean), generator=g) < 0.5, torch.randint(0, 10, clean.shape, generator=g), clean)
    student = nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10))
    temperature, alpha = 3.0, 0.9

    def compute_loss(model, batch, loss_fn):
        data, target = batch
        output = model(data)
        with torch.no_grad():
            large_logits = teacher(data)
        large_prob = F.log_softmax(large_logits / temperature, dim=-1)
        small_logits = large_logits if faulty else output
        prob = F.log_softmax(small_logits / temperature, dim=-1)
        soft = F.kl_div(prob, large_prob, reduction="batchmean", log_target=True)
        hard = loss_fn(output, target)
        return alpha * temperature**2 * soft + (1 - alpha) * hard

    return {
        "model": student,
        "loader": DataLoader(TensorDataset(x[:1400], weak[:1400]), batch_size=64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1400:], clean[1400:]), batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(student.parameters(), lr=3e-3),
    }


# ======================= metric learning =======================


class TwoViews(Dataset):
    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def view(self, img):
        img = torch.roll(img, (random.randint(-1, 1), random.randint(-1, 1)), dims=(0, 1))
        return img * random.uniform(0.7, 1.3) + 0.1 * torch.randn_like(img)

    def __getitem__(self, i):
        return self.view(self.images[i]), self.view(self.images[i])


def nt_xent(z, temperature=0.2):
    """z holds the first views of the batch, then the second views."""
    n = z.shape[0] // 2
    z = F.normalize(z, dim=1)
    sim = z @ z.t() / temperature
    sim.fill_diagonal_(-1e4)
    partner = torch.cat([torch.arange(n, 2 * n), torch.arange(n)])
    return F.cross_entropy(sim, partner)


@pair(
    "the two views are interleaved (a1 b1 a2 b2), but the loss takes row i + n for the partner of row i",
    where="",
    source="threads on SimCLR re-implementations where the order of the views and the index of the positives disagree",
    accepted=("labels-unrelated-to-inputs", "training-fails", "cannot-overfit-batch"),
)
def obj_ntxent_order(faulty: bool) -> dict:
    torch.manual_seed(33)
    random.seed(33)
    images = torch.tensor(load_digits().images / 16.0, dtype=torch.float32)
    encoder = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 32)
    )

    def compute_loss(model, batch, loss_fn):
        a, b = batch
        if faulty:
            views = torch.stack([a, b], dim=1).flatten(0, 1)
        else:
            views = torch.cat([a, b], dim=0)
        return loss_fn(model(views))

    return {
        "model": encoder,
        "loader": DataLoader(TwoViews(images[:1500]), batch_size=64, shuffle=True, drop_last=True),
        "val_loader": DataLoader(TwoViews(images[1500:]), batch_size=64, drop_last=True),
        "loss_fn": nt_xent,
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(encoder.parameters(), lr=1e-3),
    }


class TripletDigits(Dataset):
    def __init__(self, x, y, seed):
        self.x, self.y = x, y
        self.by_class = defaultdict(list)
        for i, c in enumerate(y.tolist()):
            self.by_class[c].append(i)
        self.rng = random.Random(seed)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        c = int(self.y[i])
        other = self.rng.choice([k for k in self.by_class if k != c])
        return self.x[i], self.x[self.rng.choice(self.by_class[c])], self.x[self.rng.choice(self.by_class[other])]


@pair(
    "cosine similarities are put into the triplet margin as if they were distances, so negatives are pulled closer",
    where="",
    source="forum threads about a triplet loss written with F.cosine_similarity in place of a distance",
    accepted=("loss-sign-flipped",),
)
def obj_triplet_similarity(faulty: bool) -> dict:
    torch.manual_seed(34)
    d = load_digits()
    x, y = torch.tensor(d.data / 16.0, dtype=torch.float32), torch.tensor(d.target)
    net = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 16))

    def score(a, b):
        sim = F.cosine_similarity(a, b, dim=-1)
        return sim if faulty else 1 - sim

    def compute_loss(model, batch, loss_fn):
        anchor, positive, negative = (model(part) for part in batch)
        return F.relu(score(anchor, positive) - score(anchor, negative) + 0.3).mean()

    return {
        "model": net,
        "loader": DataLoader(TripletDigits(x[:1400], y[:1400], 0), batch_size=64, shuffle=True),
        "val_loader": DataLoader(TripletDigits(x[1400:], y[1400:], 1), batch_size=64),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(net.parameters(), lr=1e-3),
    }


# ======================= recommendation and ranking =======================


class BPRPairs(Dataset):
    def __init__(self, liked, n_items, keep_if_liked, seed=0):
        self.pairs = [(u, i) for u, items in enumerate(liked) for i in items]
        self.liked, self.n_items, self.keep_if_liked = [set(s) for s in liked], n_items, keep_if_liked
        self.rng = random.Random(seed)

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, k):
        u, i = self.pairs[k]
        j = self.rng.randrange(self.n_items)
        while (j in self.liked[u]) != self.keep_if_liked:
            j = self.rng.randrange(self.n_items)
        return u, i, j


class MatrixFactorization(nn.Module):
    def __init__(self, users, items, dim=16):
        super().__init__()
        self.user, self.item = nn.Embedding(users, dim), nn.Embedding(items, dim)
        self.item_bias = nn.Embedding(items, 1)
        nn.init.normal_(self.user.weight, std=0.1)
        nn.init.normal_(self.item.weight, std=0.1)
        nn.init.zeros_(self.item_bias.weight)

    def forward(self, u, i):
        return (self.user(u) * self.item(i)).sum(-1) + self.item_bias(i).squeeze(-1)


@pair(
    "the membership test of the negative sampler is inverted: the 'negatives' are items that the user has liked",
    where="loader",
    source="gamboviol/bpr issue 2 (membership test in sample_negative_item) and threads on BPR negative sampling",
    accepted=("labels-unrelated-to-inputs", "noisy-labels", "training-fails", "cannot-overfit-batch"),
)
def obj_bpr_negatives(faulty: bool) -> dict:
    torch.manual_seed(35)
    rng = np.random.RandomState(5)
    pu, qi = rng.randn(120, 4), rng.randn(80, 4)
    affinity = pu @ qi.T + 0.3 * rng.randn(120, 80)
    liked = [list(np.argsort(-row)[:14]) for row in affinity]
    model = MatrixFactorization(120, 80)

    def bpr_loss(model, batch, loss_fn):
        u, i, j = batch
        return -F.logsigmoid(model(u, i) - model(u, j)).mean()

    return {
        "model": model,
        "loader": DataLoader(BPRPairs(liked, 80, keep_if_liked=faulty), batch_size=64, shuffle=True),
        "compute_loss": bpr_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-5),
    }


@pair(
    "the softmax of the listwise loss runs over the queries of the batch instead of the documents of a query",
    where="",
    source="forum threads on ListNet: softmax with dim=0 on (queries, documents)",
    accepted=("softmax-over-wrong-dim", "batch-mixing", "loss-depends-on-order"),
)
def obj_listnet_axis(faulty: bool) -> dict:
    torch.manual_seed(36)
    g = torch.Generator().manual_seed(0)
    docs = torch.randn(1200, 10, 8, generator=g)
    query_effect = 6 * torch.randn(1200, 1, generator=g)
    docs[..., 7] = query_effect + 0.1 * torch.randn(1200, 10, generator=g)
    gain = docs[..., 0] - docs[..., 1] * docs[..., 2] + query_effect
    model = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 1))
    axis = 0 if faulty else 1

    def listnet(scores, relevance):
        return -(F.softmax(relevance, dim=axis) * F.log_softmax(scores, dim=axis)).sum(axis).mean()

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(docs[:1000], gain[:1000]), batch_size=40, shuffle=True),
        "val_loader": DataLoader(TensorDataset(docs[1000:], gain[1000:]), batch_size=40),
        "loss_fn": listnet,
        "compute_loss": lambda model, batch, loss_fn: loss_fn(model(batch[0]).squeeze(-1), batch[1]),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


# ======================= quantiles, imbalance, counts =======================


class PinballLoss(nn.Module):
    def __init__(self, quantiles, reverse=False):
        super().__init__()
        self.register_buffer("q", torch.tensor(quantiles))
        self.reverse = reverse

    def forward(self, pred, target):
        err = pred - target[:, None] if self.reverse else target[:, None] - pred
        return torch.maximum(self.q * err, (self.q - 1) * err).mean()


@pair(
    "the error in the pinball loss has the wrong sign: the 90% head learns the 10% quantile",
    where="loss_fn",
    source="forum threads on quantile regression: upper bound below the lower bound, prediction minus target in the pinball loss",
    accepted=(),
)
def obj_pinball_sign(faulty: bool) -> dict:
    torch.manual_seed(37)
    rng = np.random.RandomState(2)
    x = rng.uniform(-2, 2, size=(2000, 3))
    y = np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] + (0.2 + 0.4 * np.abs(x[:, 2])) * rng.gumbel(size=2000)
    x, y = to_float(x, y)
    model = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1700], y[:1700]), batch_size=64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1700:], y[1700:]), batch_size=100),
        "loss_fn": PinballLoss([0.1, 0.9], reverse=faulty),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


class BinaryFocalLoss(nn.Module):
    def __init__(self, alpha, gamma=2.0):
        super().__init__()
        self.alpha, self.gamma = alpha, gamma

    def forward(self, logits, target):
        bce = F.binary_cross_entropy_with_logits(logits.squeeze(-1), target, reduction="none")
        pt = torch.exp(-bce)
        weight = torch.where(target == 1, self.alpha, 1 - self.alpha)
        return (weight * (1 - pt) ** self.gamma * bce).mean()


@pair(
    "alpha of the focal loss is the frequency of the rare class: its samples weigh 6% instead of 94%",
    where="loss_fn",
    source="threads on focal loss re-implementations with alpha applied to the wrong class",
    accepted=("class-weights-inverted", "class-imbalance"),
)
def obj_focal_alpha(faulty: bool) -> dict:
    torch.manual_seed(38)
    x, y = make_classification(4000, 20, n_informative=8, weights=[0.94], class_sep=0.8, flip_y=0.0, random_state=4)
    x, y = to_float(x, y)
    positive_rate = float(y.mean())
    model = nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Linear(48, 1))
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:3200], y[:3200]), batch_size=64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[3200:], y[3200:]), batch_size=200),
        "loss_fn": BinaryFocalLoss(alpha=positive_rate if faulty else 1 - positive_rate),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
        "class_names": ["regular", "fraud"],
    }


class RateNet(nn.Module):
    """Expected number of calls per hour."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 48), nn.SiLU(), nn.Linear(48, 1))

    def forward(self, x):
        return F.softplus(self.body(x)).squeeze(-1)


@pair(
    "PoissonNLLLoss takes its input for a log rate (log_input=True by default), the network returns the rate itself",
    where="loss_fn",
    source="forum threads on nn.PoissonNLLLoss with a softplus or exp at the end of the model and the default log_input",
    accepted=("wrong-loss-for-task", "clamped-output"),
)
def obj_poisson_log_input(faulty: bool) -> dict:
    torch.manual_seed(39)
    rng = np.random.RandomState(8)
    x = rng.randn(3000, 6)
    rate = np.exp(-0.4 + 0.9 * x[:, 0] - 0.6 * x[:, 1] * x[:, 2])
    y = rng.poisson(np.minimum(rate, 30))
    x, y = to_float(x, y)
    model = RateNet()
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:2500], y[:2500]), batch_size=50, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[2500:], y[2500:]), batch_size=100),
        "loss_fn": nn.PoissonNLLLoss() if faulty else nn.PoissonNLLLoss(log_input=False),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }
