"""Failing examples whose graphs share the edges of the first one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

import nbdebug
from tests.examples import failing_example
from tests.zoo.samples import seeded

CHECK = "edges-not-offset"
Graph = tuple[torch.Tensor, torch.Tensor, int]


def rings_and_stars(count: int = 96) -> list[Graph]:
    """Return graphs of 5 to 9 nodes that are rings or stars, with random features."""
    drawn = seeded(0)
    graphs = []
    for number in range(count):
        size = int(torch.randint(5, 10, (), generator=drawn))
        nodes, is_star = torch.arange(size), number % 2
        edges = torch.stack([nodes[1:], nodes[1:] * 0]) if is_star else torch.stack([nodes, nodes.roll(1)])
        graphs.append((torch.randn(size, 4, generator=drawn), torch.cat([edges, edges.flip(0)], 1), is_star))
    return graphs


def join(graphs: list[Graph], shifted: bool = False) -> dict[str, torch.Tensor]:
    """Put graphs next to each other."""
    starts = torch.tensor([0] + [len(x) for x, *_ in graphs]).cumsum(0).tolist()
    return {
        "x": torch.cat([x for x, *_ in graphs]),
        "edges": torch.cat([e + start * shifted for (_, e, _), start in zip(graphs, starts, strict=False)], 1),
        "owner": torch.cat([torch.full((len(x),), i) for i, (x, *_) in enumerate(graphs)]),
        "y": torch.tensor([y for *_, y in graphs]),
    }


class Messages(nn.Module):
    """Two rounds of sums over neighbors, and the mean of each graph."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(4, 16), nn.Linear(16, 16), nn.Linear(16, 2)

    def forward(self, x: torch.Tensor, edges: torch.Tensor, owner: torch.Tensor) -> torch.Tensor:
        for layer in (self.first, self.second):
            h = layer(x).relu()
            x = h + torch.zeros_like(h).index_add(0, edges[1], h[edges[0]])
        count = int(owner.max()) + 1
        pooled = torch.zeros(count, 16).index_add(0, owner, x)
        return self.head(pooled / torch.bincount(owner)[:, None])


def compute_loss(model: nn.Module, batch: dict[str, torch.Tensor], loss_fn: Any) -> torch.Tensor:
    return F.cross_entropy(model(batch["x"], batch["edges"], batch["owner"]), batch["y"])


def program(collate: Any, size: int = 16) -> dict[str, Any]:
    loader = DataLoader(rings_and_stars(), size, shuffle=True, collate_fn=collate)
    return {"model": Messages(), "loader": loader, "compute_loss": compute_loss}


@failing_example(CHECK, where="edges")
def edges_of_the_first_graph() -> dict[str, Any]:
    """The collate function joins edges as they are."""
    return program(join)  # fixed: return program(lambda graphs: join(graphs, shifted=True))


@failing_example(CHECK, where="edges")
def edges_in_a_training_step() -> dict[str, Any]:
    """The same in large batches, with a training step."""

    def train_step(model: nn.Module, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = compute_loss(model, batch, None)
        loss.backward()
        optimizer.step()
        return loss

    setup = program(join, 48)
    del setup["compute_loss"]
    return {**setup, "train_step": train_step}


def pairs_of_classes() -> dict[str, Any]:
    """Two rows of small numbers beside sorted ones: no graph."""
    labels = torch.arange(4).repeat_interleave(16)
    batch = {"x": torch.randn(64, 4), "edges": torch.stack([labels, labels]), "owner": labels, "y": labels}
    model = nn.Sequential(nn.Linear(4, 4))
    loss = lambda model, batch, _: F.cross_entropy(model(batch["x"]), batch["y"])  # noqa: E731
    return {"model": model, "loader": [batch, batch], "compute_loss": loss}


@pytest.mark.parametrize("size", [3, 16, 48])
def test_shifted_edges_are_fine(size: int) -> None:
    """Edges that lie in their own graphs, and batches of too few graphs to tell."""
    report = nbdebug.diagnose(**program(lambda graphs: join(graphs, True), size), checks=[CHECK], progress=False)
    assert not report.findings and report.results[0].status in ("clean", "skipped"), report.results


def test_one_graph_has_edges_of_its_own() -> None:
    """A single graph, of which each node is a sample."""
    x, edges, _ = rings_and_stars()[0]
    batch = {"x": x, "edges": edges, "owner": torch.zeros(len(x), dtype=torch.long), "y": torch.tensor([0])}
    setup = {"model": Messages(), "loader": [batch], "compute_loss": compute_loss}
    for sound in (setup, pairs_of_classes()):
        report = nbdebug.diagnose(**sound, checks=[CHECK], progress=False)
        assert not report.findings
