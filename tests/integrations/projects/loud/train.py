"""A program that writes to standard output wherever it can."""

import os
import subprocess
import sys

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from loud.net import Net

print("from print")


def make_setup():
    os.write(1, b"from the system\n")
    subprocess.run(["echo", "from a process"], check=True)
    sys.__stdout__.write('{"jsonrpc": "2.0", "id": 1, "result": {}}\n')
    sys.__stdout__.flush()
    torch.manual_seed(0)
    digits = load_digits()
    data = TensorDataset(torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target))
    model = Net()
    return {
        "model": model,
        "loader": DataLoader(data, batch_size=32, shuffle=True),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }
