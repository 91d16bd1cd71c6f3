"""Training loops and optimizers: value learning, adapters, schedules, mixed precision, physics, quantization, Gaussian processes."""

import argparse
import copy
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_diabetes, load_digits, load_wine
from sklearn.preprocessing import StandardScaler
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.first_sight import pair


def digits_tensors():
    d = load_digits()
    perm = np.random.RandomState(11).permutation(len(d.data))
    return torch.tensor(d.data[perm] / 16.0, dtype=torch.float32), torch.tensor(d.target[perm])


# --------------------------------------------------------------------------- reinforcement learning


class QNet(nn.Module):
    def __init__(self, states=12, actions=2):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(states, 64), nn.ReLU(), nn.Linear(64, actions))

    def forward(self, s):
        return self.net(s)


def corridor_transitions(n=3000, length=12, seed=0):
    """Walk left or right on a corridor; a reward of 1 at the right end, where the episode ends."""
    rng = np.random.RandomState(seed)
    s = rng.randint(0, length, n)
    a = rng.randint(0, 2, n)
    s2 = np.clip(s + np.where(a == 1, 1, -1), 0, length - 1)
    done = (s2 == length - 1) & (a == 1)
    eye = torch.eye(length)
    return TensorDataset(eye[s], torch.tensor(a), torch.tensor(done, dtype=torch.float32), eye[s2], torch.tensor(done))


@pair(
    "the target network is refreshed from its own state dict and stays at its random initialization",
    where="target",
    source="thesouther/MARL issue 8: target network update bug",
    accepted=("moving-average-wrong",),
)
def loop_dqn_target(faulty: bool) -> dict:
    torch.manual_seed(41)
    policy_net = QNet()
    target_net = copy.deepcopy(policy_net).requires_grad_(False)
    networks = {"policy": policy_net, "target": target_net}
    counter = {"steps": 0}
    gamma, refresh_every = 0.9, 20

    def train_step(model, batch, loss_fn, optimizer):
        s, a, r, s2, done = batch
        q = model["policy"](s).gather(1, a[:, None]).squeeze(1)
        with torch.no_grad():
            best = model["target"](s2).max(1).values
            y = r + gamma * best * (~done).float()
        loss = loss_fn(q, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        counter["steps"] += 1
        if counter["steps"] % refresh_every == 0:
            source = model["target"] if faulty else model["policy"]
            model["target"].load_state_dict(source.state_dict())
        return loss

    return {
        "model": networks,
        "loader": DataLoader(corridor_transitions(), batch_size=64, shuffle=True),
        "loss_fn": nn.SmoothL1Loss(),
        "optimizer": torch.optim.Adam(policy_net.parameters(), lr=2e-3),
        "train_step": train_step,
    }


class ActorCritic(nn.Module):
    def __init__(self, obs=6, actions=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, 64), nn.Tanh())
        self.pi, self.v = nn.Linear(64, actions), nn.Linear(64, 1)

    def forward(self, obs):
        h = self.body(obs)
        return self.pi(h), self.v(h)


@pair(
    "returns of shape (B,) minus values of shape (B, 1) broadcast to (B, B): every action is judged by the returns of all the others",
    where="",
    source="automl/Mighty pull request 126: critic values were broadcast to (1, B, B) in the PPO update",
    accepted=("incompatible-target-shape", "batch-mixing"),
)
def loop_actor_critic_shapes(faulty: bool) -> dict:
    torch.manual_seed(42)
    g = torch.Generator().manual_seed(1)
    obs = torch.randn(3000, 6, generator=g)
    action = torch.randint(0, 4, (3000,), generator=g)
    best = (obs[:, 0] > 0).long() * 2 + (obs[:, 1] > 0).long()
    returns = (action == best).float() * 2 + 0.8 * obs[:, 2] + 0.1 * torch.randn(3000, generator=g)
    model = ActorCritic()

    def compute_loss(model, batch, loss_fn):
        obs, action, ret = batch
        logits, value = model(obs)
        if not faulty:
            value = value.squeeze(-1)
        advantage = ret - value
        logp = torch.distributions.Categorical(logits=logits).log_prob(action)
        ratio = torch.exp(logp - math.log(0.25))
        clipped = torch.clamp(ratio, 0.5, 2.0)
        adv = advantage.detach()
        policy_loss = -torch.min(ratio * adv, clipped * adv).mean()
        return policy_loss + 0.5 * advantage.pow(2).mean()

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(obs, action, returns), batch_size=64, shuffle=True),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
    }


# --------------------------------------------------------------------------- adapters


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, r=4, alpha=8):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_A = nn.Parameter(torch.empty(r, base.in_features))
        self.lora_B = nn.Parameter(torch.empty(base.out_features, r))
        self.scaling = alpha / r
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))
        nn.init.zeros_(self.lora_B)

    def forward(self, x):
        return self.base(x) + (x @ self.lora_A.t() @ self.lora_B.t()) * self.scaling


def wipe_adapters(module):
    for name, p in module.named_parameters():
        if "lora_" in name:
            nn.init.zeros_(p)


@pair(
    "a later initialization sets lora_A to zero as well: with both factors at zero neither of them ever gets a gradient",
    where="0.lora_A",
    source="nvidia-cosmos/cosmos-predict2.5 pull request 15: lora_A initialized with zeros, no training",
    accepted=(
        "untrained-parameters",
        "loss-flat",
        "training-fails",
        "symmetric-initialization",
        "cannot-overfit-batch",
    ),
)
def loop_lora_zeros(faulty: bool) -> dict:
    torch.manual_seed(43)
    x, y = digits_tensors()
    base = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
    warm = torch.optim.Adam(base.parameters(), lr=5e-3)
    for _ in range(60):
        warm.zero_grad()
        F.cross_entropy(base(x[:1400]), y[:1400]).backward()
        warm.step()
    # the new task: the same digits, mirrored
    mirrored = x.view(-1, 8, 8).flip(2).reshape(-1, 64)
    model = nn.Sequential(LoRALinear(base[0]), nn.ReLU(), LoRALinear(base[2]))
    if faulty:
        wipe_adapters(model)
    trainable = [p for p in model.parameters() if p.requires_grad]
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(mirrored[:1400], y[:1400]), batch_size=64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(mirrored[1400:], y[1400:]), batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.AdamW(trainable, lr=5e-3),
    }


# --------------------------------------------------------------------------- rates and schedules


@pair(
    "the second positional argument of the optimizer is the learning rate, and the weight decay is passed there",
    where="optimizer",
    source="offbit/evo-design issue 3: the weight_decay parameter is used instead of the lr one",
    accepted=("learning-rate-too-low", "update-ratio-off", "training-slow", "training-fails"),
)
def loop_decay_for_rate(faulty: bool) -> dict:
    args = argparse.Namespace(lr=2e-3, weight_decay=1e-6, batch_size=32, seed=44)
    torch.manual_seed(args.seed)
    wine = load_wine()
    x = torch.tensor(StandardScaler().fit_transform(wine.data), dtype=torch.float32).repeat(4, 1)
    x = x + 0.2 * torch.randn_like(x)
    y = torch.tensor(wine.target).repeat(4)
    model = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 3))
    if faulty:
        optimizer = torch.optim.Adam(model.parameters(), args.weight_decay)
    else:
        optimizer = torch.optim.Adam(model.parameters(), args.lr, weight_decay=args.weight_decay)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, y), batch_size=args.batch_size, shuffle=True),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
    }


@pair(
    "StepLR with a step size in epochs is stepped after every batch: the rate is gone within an epoch",
    where="scheduler",
    source="forum threads on scheduler.step() inside the batch loop with a schedule that is meant in epochs",
    accepted=("schedule-unit-wrong", "schedule-reaches-zero"),
)
def loop_steplr_per_batch(faulty: bool) -> dict:
    torch.manual_seed(45)
    x, y = digits_tensors()
    x = x.view(-1, 1, 8, 8)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.3)
    loader = DataLoader(TensorDataset(x[:1400], y[:1400]), batch_size=32, shuffle=True)
    seen = [0]

    def train_step(model, batch, loss_fn, optimizer):
        images, labels = batch
        optimizer.zero_grad()
        loss = loss_fn(model(images), labels)
        loss.backward()
        optimizer.step()
        seen[0] += 1
        if faulty or seen[0] % len(loader) == 0:
            scheduler.step()
        return loss

    return {
        "model": model,
        "loader": loader,
        "val_loader": DataLoader(TensorDataset(x[1400:], y[1400:]), batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "train_step": train_step,
    }


@pair(
    "gradients are clipped before scaler.unscale_: the norm of the scaled gradient is cut to 1, unscaling leaves almost nothing",
    where="",
    source="forum threads on GradScaler with clip_grad_norm_ and a missing unscale_",
    accepted=("clipping-without-effect", "clipping-too-tight", "learning-rate-too-low"),
)
def loop_amp_clip(faulty: bool) -> dict:
    torch.manual_seed(46)
    x, y = digits_tensors()
    model = nn.Sequential(nn.Linear(64, 128), nn.LayerNorm(128), nn.GELU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14)

    def train_step(model, batch, loss_fn, optimizer):
        inputs, targets = batch
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(inputs), targets)
        scaler.scale(loss).backward()
        if not faulty:
            scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1400], y[:1400]), batch_size=64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1400:], y[1400:]), batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "train_step": train_step,
    }


@pair(
    "the loop sums up the loss tensors for its progress bar, so every graph since the start is kept",
    where="",
    source="forum threads on memory that grows with total_loss += loss; PyTorch FAQ",
    accepted=("graph-kept-alive",),
)
def loop_running_loss(faulty: bool) -> dict:
    torch.manual_seed(47)
    d = load_diabetes()
    x = torch.tensor(StandardScaler().fit_transform(d.data), dtype=torch.float32)
    y = torch.tensor((d.target - d.target.mean()) / d.target.std(), dtype=torch.float32)[:, None]
    model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 1))

    class Progress:
        def __init__(self):
            self.total, self.count = 0.0, 0

        def update(self, value):
            self.total = self.total + value
            self.count += 1

    progress = Progress()

    def train_step(model, batch, loss_fn, optimizer):
        features, target = batch
        loss = loss_fn(model(features), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        progress.update(loss if faulty else loss.item())
        return loss

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, y), batch_size=26, shuffle=True),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
        "train_step": train_step,
    }


# --------------------------------------------------------------------------- physics


class OscillatorNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, t):
        return self.net(t)


@pair(
    "the derivative of the network is taken with retain_graph only, so the term that fits the slopes has no gradient",
    where="",
    source="pytorch issue 31984: how to predict the derivative of the output, loss_z.grad_fn is None",
    accepted=("missing-create-graph",),
)
def loop_slope_fit(faulty: bool) -> dict:
    torch.manual_seed(48)
    t = torch.linspace(-2, 2, 600)[torch.randperm(600)][:, None]
    z = 3 * torch.cos(3 * t) - t.sin()
    y = torch.sin(3 * t) + t.cos()
    known = torch.zeros_like(t)
    known[:12] = 1.0
    model = OscillatorNet()

    def compute_loss(model, batch, loss_fn):
        t, y, z, known = batch
        t = t.clone().requires_grad_(True)
        u = model(t)
        (du,) = torch.autograd.grad(u.sum(), t, retain_graph=True, create_graph=not faulty)
        data = (known * (u - y) ** 2).sum() / known.sum().clamp(min=1)
        return data + loss_fn(du, z)

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(t, y, z, known), batch_size=100, shuffle=True),
        "loss_fn": nn.MSELoss(),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


# --------------------------------------------------------------------------- quantization


def fake_quant(x, bits, straight_through):
    levels = 2**bits - 1
    clipped = x.clamp(0, 1)
    q = torch.round(clipped * levels) / levels
    return clipped + (q - clipped).detach() if straight_through else q


class QuantizedMLP(nn.Module):
    def __init__(self, straight_through, bits=3):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10)
        self.straight_through, self.bits = straight_through, bits

    def forward(self, x):
        x = fake_quant(self.fc1(x), self.bits, self.straight_through)
        x = fake_quant(self.fc2(x), self.bits, self.straight_through)
        return self.fc3(x)


@pair(
    "activations are rounded without a straight-through estimator: only the last layer learns",
    where="fc1",
    source="threads on quantization-aware training: torch.round has a zero gradient",
    accepted=("untrained-parameters", "vanishing-gradients"),
)
def loop_qat_round(faulty: bool) -> dict:
    torch.manual_seed(49)
    x, y = digits_tensors()
    model = QuantizedMLP(straight_through=not faulty)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:1400], y[:1400]), batch_size=64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[1400:], y[1400:]), batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


# --------------------------------------------------------------------------- Gaussian process


@pair(
    "the optimizer gets the kernel's parameters only: the noise of the likelihood and the mean keep their defaults",
    where="likelihood.noise_covar.raw_noise",
    source="gpytorch issues and discussions: optimizer = Adam(model.covar_module.parameters()) leaves the noise at its start value",
    accepted=("parameters-missing-from-optimizer",),
)
def loop_gp_noise(faulty: bool) -> dict:
    import gpytorch

    torch.manual_seed(50)
    x = torch.linspace(0, 1, 200)
    y = 4 + torch.sin(x * 9) + 0.1 * torch.randn(200)

    class ExactGP(gpytorch.models.ExactGP):
        def __init__(self, train_x, train_y, likelihood):
            super().__init__(train_x, train_y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = ExactGP(x, y, likelihood)
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)

    def compute_loss(model, batch, loss_fn):
        inputs, targets = batch
        return -mll(model(inputs), targets)

    params = model.covar_module.parameters() if faulty else model.parameters()
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, y), batch_size=200, shuffle=False),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(params, lr=0.05),
    }
