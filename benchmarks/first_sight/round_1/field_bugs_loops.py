"""Reinforcement learning and training loops with one fault each, after real issues."""

from __future__ import annotations

import copy

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.first_sight import pair
from benchmarks.first_sight.round_1.fdev_data import digits_images

# -- Bellman target with a plus ---------------------------------------------------------------------------------------


class DQN(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.online = nn.Sequential(nn.Linear(n, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
        self.target = copy.deepcopy(self.online).requires_grad_(False)

    def forward(self, s):
        return self.online(s)


def chain_replay(n=1500, length=9, seed=0):
    """Random moves (left, stay, right) on a chain; a reward of 1 and the end at its right, the end without reward at its left."""
    r = np.random.RandomState(seed)
    s = r.randint(1, length - 1, size=n)
    a = r.randint(3, size=n)
    s2 = s + a - 1
    done = (s2 == 0) | (s2 == length - 1)
    reward = (s2 == length - 1).astype(np.float32)
    eye = np.eye(length, dtype=np.float32)
    t = torch.tensor
    return TensorDataset(t(eye[s]), t(a), t(reward), t(eye[s2]), t(done.astype(np.float32)))


@pair(
    "the target is reward + gamma * mask + V(next) with a plus for the times: nothing is discounted, the end is not cut off and values grow",
    where="compute_loss",
    source="ikostrikov/pytorch-ddpg-naf#16",
)
def dqn_target_plus_for_times(broken: bool) -> dict:
    torch.manual_seed(0)
    model = DQN(9)
    gamma = 0.9

    def td_loss(model, batch, loss_fn):
        s, a, r, s2, done = batch
        q = model(s).gather(1, a.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            nxt = model.target(s2).max(1).values
            mask = 1 - done
            expected = r + gamma * mask + nxt if broken else r + gamma * mask * nxt
        return loss_fn(q, expected)

    def train_step(model, batch, loss_fn, optimizer):
        model.train()
        loss = td_loss(model, batch, loss_fn)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for p, q in zip(model.target.parameters(), model.online.parameters()):
                p.lerp_(q, 0.05)
        return loss

    return {
        "model": model,
        "loader": DataLoader(chain_replay(), batch_size=64, shuffle=True),
        "loss_fn": nn.SmoothL1Loss(),
        "optimizer": torch.optim.Adam(model.online.parameters(), lr=1e-3),
        "train_step": train_step,
        "compute_loss": td_loss,
    }


# -- zero_grad in each micro-batch --------------------------------------------------------------------------------------


@pair(
    "zero_grad is called for each micro-batch, so the step uses a quarter of the gradient: that of the last micro-batch, divided by four",
    where="train_step",
    source="bytetriper/RAE#67; pytorch/torchtitan pull request 3575",
    accepted=("gradients-discarded",),
)
def zero_grad_each_microbatch(broken: bool) -> dict:
    torch.manual_seed(0)
    (x, y), (vx, vy) = digits_images()
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    accumulate = 4

    def train_step(model, batch, loss_fn, optimizer):
        model.train()
        total = 0.0
        optimizer.zero_grad(set_to_none=True)
        for xb, yb in zip(batch[0].chunk(accumulate), batch[1].chunk(accumulate)):
            if broken:
                optimizer.zero_grad(set_to_none=True)
            loss = loss_fn(model(xb), yb) / accumulate
            loss.backward()
            total = total + loss.detach()
        optimizer.step()
        return total

    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True, drop_last=True),
        "val_loader": DataLoader(TensorDataset(vx, vy), batch_size=100),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "train_step": train_step,
    }
