"""Healthy set-ups on graphs as tutorials write them: many small graphs in one."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from tests.examples import healthy
from tests.zoo.samples import setup


def molecules(count: int = 400) -> list[dict[str, Any]]:
    """Return small graphs whose value is the share of their edges that join unlike atoms."""
    draw = np.random.default_rng(34)
    made = []
    for _ in range(count):
        atoms = int(draw.integers(5, 12))
        kind = draw.random(atoms) < draw.random()
        pairs = np.array([(i, j) for i in range(atoms) for j in range(i) if draw.random() < 0.4] or [(1, 0)])
        edges = np.concatenate([pairs, pairs[:, ::-1]]).T
        value = float((kind[pairs[:, 0]] != kind[pairs[:, 1]]).mean())
        x = F.one_hot(torch.tensor(kind).long(), 2).float()
        made.append({"x": x, "edges": torch.tensor(edges.copy()), "y": torch.tensor(value)})
    return made


def one_graph(graphs: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """Put many graphs into one that falls apart into them."""
    sizes = torch.tensor([len(g["x"]) for g in graphs])
    offsets = sizes.cumsum(0) - sizes
    return {
        "x": torch.cat([g["x"] for g in graphs]),
        "edges": torch.cat([g["edges"] + o for g, o in zip(graphs, offsets, strict=True)], 1),
        "graph": torch.repeat_interleave(torch.arange(len(graphs)), sizes),
        "y": torch.stack([g["y"] for g in graphs]),
    }


class GraphNet(nn.Module):
    """Two rounds of messages and a mean over each graph."""

    def __init__(self, width: int = 32, rounds: int = 2, mean: bool = True) -> None:
        super().__init__()
        self.mean, self.first = mean, nn.Linear(2, width)
        self.rounds = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(rounds))
        self.head = nn.Linear(width, 1)

    def gather(self, values: torch.Tensor, where: torch.Tensor, count: int) -> torch.Tensor:
        """Add up, and divide where the mean is asked for."""
        total = values.new_zeros(count, values.shape[1]).index_add_(0, where, values)
        number = torch.bincount(where, minlength=count).clamp(min=1)[:, None]
        return total / number if self.mean else total

    def forward(self, x: torch.Tensor, edges: torch.Tensor, graph: torch.Tensor) -> torch.Tensor:
        """Return one number for each graph."""
        h = F.relu(self.first(x))
        for layer in self.rounds:
            h = F.relu(layer(torch.cat([h, self.gather(h[edges[0]], edges[1], len(h))], 1)))
        return self.head(self.gather(h, graph, int(graph.max()) + 1)).squeeze(1)


def graph_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
    """One value for each graph of the batch."""
    return loss_fn(model(batch["x"], batch["edges"], batch["graph"]), batch["y"])


def graphs(model: nn.Module, **more: Any) -> dict[str, Any]:
    """Put a network and the graphs together."""
    made: Any = molecules()
    loaders = (
        DataLoader(made[:320], 32, shuffle=True, collate_fn=one_graph),
        DataLoader(made[320:], 80, collate_fn=one_graph),
    )
    return setup(model, loaders, nn.MSELoss(), 5e-3, compute_loss=graph_loss, **more)


@healthy(epochs=12, good=lambda first, last: last < 0.6 * first)
def values_of_molecules() -> dict[str, Any]:
    """A batch of graphs as one graph, as graph libraries make it."""
    return graphs(GraphNet())
