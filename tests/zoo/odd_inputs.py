"""Healthy set-ups whose inputs are uncommon: graphs, categories, memories, joined texts, windows, places."""

from __future__ import annotations

from typing import Any

import torch
from sklearn.datasets import load_wine
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from tests.examples import healthy
from tests.zoo.losses import mlp
from tests.zoo.samples import digit_rows, seeded, setup, split, topic_tokens


class GraphNet(nn.Module):
    """Two rounds of messages along the edges of each sample's own graph."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(4, 32), nn.Linear(32, 32), nn.Linear(32, 1)

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """Average over neighbors, twice, then over nodes."""
        mean = edges / edges.sum(-1, keepdim=True).clamp(min=1)
        hidden = F.relu(self.first(mean @ nodes + nodes))
        hidden = F.relu(self.second(mean @ hidden + hidden))
        return self.head(hidden.mean(1))


@healthy(epochs=15, good=lambda first, last: last < 0.4 * first)
def graphs_by_adjacency() -> dict[str, Any]:
    """How much neighbors have in common; a batch is (nodes, edges, answer)."""
    nodes = torch.randn(500, 7, 4, generator=seeded(2))
    edges = (torch.rand(500, 7, 7, generator=seeded(3)) < 0.4).float()
    edges = torch.maximum(edges, edges.transpose(1, 2))
    mean = edges @ nodes / edges.sum(-1, keepdim=True).clamp(min=1)
    answer = (mean + nodes).abs().mean((1, 2))[:, None]
    data = split(nodes, edges, (answer - answer.mean()) / answer.std(), batch_size=25)
    return setup(GraphNet(), data, nn.MSELoss(), lr=1e-2)


class OneGraph(nn.Module):
    """Nodes of one graph, each answered from itself and its neighbors."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(inputs, 16), nn.Linear(16, 3)

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """Mix along the edges."""
        return self.second(edges @ F.relu(self.first(edges @ nodes)))


@healthy(epochs=60, accuracy=0.9)
def nodes_of_one_graph() -> dict[str, Any]:
    """The whole data set is one batch, and its rows belong together."""
    rows, labels = load_wine(return_X_y=True)
    nodes = torch.tensor((rows - rows.mean(0)) / rows.std(0), dtype=torch.float32)
    near = torch.cdist(nodes, nodes).topk(6, largest=False).indices
    edges = torch.zeros(len(nodes), len(nodes)).scatter_(1, near, 1 / 6)
    model = OneGraph(13)
    data = DataLoader([(nodes, edges, torch.tensor(labels))], batch_size=None)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    return {"model": model, "loader": data, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


class Table(nn.Module):
    """Categories by their embeddings, beside numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds = nn.ModuleList(nn.Embedding(size, 4) for size in (5, 12, 3))
        self.body = mlp(12 + 3, 1)

    def forward(self, numbers: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        """Look up, join, answer."""
        looked = [table(kinds[:, i]) for i, table in enumerate(self.kinds)]
        return self.body(torch.cat([numbers, *looked], 1))


@healthy(epochs=12, good=lambda first, last: last < 0.4 * first)
def categories_and_numbers() -> dict[str, Any]:
    """Integers that are names beside real numbers."""
    numbers = torch.randn(900, 3, generator=seeded(4))
    kinds = torch.stack([torch.randint(n, (900,), generator=seeded(5 + n)) for n in (5, 12, 3)], 1)
    worth = [torch.randn(n, generator=seeded(50 + n)) for n in (5, 12, 3)]
    target = (
        numbers[:, 0] + sum(w[kinds[:, i]] for i, w in enumerate(worth)) + 0.1 * torch.randn(900, generator=seeded(9))
    )
    data = split(numbers, kinds, ((target - target.mean()) / target.std())[:, None], batch_size=50)
    return setup(Table(), data, nn.MSELoss(), lr=1e-2)


class Memory(nn.Module):
    """Attention over stored examples, as nearest neighbors would vote."""

    def __init__(self, rows: torch.Tensor, labels: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("rows", rows)
        self.register_buffer("votes", F.one_hot(labels, 10).float())
        self.encoder = nn.Linear(64, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Let the nearest stored digits vote; give log-probabilities."""
        apart = torch.cdist(self.encoder(x), self.encoder(self.rows)).square()
        return torch.log(torch.softmax(-apart, 1) @ self.votes + 1e-4)


@healthy(epochs=6, good=lambda first, last: last < 0.7 * first, accuracy=0.9)
def neighbors_vote() -> dict[str, Any]:
    """Probabilities of its own making, with their logarithm, into NLL."""
    rows, labels = digit_rows()
    model = Memory(rows[:200].clone(), labels[:200])
    return setup(model, split(rows[200:], labels[200:]), nn.NLLLoss(), lr=5e-3)


class Bags(nn.Module):
    """Words of all texts in one long row, with the place where each text begins."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.EmbeddingBag(40, 24), nn.Linear(24, 3)

    def forward(self, words: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
        """Average each text."""
        return self.head(self.words(words, starts))


def bagged(samples: list[Any]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Join the texts, and count where each begins."""
    texts, topics = zip(*samples, strict=True)
    lengths = torch.tensor([0, *(len(text) for text in texts[:-1])])
    return torch.cat(texts), lengths.cumsum(0), torch.stack(topics)


@healthy(epochs=8, accuracy=0.9)
def bags_of_words() -> dict[str, Any]:
    """An input whose first dimension is not the batch."""
    tokens, lengths, topics = topic_tokens()
    texts = [(t[: int(n)], y) for t, n, y in zip(tokens, lengths, topics, strict=True)]
    train = DataLoader(texts[100:], 32, shuffle=True, collate_fn=bagged)
    return setup(Bags(), (train, DataLoader(texts[:100], 100, collate_fn=bagged)), nn.CrossEntropyLoss(), lr=2e-2)


class Forecaster(nn.Module):
    """The next value of a series from the ones before."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent, self.head = nn.LSTM(1, 24, batch_first=True), nn.Linear(24, 1)

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        """Say what comes next, as a change of the last value."""
        return past[:, -1] + self.head(self.recurrent(past)[0][:, -1])


@healthy(epochs=10, good=lambda first, last: last < 0.5 * first)
def forecasting_windows() -> dict[str, Any]:
    """Windows that overlap; the validation data are the end of the series."""
    times = torch.arange(900) * 0.35
    series = torch.sin(times) + 0.5 * torch.sin(2.3 * times) + 0.05 * torch.randn(900, generator=seeded(11))
    windows = series.unfold(0, 17, 1)[..., None]
    past, following = windows[:, :16], windows[:, 16]
    train = DataLoader(TensorDataset(past[:700], following[:700]), 32, shuffle=True)
    val = DataLoader(TensorDataset(past[720:], following[720:]), 128)
    return setup(Forecaster(), (train, val), nn.MSELoss(), lr=5e-3)


class Waves(nn.Module):
    """Sines instead of ReLUs, begun as their authors say."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 48), nn.Linear(48, 48), nn.Linear(48, 1)])
        with torch.no_grad():
            self.layers[0].weight.uniform_(-0.5, 0.5)
            for layer in (self.layers[1], self.layers[2]):
                layer.weight.uniform_(-((6 / 48) ** 0.5) / 6, (6 / 48) ** 0.5 / 6)

    def forward(self, places: torch.Tensor) -> torch.Tensor:
        """Return the brightness at a place."""
        hidden = places
        for layer in (self.layers[0], self.layers[1]):
            hidden = torch.sin(6 * layer(hidden))
        return self.layers[2](hidden)


@healthy(epochs=40, good=lambda first, last: last < 0.3 * first)
def picture_as_a_function() -> dict[str, Any]:
    """Coordinates in, brightness out: every sample is a pixel of one picture."""
    grid = torch.linspace(-1, 1, 24)
    places = torch.cartesian_prod(grid, grid)
    light = torch.sin(4 * places[:, :1]) * torch.cos(3 * places[:, 1:]) + 0.3 * (places.norm(dim=1, keepdim=True) < 0.6)
    return setup(Waves(), split(places, (light - light.mean()) / light.std()), nn.MSELoss(), lr=3e-3)
