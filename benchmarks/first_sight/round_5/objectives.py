"""Metric learning, distillation, generative models, RL, graphs, forecasting, speech."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from benchmarks.first_sight import pair
from sklearn.datasets import load_digits, make_moons
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset


def _digits() -> tuple[torch.Tensor, torch.Tensor]:
    x, y = load_digits(return_X_y=True)
    return torch.from_numpy((x / 16).astype("float32")), torch.from_numpy(y)


class _Signatures(Dataset):
    """Two pictures and 1 if genuine (of one writer), 0 if forged."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor, n: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.x, self.rows = x, []
        by_class = [np.flatnonzero(y.numpy() == c) for c in range(10)]
        for _ in range(n):
            a, genuine = rng.integers(len(y)), rng.integers(2)
            c = int(y[a])
            other = c if genuine else (c + rng.integers(1, 10)) % 10
            self.rows.append((int(a), int(rng.choice(by_class[other])), int(genuine)))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        a, b, genuine = self.rows[i]
        return self.x[a], self.x[b], torch.tensor(float(genuine))


class ContrastiveLoss(nn.Module):
    def __init__(self, margin: float, one_means_same: bool) -> None:
        super().__init__()
        self.margin, self.one_means_same = margin, one_means_same

    def forward(self, z1: torch.Tensor, z2: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        distance = F.pairwise_distance(z1, z2)
        near, far = distance**2, (self.margin - distance).clamp(min=0) ** 2
        if self.one_means_same:
            return (y * near + (1 - y) * far).mean()
        return ((1 - y) * near + y * far).mean()


@pair(
    "The data say 1 for a genuine pair, the loss takes 1 for a forged one: it draws different writers together.",
    where="loss_fn",
    source="VinhLoiIT/signet-pytorch issue 2: Your loss Implementation might be wrong",
    accepted=("loss-sign-flipped",),
)
def elm_genuine_pairs_pushed_apart(faulty: bool) -> dict[str, Any]:
    """Right would also be: the labels are inverted."""
    torch.manual_seed(0)
    x, y = _digits()
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        a, b, genuine = batch
        optimizer.zero_grad()
        loss = loss_fn(model(a), model(b), genuine)
        loss.backward()
        optimizer.step()
        return loss

    return {
        "model": net,
        "loader": DataLoader(_Signatures(x[:1400], y[:1400], 1500, 0), 50, shuffle=True),
        "val_loader": DataLoader(_Signatures(x[1400:], y[1400:], 300, 1), 100),
        "loss_fn": ContrastiveLoss(1.5, one_means_same=not faulty),
        "optimizer": torch.optim.Adam(net.parameters(), 1e-3),
        "train_step": train_step,
    }


class Distiller(nn.Module):
    def __init__(self, teacher: nn.Module, student: nn.Module) -> None:
        super().__init__()
        self.teacher, self.student = teacher.requires_grad_(False).eval(), student

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.student(x)


@pair(
    "kl_div is given the student's probabilities instead of log probabilities.",
    where="",
    source="microsoft/ProDA issues 20 and 43: The kl_div loss of self distillation",
    accepted=("probabilities-into-nll", "wrong-loss-for-task"),
)
def elm_kl_div_of_probabilities(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(1)
    x, y = _digits()
    teacher = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(teacher.parameters(), 5e-3)
    for _ in range(60):
        optimizer.zero_grad()
        F.cross_entropy(teacher(x[:1300]), y[:1300]).backward()
        optimizer.step()
    model = Distiller(teacher, nn.Sequential(nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10)))

    def compute_loss(model: Any, batch: Any, loss_fn: Any) -> torch.Tensor:
        (xb,) = batch
        logits = model(xb)
        with torch.no_grad():
            soft = F.softmax(model.teacher(xb) / 2, dim=1)
        student = F.softmax(logits / 2, dim=1) if faulty else F.log_softmax(logits / 2, dim=1)
        return loss_fn(student, soft)

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1300]), 50, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1300:]), 100),
        "loss_fn": nn.KLDivLoss(reduction="batchmean"),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.SGD(model.student.parameters(), 0.1, momentum=0.9),
    }


class VectorQuantizer(nn.Module):
    def __init__(self, entries: int, dim: int) -> None:
        super().__init__()
        self.codebook = nn.Embedding(entries, dim)
        nn.init.uniform_(self.codebook.weight, -1 / entries, 1 / entries)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            indices = torch.cdist(x, self.codebook.weight).argmin(1)
        z = self.codebook(indices)
        return x + (z - x).detach(), z


class VQVAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4 * 8))
        self.vq = VectorQuantizer(32, 8)
        self.decoder = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        z_e = self.encoder(x).view(-1, 8)
        z_q, z = self.vq(z_e)
        return self.decoder(z_q.view(len(x), 32)), z_e, z_q, z


@pair(
    "The codebook loss is taken on the straight-through output, where the codebook is detached: it is never trained.",
    where="vq.codebook",
    source="showlab/Olaf-World issue 8: VQLAM: codebook never receives gradients",
    accepted=("untrained-parameters", "loss-term-without-gradient", "frozen-parameters"),
)
def elm_codebook_behind_straight_through(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(2)
    x, _ = _digits()
    model = VQVAE()

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        (xb,) = batch
        recon, z_e, z_q, z = model(xb)
        codebook = loss_fn(z_q if faulty else z, z_e.detach())
        commitment = loss_fn(z_e, z.detach())
        return loss_fn(recon, xb) + 0.5 * codebook + commitment

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1500]), 50, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1500:]), 100),
        "loss_fn": nn.MSELoss(),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), 2e-3),
    }


class Denoiser(nn.Module):
    def __init__(self, steps: int) -> None:
        super().__init__()
        self.time = nn.Embedding(steps, 16)
        self.net = nn.Sequential(nn.Linear(18, 96), nn.SiLU(), nn.Linear(96, 96), nn.SiLU(), nn.Linear(96, 2))

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return self.net(torch.cat([x, self.time(t)], 1))


class DDPM:
    def __init__(self, model: Denoiser, steps: int, variance_for_deviation: bool) -> None:
        self.model, self.steps = model, steps
        self.betas = torch.linspace(1e-3, 0.2, steps)
        self.alpha_bar = (1 - self.betas).cumprod(0)
        self.variance_for_deviation = variance_for_deviation

    def forward_process(self, x0: torch.Tensor, t: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        a = self.alpha_bar[t][:, None]
        spread = (1 - a) if self.variance_for_deviation else (1 - a).sqrt()
        return a.sqrt() * x0 + spread * noise

    def compute_loss(self, model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        (x0,) = batch
        t = torch.randint(0, self.steps, (len(x0),))
        noise = torch.randn_like(x0)
        return loss_fn(model(self.forward_process(x0, t, noise), t), noise)

    @torch.no_grad()
    def sample(self, n: int) -> torch.Tensor:
        x = torch.randn(n, 2)
        for t in range(self.steps - 1, -1, -1):
            eps = self.model(x, torch.full((n,), t))
            x = (x - self.betas[t] / (1 - self.alpha_bar[t]).sqrt() * eps) / (1 - self.betas[t]).sqrt()
            if t:
                x = x + self.betas[t].sqrt() * torch.randn_like(x)
        return x


@pair(
    "The noise is multiplied by its variance instead of its standard deviation.",
    where="",
    source="acids-ircam/diffusion_models issue 1: multiply the noise by the sqrt of beta, not beta",
    accepted=(),
)
def elm_noise_scaled_by_variance(faulty: bool) -> dict[str, Any]:
    """Right would be: the noised samples have another variance than the schedule says (not variance preserving)."""
    torch.manual_seed(3)
    x = torch.from_numpy(make_moons(3000, noise=0.05, random_state=0)[0].astype("float32"))
    x = (x - x.mean(0)) / x.std(0)
    model = Denoiser(30)
    ddpm = DDPM(model, 30, faulty)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x), 100, shuffle=True),
        "loss_fn": nn.MSELoss(),
        "compute_loss": ddpm.compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), 2e-3),
    }


def _corridor(n: int, seed: int) -> TensorDataset:
    """Transitions of a corridor of ten cells: right end pays 1, left end pays 0.3, both end the episode."""
    rng = np.random.default_rng(seed)
    state, action = rng.integers(1, 9, n), rng.integers(0, 2, n)
    after = state + 2 * action - 1
    reward = np.where(after == 9, 1.0, np.where(after == 0, 0.3, -0.02)).astype("float32")
    done = ((after == 0) | (after == 9)).astype("float32")
    # a finished episode is reset before the next observation is stored, as vectorised environments do
    after = np.where(done > 0, 5, after)
    eye = np.eye(10, dtype="float32")
    arrays = (eye[state], action, reward, eye[after], done)
    return TensorDataset(*(torch.from_numpy(a) for a in arrays))


class DQN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))
        self.target = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2)).requires_grad_(False)
        self.target.load_state_dict(self.q.state_dict())

    def forward(self, s: torch.Tensor) -> torch.Tensor:
        return self.q(s)


@pair(
    "The target bootstraps past terminal states: done is not used.",
    where="",
    source="navneet-nmk/pytorch-rl issue 2: 'Done' not used in calculating Q-value targets",
    accepted=(),
)
def elm_bootstraps_past_the_end(faulty: bool) -> dict[str, Any]:
    """Right would be: one field of the batch (done) has no part in the loss; the targets are values without an end."""
    torch.manual_seed(4)
    agent = DQN()
    gamma = 0.95

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        s, a, r, s2, done = batch
        with torch.no_grad():
            best = model.target(s2).max(1).values
            wanted = r + gamma * best if faulty else r + gamma * best * (1 - done)
        loss = loss_fn(model(s).gather(1, a[:, None])[:, 0], wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for p, q in zip(model.target.parameters(), model.q.parameters(), strict=True):
                p.lerp_(q, 0.05)
        return loss

    return {
        "model": agent,
        "loader": DataLoader(_corridor(3000, 0), 64, shuffle=True),
        "loss_fn": nn.SmoothL1Loss(),
        "optimizer": torch.optim.Adam(agent.q.parameters(), 2e-3),
        "train_step": train_step,
    }


@pair(
    "The ratios are multiplied by the mean advantage of the batch, not each by its own.",
    where="",
    source="Omegastick/pytorch-cpp-rl issue 14: Typos in some ppo equations",
    accepted=(),
)
def elm_ratio_times_mean_advantage(faulty: bool) -> dict[str, Any]:
    """Right would be: the policy's loss doesn't depend on which action got which advantage."""
    torch.manual_seed(5)
    policy = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 4))
    matrix = torch.randn(6, 4)

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        (state,) = batch
        with torch.no_grad():
            old = torch.distributions.Categorical(logits=model(state))
            action = old.sample()
            old_log_prob = old.log_prob(action)
            reward = (state @ matrix).gather(1, action[:, None])[:, 0] + 0.1 * torch.randn(len(state))
            advantages = (reward - reward.mean()) / (reward.std() + 1e-5)
        total = 0.0
        for _ in range(3):
            dist = torch.distributions.Categorical(logits=model(state))
            ratio = (dist.log_prob(action) - old_log_prob).exp()
            if faulty:
                surr_1 = ratio * advantages.mean()
                surr_2 = ratio.clamp(0.8, 1.2) * advantages.mean()
            else:
                surr_1 = ratio * advantages
                surr_2 = ratio.clamp(0.8, 1.2) * advantages
            loss = -torch.min(surr_1, surr_2).mean() - 0.005 * dist.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() / 3
        return torch.tensor(total)

    g = torch.Generator().manual_seed(9)
    return {
        "model": policy,
        "loader": DataLoader(TensorDataset(torch.randn(4000, 6, generator=g)), 100, shuffle=True),
        "loss_fn": None,
        "optimizer": torch.optim.Adam(policy.parameters(), 3e-3),
        "train_step": train_step,
    }


def _edge_softmax(scores: torch.Tensor, index: torch.Tensor, n: int) -> torch.Tensor:
    e = (scores - scores.max()).exp()
    return e / (torch.zeros(n).index_add(0, index, e)[index] + 1e-16)


class GATLayer(nn.Module):
    def __init__(self, inputs: int, outputs: int, over_sources: bool) -> None:
        super().__init__()
        self.over_sources = over_sources
        self.lin = nn.Linear(inputs, outputs, bias=False)
        self.att_src, self.att_dst = (nn.Parameter(torch.randn(outputs) * 0.2) for _ in range(2))

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        source, target = edge_index
        h = self.lin(x)
        scores = F.leaky_relu((h * self.att_src).sum(1)[source] + (h * self.att_dst).sum(1)[target], 0.2)
        alpha = _edge_softmax(scores, source if self.over_sources else target, len(x))
        return torch.zeros_like(h).index_add(0, target, alpha[:, None] * h[source])


class GAT(nn.Module):
    def __init__(self, inputs: int, classes: int, over_sources: bool) -> None:
        super().__init__()
        self.one, self.two = GATLayer(inputs, 16, over_sources), GATLayer(16, classes, over_sources)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.two(F.elu(self.one(x, edge_index)), edge_index)


def _citations(seed: int) -> dict[str, torch.Tensor]:
    """A directed graph with hubs: a node's class shows in the mean of those that it hears from."""
    rng = np.random.default_rng(seed)
    n = 500
    y = rng.integers(0, 4, n)
    fame = rng.pareto(1.2, n) + 0.1
    edges = []
    for target in range(n):
        same = np.where(y == y[target], 4.0, 1.0) * fame
        degree = rng.choice([2, 3, 30])
        for source in rng.choice(n, degree, replace=False, p=same / same.sum()):
            edges.append((source, target))
        edges.append((target, target))
    x = np.eye(4)[y] + rng.normal(0, 1.3, (n, 4))
    x = np.concatenate([x, rng.normal(0, 1, (n, 4))], 1)
    return {
        "x": torch.from_numpy(x.astype("float32")),
        "edge_index": torch.tensor(edges).T,
        "y": torch.from_numpy(y),
        "train_mask": torch.from_numpy(rng.random(n) < 0.4),
    }


@pair(
    "The attention of a graph layer is normalised over each edge's source instead of its target.",
    where="one",
    source="pyg-team/pytorch_geometric issue 224: softmax wrong index in the GATConv and AGNNConv implementation?",
    accepted=("attention-over-wrong-dim", "softmax-over-wrong-dim", "normalize-over-wrong-dim"),
)
def elm_edge_softmax_over_sources(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(6)
    graph = _citations(1)
    model = GAT(8, 4, faulty)

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        mask = batch["train_mask"]
        return loss_fn(model(batch["x"], batch["edge_index"])[mask], batch["y"][mask])

    return {
        "model": model,
        "loader": [graph],
        "loss_fn": nn.CrossEntropyLoss(),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), 1e-2, weight_decay=5e-4),
    }


class GraphNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w1, self.w2 = nn.Linear(6, 32), nn.Linear(32, 32)
        self.out = nn.Linear(32, 2)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        source, target = edge_index
        h = torch.relu(self.w1(torch.zeros_like(x).index_add(0, target, x[source]) + x))
        h = torch.relu(self.w2(torch.zeros_like(h).index_add(0, target, h[source]) + h))
        graphs = int(batch.max()) + 1
        return self.out(torch.zeros(graphs, 32).index_add(0, batch, h) / 10)


def _molecules(n: int, seed: int) -> list[tuple[torch.Tensor, torch.Tensor, int]]:
    """Is an atom of kind 0 bound to one of kind 1 (or only present beside it)?"""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(n):
        size = int(rng.integers(6, 11))
        kinds = rng.integers(2, 6, size)
        order = rng.permutation(size)
        chain = [(order[i], order[i + 1]) for i in range(size - 1)]
        label = int(rng.integers(2))
        first = int(rng.integers(size - 3))
        kinds[order[first]] = 0
        kinds[order[first + 1 if label else first + 3]] = 1
        edges = torch.tensor(chain + [(b, a) for a, b in chain]).T
        out.append((torch.eye(6)[torch.from_numpy(kinds)], edges, label))
    return out


def _collate_graphs(offset: bool) -> Any:
    def collate(items: list[Any]) -> dict[str, torch.Tensor]:
        sizes = [len(x) for x, _, _ in items]
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]) if offset else np.zeros(len(items), int)
        return {
            "x": torch.cat([x for x, _, _ in items]),
            "edge_index": torch.cat([e + int(s) for (_, e, _), s in zip(items, starts, strict=True)], 1),
            "batch": torch.repeat_interleave(torch.arange(len(items)), torch.tensor(sizes)),
            "y": torch.tensor([y for _, _, y in items]),
        }

    return collate


@pair(
    "When graphs are joined to a batch their edges keep the numbers of single graphs, and all fall on the first one.",
    where="batch['edge_index']",
    source="ai4co/rl4co issue 227 and deepchem/deepchem pull request 3291: edge_index not adjusted for batching",
    accepted=("batch-mixing",),
)
def elm_edges_without_node_offset(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(7)
    model = GraphNet()
    collate = _collate_graphs(offset=not faulty)

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        return loss_fn(model(batch["x"], batch["edge_index"], batch["batch"]), batch["y"])

    return {
        "model": model,
        "loader": DataLoader(_molecules(800, 0), 32, shuffle=True, collate_fn=collate),
        "val_loader": DataLoader(_molecules(200, 1), 50, collate_fn=collate),
        "loss_fn": nn.CrossEntropyLoss(),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), 5e-3),
    }


class _Series(Dataset):
    """Windows of a series: 24 encoder steps, 6 decoder steps with known covariates."""

    def __init__(self, start: int, stop: int, leak: bool) -> None:
        rng = np.random.default_rng(0)
        t = np.arange(1400)
        noise = np.zeros(1400)
        for i in range(1, 1400):
            noise[i] = 0.9 * noise[i - 1] + 0.5 * rng.normal()
        self.series = torch.from_numpy((np.sin(t * 2 * np.pi / 24) + noise).astype("float32"))
        self.hour = torch.from_numpy(np.stack([np.sin(t * 2 * np.pi / 24), np.cos(t * 2 * np.pi / 24)], 1)).float()
        self.start, self.stop, self.leak = start, stop, leak

    def __len__(self) -> int:
        return self.stop - self.start - 30

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        a, b, c = self.start + i, self.start + i + 24, self.start + i + 30
        past = torch.cat([self.series[a:b, None], self.hour[a:b]], 1)
        known = self.series[b:c, None] if self.leak else self.series[b - 1].expand(6, 1)
        return {"encoder": past, "decoder": torch.cat([known, self.hour[b:c]], 1), "target": self.series[b:c]}


class Forecaster(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.GRU(3, 24, batch_first=True), nn.GRU(3, 24, batch_first=True)
        self.output = nn.Linear(24, 1)

    def forward(self, encoder: torch.Tensor, decoder: torch.Tensor) -> torch.Tensor:
        _, state = self.encoder(encoder)
        return self.output(self.decoder(decoder, state)[0]).squeeze(-1)


@pair(
    "The decoder's inputs contain the target of the very step that it is to forecast.",
    where="batch['decoder']",
    source="sktime/pytorch-forecasting issue 182: Is there leakage?",
    accepted=("target-leaks-into-inputs",),
)
def elm_decoder_is_fed_the_target(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(8)
    model = Forecaster()

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        return loss_fn(model(batch["encoder"], batch["decoder"]), batch["target"])

    return {
        "model": model,
        "loader": DataLoader(_Series(0, 1000, faulty), 32, shuffle=True),
        "val_loader": DataLoader(_Series(1000, 1400, faulty), 64),
        "loss_fn": nn.L1Loss(),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), 3e-3),
    }


class CRNN(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(8, 32, 3, padding=1), nn.BatchNorm1d(32), nn.ReLU())
        self.rnn = nn.GRU(32, 32, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(64, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.conv(x).transpose(1, 2)
        return F.log_softmax(self.fc(self.rnn(h)[0]), -1).transpose(0, 1)


class _Lines(Dataset):
    """Strips of 20 columns with three to five characters of an alphabet of six."""

    def __init__(self, n: int, seed: int) -> None:
        glyphs = np.random.default_rng(11).normal(0, 1, (6, 8, 3))
        rng = np.random.default_rng(seed)
        self.items = []
        for _ in range(n):
            text = rng.integers(0, 6, rng.integers(3, 6))
            strip = rng.normal(0, 0.3, (8, 20))
            for k, char in enumerate(text):
                at = 4 * k + rng.integers(0, 2)
                strip[:, at : at + 3] += glyphs[char]
            self.items.append((torch.from_numpy(strip.astype("float32")), torch.from_numpy(text)))

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.items[i]


@pair(
    "CTC's blank is index 0, which is also the first letter of the alphabet; the last output was meant for it.",
    where="loss_fn",
    source="liuhu-bigeye/enctc.crnn issue 9: Case of non zero blank",
    accepted=("blank-in-targets",),
)
def elm_blank_is_a_letter(faulty: bool) -> dict[str, Any]:
    torch.manual_seed(9)
    model = CRNN(7)

    def collate(items: list[Any]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        strips, texts = zip(*items, strict=True)
        return torch.stack(strips), torch.cat(texts), torch.tensor([len(t) for t in texts])

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        strips, texts, lengths = batch
        log_probs = model(strips)
        return loss_fn(log_probs, texts, torch.full((len(strips),), log_probs.shape[0]), lengths)

    return {
        "model": model,
        "loader": DataLoader(_Lines(500, 0), 25, shuffle=True, collate_fn=collate),
        "val_loader": DataLoader(_Lines(100, 1), 50, collate_fn=collate),
        "loss_fn": nn.CTCLoss(blank=0 if faulty else 6, zero_infinity=True),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), 3e-3),
    }
