from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.first_sight import pair
from benchmarks.first_sight.round_2._held_helpers import batches, digit_tables, mlp


@pair(
    "gradients are accumulated over eight micro-batches without dividing the loss by eight: the effective learning rate is eight times too high",
    where="train_step",
    source="https://github.com/hirofumi0810/neural_sp/issues/168; deepinsight/insightface#2258; ApolloResearch/e2e_sae#70",
    accepted=("learning-rate-too-high",),
)
def digits_accumulation(broken: bool) -> dict:
    torch.manual_seed(11)
    xa, xb, ya, yb = digit_tables(flat=False)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )
    micro = 8

    def train_step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        total = 0.0
        pieces = list(zip(batch[0].chunk(micro), batch[1].chunk(micro)))
        for x, y in pieces:
            loss = loss_fn(model(x), y)
            (loss if broken else loss / len(pieces)).backward()
            total += loss.item() / len(pieces)
        optimizer.step()
        return total

    return {
        "model": model,
        "loader": batches(xa, ya),
        "val_loader": batches(xb, yb, train=False),
        "loss_fn": nn.CrossEntropyLoss(),
        "train_step": train_step,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
    }


class HalfNet(nn.Module):
    def __init__(self, pure):
        super().__init__()
        self.net, self.pure = mlp(64, 256, 128, 10), pure
        if pure:
            self.net.to(torch.bfloat16)

    def forward(self, x):
        if self.pure:
            return self.net(x.to(torch.bfloat16)).float()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.net(x).float()


@pair(
    "the weights themselves are bfloat16: with this learning rate most updates are smaller than half the spacing of the numbers and are rounded away",
    where="net",
    source="https://github.com/workofart/ml-by-hand/pull/85; pytorch/ao#1124; hp-l33/AiM#10",
)
def digits_pure_bf16(broken: bool) -> dict:
    torch.manual_seed(11)
    xa, xb, ya, yb = digit_tables()
    model = HalfNet(pure=broken)
    return {
        "model": model,
        "loader": batches(xa, ya, size=32),
        "val_loader": batches(xb, yb, train=False),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=1.5e-4, weight_decay=0.0),
    }


@pair(
    "the learning-rate schedule is meant in epochs but is stepped after every batch: the rate is gone after one epoch",
    where="train_step",
    source="https://github.com/Lornatang/SRGAN-PyTorch/issues/1; ivadomed/ivadomed#55",
    accepted=("schedule-reaches-zero",),
)
def digits_schedule_per_batch(broken: bool) -> dict:
    torch.manual_seed(11)
    xa, xb, ya, yb = digit_tables()
    loader = batches(xa, ya)
    model = mlp(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4, gamma=0.5)
    seen = {"batches": 0}

    def train_step(model, batch, loss_fn, optimizer):
        x, y = batch
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        seen["batches"] += 1
        if broken or seen["batches"] % len(loader) == 0:
            scheduler.step()
        return loss.item()

    return {
        "model": model,
        "loader": loader,
        "val_loader": batches(xb, yb, train=False),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "train_step": train_step,
    }


class ActorCritic(nn.Module):
    def __init__(self, features, actions):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(features, 64), nn.Tanh())
        self.actor, self.critic = nn.Linear(64, actions), nn.Linear(64, 1)

    def forward(self, x):
        h = self.trunk(x)
        return self.actor(h), self.critic(h)


@pair(
    "log_prob has shape (batch,) and the advantage (batch, 1): their product is batch x batch and the policy gradient averages out",
    where="train_step",
    source="https://github.com/thu-ml/tianshou/pull/155; PacktPublishing/Deep-Reinforcement-Learning-Hands-On#33",
    accepted=("incompatible-target-shape",),
)
def thermostat_actor_critic(broken: bool) -> dict:
    torch.manual_seed(11)
    rng = np.random.default_rng(11)
    n = 1400
    state = rng.normal(0, 1, (n, 6))
    want = np.stack([state[:, 0], -state[:, 0], state[:, 1] + 0.5 * state[:, 2]], 1)
    payoff = np.tanh(want) + rng.normal(0, 0.1, want.shape)
    model = ActorCritic(6, 3)

    def train_step(model, batch, loss_fn, optimizer):
        state, payoff = batch
        logits, value = model(state)
        dist = torch.distributions.Categorical(logits=logits)
        action = dist.sample()
        reward = payoff.gather(1, action.unsqueeze(1))
        advantage = reward - value
        log_prob = dist.log_prob(action) if broken else dist.log_prob(action).unsqueeze(1)
        actor_loss = -(log_prob * advantage.detach()).mean()
        critic_loss = advantage.pow(2).mean()
        loss = actor_loss + 0.5 * critic_loss - 0.01 * dist.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return {
        "model": model,
        "loader": batches(state, payoff, size=128),
        "train_step": train_step,
        "optimizer": torch.optim.Adam(model.parameters(), lr=5e-3),
    }


@pair(
    "F.kl_div is given probabilities where it wants log-probabilities, so the distillation loss is negative and is no divergence",
    where="compute_loss",
    source="https://github.com/microsoft/ProDA/issues/20; sebastian-hofstaetter/matchmaker#18",
    accepted=("probabilities-into-nll",),
)
def digits_distillation(broken: bool) -> dict:
    torch.manual_seed(11)
    xa, xb, ya, yb = digit_tables()
    teacher = mlp(64, 192, 10)
    opt = torch.optim.Adam(teacher.parameters(), lr=2e-3, weight_decay=1e-4)
    xt, yt = torch.tensor(xa), torch.tensor(ya)
    for _ in range(200):
        take = torch.randint(0, len(xt), (64,))
        opt.zero_grad()
        F.cross_entropy(teacher(xt[take]), yt[take], label_smoothing=0.05).backward()
        opt.step()
    teacher.eval().requires_grad_(False)
    student, heat = mlp(64, 24, 10), 2.0

    def compute_loss(model, batch, loss_fn=None):
        x = batch[0]
        with torch.no_grad():
            soft = F.softmax(teacher(x) / heat, dim=1)
        out = model(x) / heat
        out = F.softmax(out, dim=1) if broken else F.log_softmax(out, dim=1)
        return F.kl_div(out, soft, reduction="batchmean") * heat**2

    return {
        "model": student,
        "loader": batches(xa, ya),
        "val_loader": batches(xb, yb, train=False),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(student.parameters(), lr=3e-3),
    }
