"""One loss in every shape of program: a plain pair, `compute_loss`, a model with its own loss, a bare training step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

__all__ = ["SHAPES", "Named", "program"]

SHAPES = ("plain", "compute_loss", "own_loss", "train_step")
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Named(Dataset[dict[str, torch.Tensor]]):
    """Samples as dicts."""

    def __init__(self, **columns: torch.Tensor) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {name: column[index] for name, column in self.columns.items()}


class WithLoss(nn.Module):
    """A model that returns its loss beside its logits, whose last layer is a product of its own."""

    def __init__(self, net: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.net, self.loss = net, loss

    def forward(self, x: torch.Tensor, label: torch.Tensor | None = None) -> Any:
        """Return a loss where there is a label."""
        output = self.net(x) * 1.0
        return output if label is None else {"loss": self.loss(output, label), "logits": output}


def program(shape: str, net: nn.Module, x: torch.Tensor, y: torch.Tensor, loss: Loss, size: int = 32) -> dict[str, Any]:
    """Return the same model, data and loss as a program of this shape."""
    if shape == "plain":
        return {"model": net, "loader": DataLoader(TensorDataset(x, y), size, shuffle=True), "loss_fn": loss}
    loader = DataLoader(Named(x=x, label=y), size, shuffle=True)
    if shape == "own_loss":
        return {"model": WithLoss(net, loss), "loader": loader}
    if shape == "compute_loss":
        return {"model": net, "loader": loader, "compute_loss": lambda m, batch, _: loss(m(batch["x"]), batch["label"])}

    def step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> float:
        optimizer.zero_grad()
        value = loss(model(batch["x"]), batch["label"])
        value.backward()
        optimizer.step()
        return float(value)

    return {"model": net, "loader": loader, "train_step": step, "optimizer": torch.optim.Adam(net.parameters(), 1e-3)}
