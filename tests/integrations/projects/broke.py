"""A training that worked before: one set-up that learns and one that does not."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

RATE = 5e-3


def made(rate, batch):
    print("from a program")
    torch.manual_seed(0)
    x = torch.randn(400, 6, generator=torch.Generator().manual_seed(1))
    data = TensorDataset(x, (x[:, 0] + x[:, 1] > 0).long())
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    loader = DataLoader(data, batch, shuffle=True)
    return {"model": model, "loader": loader, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


def good():
    return made(RATE, 32)


def bad():
    return made(1e-8, 40)


def crash():
    return made(1 / 0, 32)


def metric(model, batches):
    right = [(model(x).argmax(1) == y).float().mean() for x, y in batches]
    return float(torch.stack(right).mean())
