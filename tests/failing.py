"""Cells that fail, one for each kind of torch's errors, and what has to be said: the place, the shapes, what fits."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FAILURES", "PREPARE", "Failure"]

PREPARE = """
import torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.head = nn.Linear(8, 3)
    def forward(self, x):
        h = self.body(x).tanh()
        if self.training:
            h += 1
        return self.head(h)
model = Net().eval()
x, y = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
"""


@dataclass(frozen=True)
class Failure:
    """A cell, the kind of its error, and words of its explanation."""

    kind: str
    code: str
    said: tuple[str, ...]


FAILURES = (
    Failure(
        "shape", "model(torch.randn(6, 5))", ("fails in `body` (Linear)", "(6, 5) float32", "in_features=5 (it is 4)")
    ),
    Failure(
        "device",
        "model(x.to('meta'))",  # the one device besides the CPU that every machine has
        ("fails in `body` (Linear)", "parameters are on cpu, and it received tensors on meta", "x.to(device)"),
    ),
    Failure("dtype", "model(x.double())", ("fails in `body` (Linear)", "(6, 4) float64", "Possible fix: x.float()")),
    Failure(
        "label",
        "nn.functional.cross_entropy(model(x), y + 1)",
        ("The loss fails in `loss_fn` (cross_entropy)", "labels range from 1 to 3", "(6, 3)", "target - 1"),
    ),
    Failure(
        "in-place",
        "model.train()(x).sum().backward()",
        ("The backward pass fails", "shape (6, 8) that tanh returned", "h += 1 in model", "x = x + y"),
    ),
    Failure(
        "nan",
        "with torch.no_grad():\n    model.head.weight[1] /= 0\nloss = model(x).mean()\nassert torch.isfinite(loss)",
        ("AssertionError.", "head.weight", "assert torch.isfinite(loss)", "expect(finite=True)"),
    ),
)
