"""Graph networks of PyTorch Geometric."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.field import program
from tests.zoo.samples import seeded


def communities(count: int = 200) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the features of nodes, edges that mostly stay inside of a community, and the communities."""
    g = seeded()
    labels = torch.randint(0, 3, (count,), generator=g)
    i, j = torch.triu_indices(count, count, 1)
    chance = torch.where(labels[i] == labels[j], 0.08, 0.008)
    kept = torch.rand(len(i), generator=g) < chance
    edges = torch.stack([i[kept], j[kept]])
    features = F.one_hot(labels, 3).float() @ torch.randn(3, 8, generator=g) + 1.5 * torch.randn(count, 8, generator=g)
    return features, torch.cat([edges, edges.flip(0)], 1), labels


def rings(count: int = 160) -> list[Any]:
    """Return rings of nodes; in half of them there are chords."""
    from torch_geometric.data import Data

    g, graphs = seeded(), []
    for index in range(count):
        size = int(torch.randint(5, 12, (1,), generator=g))
        nodes = torch.arange(size)
        edges = torch.stack([nodes, nodes.roll(-1)])
        if index % 2:
            edges = torch.cat([edges, torch.randint(0, size, (2, size), generator=g)], 1)
        edges = torch.cat([edges, edges.flip(0)], 1)
        degree = torch.bincount(edges[0], minlength=size).float()
        features = torch.stack([degree / 4, torch.randn(size, generator=g)], 1)
        graphs.append(Data(x=features, edge_index=edges, y=torch.tensor([index % 2])))
    return graphs


@program("positions", "torch_geometric", optimizer_of_another=("parameters-missing-from-optimizer", "step-never-taken"))
def nodes_of_one_graph(fault: str = "") -> dict[str, Any]:
    """A graph attention network on one graph; only the training nodes are in the loss."""
    from torch_geometric.data import Data
    from torch_geometric.nn import GATConv

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = GATConv(8, 8, heads=4, dropout=0.2), GATConv(32, 3)

        def forward(self, graph: Any) -> torch.Tensor:
            return self.last(F.elu(self.first(graph.x, graph.edge_index)), graph.edge_index)

    features, edges, labels = communities()
    training = torch.rand(len(labels), generator=seeded(1)) < 0.5
    graph = Data(x=features, edge_index=edges, y=labels, train_mask=training)

    def compute_loss(model: nn.Module, graph: Any, loss_fn: Any) -> torch.Tensor:
        return loss_fn(model(graph)[graph.train_mask], graph.y[graph.train_mask])

    model = Attention()
    trained = Attention() if fault == "optimizer_of_another" else model
    return {
        "model": model,
        "loader": [graph],
        "loss_fn": nn.CrossEntropyLoss(),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(trained.parameters(), lr=5e-3, weight_decay=5e-4),
    }


@program(
    "layout",
    "torch_geometric",
    graphs_pooled_together=("batch-mixing", "outputs-identical"),
    pooled_without_gradient=("untrained-parameters", "loss-not-differentiable", "parameters-missing-from-optimizer"),
)
def classes_of_graphs(fault: str = "") -> dict[str, Any]:
    """A graph isomorphism network that classifies graphs of a mini-batch."""
    from torch_geometric.loader import DataLoader
    from torch_geometric.nn import GINConv, global_add_pool

    def layers(width: int) -> nn.Sequential:
        return nn.Sequential(nn.Linear(width, 24), nn.ReLU(), nn.Linear(24, 24))

    class Isomorphism(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.head = GINConv(layers(2)), GINConv(layers(24)), nn.Linear(24, 2)

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
            x = self.second(self.first(x, edge_index).relu(), edge_index)
            if fault == "graphs_pooled_together":
                everything = x.sum(0, keepdim=True) / 8
                return self.head(everything.expand(int(batch.max()) + 1, -1))
            pooled = global_add_pool(x, batch) / 8
            return self.head(pooled.detach() if fault == "pooled_without_gradient" else pooled)

    def compute_loss(model: nn.Module, graphs: Any, loss_fn: Any) -> torch.Tensor:
        return loss_fn(model(graphs.x, graphs.edge_index, graphs.batch), graphs.y)

    model = Isomorphism()
    return {
        "model": model,
        "loader": DataLoader(rings(), 16, shuffle=True),
        "loss_fn": nn.CrossEntropyLoss(),
        "compute_loss": compute_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


@program("loss", "torch_geometric")
def links_of_one_graph(fault: str = "") -> dict[str, Any]:
    """A graph autoencoder whose step draws pairs without a link anew."""
    from torch_geometric.nn import GAE, GCNConv

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = GCNConv(8, 16), GCNConv(16, 8)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            return self.last(self.first(x, edges).relu(), edges)

    def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> torch.Tensor:
        optimizer.zero_grad()
        features, edges = batch
        loss = model.recon_loss(model.encode(features, edges), edges)
        loss.backward()
        optimizer.step()
        return loss

    model = GAE(Encoder())
    features, edges, _ = communities()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    return {"model": model, "loader": [(features, edges)], "train_step": train_step, "optimizer": optimizer}
