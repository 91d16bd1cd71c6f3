"""Sound programs with unusual objectives, fields and loops, in plain PyTorch."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.first_sight import sound
from sklearn.datasets import load_diabetes, load_digits
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset


def _digits() -> tuple[torch.Tensor, torch.Tensor]:
    x, y = load_digits(return_X_y=True)
    return torch.from_numpy((x / 16).astype("float32")), torch.from_numpy(y)


def _split(x: torch.Tensor, y: torch.Tensor, size: int = 50) -> tuple[DataLoader, DataLoader]:
    return DataLoader(TensorDataset(x[:1400], y[:1400]), size, shuffle=True), DataLoader(
        TensorDataset(x[1400:], y[1400:]), 100
    )


@sound("Sharpness-aware minimization: two passes a step, the first one climbs.", source="Foret et al. 2021")
def elm_sharpness_aware() -> dict[str, Any]:
    torch.manual_seed(0)
    loader, val = _split(*_digits())
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        x, y = batch
        loss = loss_fn(model(x), y)
        loss.backward()
        with torch.no_grad():
            norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm() + 1e-12
            climbs = [p.grad * (0.05 / norm) for p in model.parameters()]
            for p, e in zip(model.parameters(), climbs, strict=True):
                p.add_(e)
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        with torch.no_grad():
            for p, e in zip(model.parameters(), climbs, strict=True):
                p.sub_(e)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return {
        "model": model,
        "loader": loader,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.SGD(model.parameters(), 0.1, momentum=0.9),
        "train_step": train_step,
    }


@sound(
    "A physics-informed net for the heat equation, trained by L-BFGS with a closure; no data but the equation.",
    source="Raissi et al. 2019",
)
def elm_heat_equation() -> dict[str, Any]:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))
    points = torch.rand(256, 2)
    edge = torch.rand(64)

    def residuals(net: nn.Module, p: torch.Tensor) -> torch.Tensor:
        p = p.clone().requires_grad_()
        u = net(p)
        du = torch.autograd.grad(u.sum(), p, create_graph=True)[0]
        uxx = torch.autograd.grad(du[:, 0].sum(), p, create_graph=True)[0][:, 0]
        inside = ((du[:, 1] - 0.1 * uxx) ** 2).mean()
        start = (net(torch.stack([edge, 0 * edge], 1))[:, 0] - torch.sin(math.pi * edge)).pow(2).mean()
        sides = sum(net(torch.stack([torch.full_like(edge, s), edge], 1)).pow(2).mean() for s in (0.0, 1.0))
        return inside + start + sides

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = loss_fn(model, batch[0])
            loss.backward()
            return loss

        return optimizer.step(closure)

    return {
        "model": net,
        "loader": [(points,)],
        "loss_fn": residuals,
        "optimizer": torch.optim.LBFGS(net.parameters(), 0.5, max_iter=10, line_search_fn="strong_wolfe"),
        "train_step": train_step,
    }


@sound("MAML on sine waves: the loss is taken after an inner step, through functional_call.", source="Finn et al. 2017")
def elm_maml_sines() -> dict[str, Any]:
    class Sines(IterableDataset):
        def __iter__(self) -> Iterator[tuple[torch.Tensor, ...]]:
            for _ in range(200):
                a, b = torch.rand(()) * 4 + 0.5, torch.rand(()) * math.pi
                x = torch.rand(20, 1) * 10 - 5
                y = a * torch.sin(x + b)
                yield x[:10], y[:10], x[10:], y[10:]

    torch.manual_seed(2)
    net = nn.Sequential(nn.Linear(1, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 1))

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        total = 0.0
        for xs, ys, xq, yq in zip(*batch, strict=True):
            params = dict(model.named_parameters())
            for _ in range(2):
                inner = loss_fn(functional_call(model, params, (xs,)), ys)
                grads = torch.autograd.grad(inner, list(params.values()), create_graph=True)
                params = {k: p - 0.02 * g for (k, p), g in zip(params.items(), grads, strict=True)}
            total = total + loss_fn(functional_call(model, params, (xq,)), yq)
        return total / len(batch[0])

    return {
        "model": net,
        "loader": DataLoader(Sines(), 10),
        "loss_fn": nn.MSELoss(),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(net.parameters(), 2e-3),
    }


@sound(
    "Barlow Twins: the batch is normalized over itself and features are compared with features.",
    source="Zbontar et al. 2021",
)
def elm_barlow_twins() -> dict[str, Any]:
    torch.manual_seed(3)
    x, _ = _digits()
    net = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 32))

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        a, b = (model(F.dropout(batch[0], 0.2) + 0.1 * torch.randn_like(batch[0])) for _ in range(2))
        return loss_fn(a, b)

    def barlow(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a, b = ((t - t.mean(0)) / (t.std(0) + 1e-5) for t in (a, b))
        c = a.T @ b / len(a)
        on = (c.diagonal() - 1).pow(2).sum()
        return on + 0.01 * (c.pow(2).sum() - c.diagonal().pow(2).sum())

    return {
        "model": net,
        "loader": DataLoader(TensorDataset(x[:1500]), 100, shuffle=True, drop_last=True),
        "loss_fn": barlow,
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(net.parameters(), 2e-3),
    }


@sound(
    "Sliced score matching: the objective differentiates the score along random directions and goes below zero.",
    source="Song et al. 2019",
)
def elm_sliced_scores() -> dict[str, Any]:
    torch.manual_seed(5)
    x = torch.randn(2000, 3) @ torch.tensor([[1.0, 0.5, 0.0], [0.0, 0.7, 0.3], [0.0, 0.0, 0.5]])
    net = nn.Sequential(nn.Linear(3, 48), nn.Softplus(), nn.Linear(48, 3))

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        x = batch[0].clone().requires_grad_()
        v = torch.randn_like(x)
        score = model(x)
        (along,) = torch.autograd.grad((score * v).sum(), x, create_graph=True)
        return ((along * v).sum(1) + 0.5 * score.pow(2).sum(1)).mean()

    return {
        "model": net,
        "loader": DataLoader(TensorDataset(x), 100, shuffle=True),
        "loss_fn": None,
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(net.parameters(), 3e-3),
    }


@sound("Deep SVDD: every target is one fixed centre and the net has no biases.", source="Ruff et al. 2018")
def elm_one_class() -> dict[str, Any]:
    torch.manual_seed(6)
    x, y = _digits()
    normal = x[y == 3]
    net = nn.Sequential(nn.Linear(64, 32, bias=False), nn.LeakyReLU(0.1), nn.Linear(32, 8, bias=False))
    with torch.no_grad():
        centre = net(normal).mean(0)
        centre = torch.where(centre.abs() < 0.1, 0.1 * centre.sign(), centre)
    return {
        "model": net,
        "loader": DataLoader(TensorDataset(normal[:150]), 30, shuffle=True),
        "loss_fn": lambda z: ((z - centre) ** 2).sum(1).mean(),
        "compute_loss": lambda model, batch, loss_fn: loss_fn(model(batch[0])),
        "optimizer": torch.optim.Adam(net.parameters(), 1e-3, weight_decay=1e-4),
    }


@sound(
    "Noise2Noise: input and target are two noisy versions of one picture and the loss ends at the noise's variance.",
    source="Lehtinen et al. 2018",
)
def elm_noise_to_noise() -> dict[str, Any]:
    class Pairs(Dataset):
        def __init__(self, x: torch.Tensor) -> None:
            self.x = x

        def __len__(self) -> int:
            return len(self.x)

        def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
            return tuple(self.x[i] + 0.4 * torch.randn_like(self.x[i]) for _ in range(2))

    torch.manual_seed(7)
    x = _digits()[0].view(-1, 1, 8, 8)
    net = nn.Sequential(
        nn.Conv2d(1, 24, 3, 1, 1), nn.ReLU(), nn.Conv2d(24, 24, 3, 1, 1), nn.ReLU(), nn.Conv2d(24, 1, 3, 1, 1)
    )
    return {
        "model": net,
        "loader": DataLoader(Pairs(x[:1400]), 50, shuffle=True),
        "val_loader": DataLoader(Pairs(x[1400:]), 100),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(net.parameters(), 2e-3),
    }


class _Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return -0.3 * g


@sound(
    "Domain-adversarial training: a gradient is reversed on purpose between features and the domain head.",
    source="Ganin et al. 2016",
)
def elm_gradient_reversal() -> dict[str, Any]:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features = nn.Sequential(nn.Linear(64, 48), nn.ReLU())
            self.label, self.domain = nn.Linear(48, 10), nn.Sequential(nn.Linear(48, 16), nn.ReLU(), nn.Linear(16, 1))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            h = self.features(x)
            return self.label(h), self.domain(_Reverse.apply(h)).squeeze(1)

    torch.manual_seed(8)
    x, y = _digits()
    domain = (torch.arange(len(x)) % 2).float()
    x = x + domain[:, None] * 0.3 * torch.linspace(-1, 1, 64)
    known = torch.where(domain == 0, y, -100)

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        xb, yb, db = batch
        logits, where = model(xb)
        return loss_fn(logits, yb) + F.binary_cross_entropy_with_logits(where, db)

    model = Net()
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1400], known[:1400], domain[:1400]), 50, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1400:], y[1400:], domain[1400:]), 100),
        "loss_fn": nn.CrossEntropyLoss(ignore_index=-100),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), 2e-3),
    }


@sound(
    "Differentially private training: gradients per example by vmap, clipped each, noise added.",
    source="Abadi et al. 2016",
)
def elm_private_gradients() -> dict[str, Any]:
    torch.manual_seed(9)
    loader, val = _split(*_digits(), size=100)
    model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))

    def one(params: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(functional_call(model, params, (x[None],)), y[None])

    each = vmap(grad(one), in_dims=(None, 0, 0))

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        x, y = batch
        params = {k: p.detach() for k, p in model.named_parameters()}
        grads = each(params, x, y)
        norm = torch.stack([g.flatten(1).norm(dim=1) for g in grads.values()]).norm(dim=0)
        factor = (1.0 / (norm + 1e-6)).clamp(max=1.0)
        for name, p in model.named_parameters():
            clipped = torch.einsum("b,b...->...", factor, grads[name])
            p.grad = (clipped + 0.5 * torch.randn_like(p)) / len(x)
        optimizer.step()
        with torch.no_grad():
            return loss_fn(model(x), y)

    return {
        "model": model,
        "loader": loader,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.SGD(model.parameters(), 1.0, momentum=0.5),
        "train_step": train_step,
    }


@sound(
    "Direct preference optimization against a frozen copy; the loss starts at log 2 exactly.",
    source="Rafailov et al. 2023",
)
def elm_preferences() -> dict[str, Any]:
    class Policy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.emb, self.rnn, self.out = nn.Embedding(16, 24), nn.GRU(24, 32, batch_first=True), nn.Linear(32, 16)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            logits = self.out(self.rnn(self.emb(ids[:, :-1]))[0])
            return logits.log_softmax(-1).gather(2, ids[:, 1:, None]).sum((1, 2))

    torch.manual_seed(10)
    policy = Policy()
    reference = copy.deepcopy(policy).requires_grad_(False)
    a, b = torch.randint(0, 16, (1000, 10)), torch.randint(0, 16, (1000, 10))
    b[:, 0] = a[:, 0]
    better = (a % 2).sum(1) >= (b % 2).sum(1)
    won, lost = torch.where(better[:, None], a, b), torch.where(better[:, None], b, a)

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        won_ids, lost_ids = batch
        with torch.no_grad():
            rw, rl = reference(won_ids), reference(lost_ids)
        return loss_fn(0.2 * ((model(won_ids) - rw) - (model(lost_ids) - rl)))

    return {
        "model": policy,
        "loader": DataLoader(TensorDataset(won[:800], lost[:800]), 40, shuffle=True),
        "val_loader": DataLoader(TensorDataset(won[800:], lost[800:]), 100),
        "loss_fn": lambda margin: -F.logsigmoid(margin).mean(),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.AdamW(policy.parameters(), 2e-3),
    }


@sound(
    "Learning to rank: lists of documents with graded relevance, softmax over the list and not over classes.",
    source="Cao et al. 2007",
)
def elm_listwise_ranking() -> dict[str, Any]:
    torch.manual_seed(11)
    docs = torch.randn(500, 12, 8)
    relevance = (docs[..., 0] + docs[..., 1] * docs[..., 2] + 0.3 * torch.randn(500, 12)).clamp(0, 3).round()
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(-2))

    def list_net(scores: torch.Tensor, relevance: torch.Tensor) -> torch.Tensor:
        return -(relevance.softmax(1) * scores.log_softmax(1)).sum(1).mean()

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(docs[:400], relevance[:400]), 20, shuffle=True),
        "val_loader": DataLoader(TensorDataset(docs[400:], relevance[400:]), 50),
        "loss_fn": list_net,
        "optimizer": torch.optim.Adam(model.parameters(), 3e-3),
    }


@sound(
    "Skip-gram with negative sampling: two sparse embeddings, SparseAdam, most rows untouched by a batch.",
    source="Mikolov et al. 2013",
)
def elm_sparse_word_vectors() -> dict[str, Any]:
    class SkipGram(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.outer = nn.Embedding(400, 16, sparse=True), nn.Embedding(400, 16, sparse=True)
            nn.init.uniform_(self.inner.weight, -0.1, 0.1)
            nn.init.zeros_(self.outer.weight)

        def forward(self, centre: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
            return (self.inner(centre)[:, None] * self.outer(context)).sum(-1)

    torch.manual_seed(12)
    topics = torch.randint(0, 20, (8000,))
    centre, context = topics * 20 + torch.randint(0, 20, (8000,)), topics * 20 + torch.randint(0, 20, (8000,))

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        c, o = batch
        scores = model(c, torch.cat([o[:, None], torch.randint(0, 400, (len(c), 5))], 1))
        return loss_fn(scores, F.one_hot(torch.zeros_like(c), 6).float())

    model = SkipGram()
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(centre, context), 100, shuffle=True),
        "loss_fn": nn.BCEWithLogitsLoss(),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.SparseAdam(list(model.parameters()), 1e-2),
    }


@sound(
    "The forward-forward algorithm: each layer has a loss of its own and nothing is propagated between layers.",
    source="Hinton 2022",
)
def elm_forward_forward() -> dict[str, Any]:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(74, 96), nn.Linear(96, 96)])

        def goodness(self, x: torch.Tensor) -> list[torch.Tensor]:
            out = []
            for layer in self.layers:
                x = torch.relu(layer(x.detach() / (x.detach().norm(dim=1, keepdim=True) + 1e-4)))
                out.append(x.pow(2).mean(1))
            return out

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            tries = [torch.cat([F.one_hot(torch.full((len(x),), c), 10).float() * 3, x], 1) for c in range(10)]
            return torch.stack([torch.stack(self.goodness(t)).sum(0) for t in tries], 1)

    torch.manual_seed(13)
    loader, val = _split(*_digits())

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        x, y = batch
        wrong = (y + torch.randint(1, 10, y.shape)) % 10
        good = model.goodness(torch.cat([F.one_hot(y, 10).float() * 3, x], 1))
        bad = model.goodness(torch.cat([F.one_hot(wrong, 10).float() * 3, x], 1))
        return sum(F.softplus(torch.cat([0.5 - g, b - 0.5])).mean() for g, b in zip(good, bad, strict=True))

    model = Net()
    return {
        "model": model,
        "loader": loader,
        "val_loader": val,
        "loss_fn": None,
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), 1.5e-2),
    }


@sound(
    "Evolution strategies: no backward at all; the gradient is estimated from perturbed copies.",
    source="Salimans et al. 2017",
)
def elm_evolution_strategy() -> dict[str, Any]:
    torch.manual_seed(14)
    x, y = load_diabetes(return_X_y=True)
    x = torch.from_numpy(((x - x.mean(0)) / x.std(0)).astype("float32"))
    y = torch.from_numpy(((y - y.mean()) / y.std()).astype("float32"))
    model = nn.Sequential(nn.Linear(10, 4), nn.Tanh(), nn.Linear(4, 1), nn.Flatten(0))

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        xb, yb = batch
        with torch.no_grad():
            theta = nn.utils.parameters_to_vector(model.parameters())
            estimate = torch.zeros_like(theta)
            for _ in range(24):
                e = torch.randn_like(theta)
                for sign in (1, -1):
                    nn.utils.vector_to_parameters(theta + sign * 0.05 * e, model.parameters())
                    estimate += sign * e * loss_fn(model(xb), yb) / (0.1 * 24)
            nn.utils.vector_to_parameters(theta, model.parameters())
            at = 0
            for p in model.parameters():
                p.grad = estimate[at : at + p.numel()].view_as(p).clone()
                at += p.numel()
            optimizer.step()
            return loss_fn(model(xb), yb)

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:350], y[:350]), 70, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[350:], y[350:]), 92),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.SGD(model.parameters(), 0.05, momentum=0.8),
        "train_step": train_step,
    }


@sound("Multiple instance learning: a batch is one bag of any size with one label for all.", source="Ilse et al. 2018")
def elm_bags_of_instances() -> dict[str, Any]:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(64, 32), nn.ReLU())
            self.v, self.u, self.w = nn.Linear(32, 16), nn.Linear(32, 16), nn.Linear(16, 1)
            self.head = nn.Linear(32, 1)

        def forward(self, bag: torch.Tensor) -> torch.Tensor:
            h = self.body(bag.squeeze(0))
            a = self.w(torch.tanh(self.v(h)) * torch.sigmoid(self.u(h))).softmax(0)
            return self.head((a * h).sum(0, keepdim=True)).view(1)

    torch.manual_seed(15)
    x, y = _digits()
    bags = []
    for i in range(500):
        rows = torch.randint(0, len(x), (int(torch.randint(4, 12, ())),))
        rows = rows[y[rows] != 9] if i % 2 else torch.cat([rows, (y == 9).nonzero()[torch.randint(0, 100, (1,)), 0]])
        bags.append((x[rows if len(rows) else torch.tensor([0])], float((y[rows] == 9).any())))
    model = Attention()

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        bag, label = batch
        optimizer.zero_grad()
        loss = loss_fn(model(bag), label.float())
        loss.backward()
        optimizer.step()
        return loss

    return {
        "model": model,
        "loader": DataLoader(bags[:400], 1, shuffle=True),
        "val_loader": DataLoader(bags[400:], 1),
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), 1e-3),
        "train_step": train_step,
    }


@sound("Sets out: a net predicts three points in any order and the loss takes the best of six matchings.", source="")
def elm_unordered_points() -> dict[str, Any]:
    torch.manual_seed(16)
    points = torch.rand(1500, 3, 2)
    grid = torch.stack(torch.meshgrid(torch.linspace(0, 1, 12), torch.linspace(0, 1, 12), indexing="ij"), -1).view(
        -1, 2
    )
    images = torch.exp(-((grid[None, None] - points[:, :, None]) ** 2).sum(-1) * 60).sum(1)
    orders = torch.tensor(list(itertools.permutations(range(3))))
    model = nn.Sequential(nn.Linear(144, 128), nn.ReLU(), nn.Linear(128, 6), nn.Unflatten(1, (3, 2)))

    def best_matching(pred: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        cost = (pred[:, None] - target[:, orders]).abs().sum((2, 3))
        return cost.min(1).values.mean()

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(images[:1300], points[:1300]), 50, shuffle=True),
        "val_loader": DataLoader(TensorDataset(images[1300:], points[1300:]), 100),
        "loss_fn": best_matching,
        "optimizer": torch.optim.Adam(model.parameters(), 2e-3),
    }


@sound(
    "Binary weights: signs forward, a straight-through estimate backward, latent weights clamped after each step.",
    source="Courbariaux et al. 2016",
)
def elm_binary_weights() -> dict[str, Any]:
    class Sign(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, w: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(w)
            return torch.where(w >= 0, 1.0, -1.0)

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            (w,) = ctx.saved_tensors
            return g * (w.abs() <= 1)

    class Binary(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.linear(x, Sign.apply(self.weight), self.bias)

    torch.manual_seed(17)
    loader, val = _split(*_digits())
    model = nn.Sequential(Binary(64, 128), nn.BatchNorm1d(128), nn.Hardtanh(), Binary(128, 10), nn.BatchNorm1d(10))

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for layer in model:
                if isinstance(layer, Binary):
                    layer.weight.clamp_(-1, 1)
        return loss

    return {
        "model": model,
        "loader": loader,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), 5e-3),
        "train_step": train_step,
    }


@sound(
    "A linear-chain CRF that returns its loss: a log partition by dynamic programming; transitions start at zero.",
    source="Lafferty et al. 2001",
)
def elm_linear_chain_crf() -> dict[str, Any]:
    class CRF(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.emit = nn.Sequential(nn.Embedding(30, 16), nn.Linear(16, 5))
            self.move = nn.Parameter(torch.zeros(5, 5))

        def forward(self, tokens: torch.Tensor, tags: torch.Tensor) -> torch.Tensor:
            e = self.emit(tokens)
            alpha = e[:, 0]
            for t in range(1, e.shape[1]):
                alpha = torch.logsumexp(alpha[:, :, None] + self.move, 1) + e[:, t]
            gold = e.gather(2, tags[..., None]).sum((1, 2)) + self.move[tags[:, :-1], tags[:, 1:]].sum(1)
            return (alpha.logsumexp(1) - gold).mean()

    torch.manual_seed(19)
    tags = torch.zeros(900, 12, dtype=torch.long)
    tags[:, 0] = torch.randint(0, 5, (900,))
    for t in range(1, 12):
        tags[:, t] = torch.where(torch.rand(900) < 0.8, (tags[:, t - 1] + 1) % 5, torch.randint(0, 5, (900,)))
    tokens = torch.where(
        torch.rand(900, 12) < 0.5, tags * 6 + torch.randint(0, 6, (900, 12)), torch.randint(0, 30, (900, 12))
    )
    model = CRF()
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(tokens[:800], tags[:800]), 40, shuffle=True),
        "val_loader": DataLoader(TensorDataset(tokens[800:], tags[800:]), 50),
        "loss_fn": None,
        "compute_loss": lambda model, batch, loss_fn: model(*batch),
        "optimizer": torch.optim.Adam(model.parameters(), 1e-2),
    }
