"""Failing examples whose collate function takes samples apart, and sound ones that sort, pad and shift."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

import nbdebug
from tests.examples import failing_example

CHECK = "collate-mixes-samples"


class SumOverEdges(nn.Module):
    """One round of messages along the edges, then a sum over each graph."""

    def __init__(self) -> None:
        super().__init__()
        self.kind, self.message, self.head = nn.Embedding(3, 8), nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor, owner: torch.Tensor) -> torch.Tensor:
        x = self.kind(nodes)
        x = x + torch.zeros_like(x).index_add(0, edges[1], self.message(x)[edges[0]])
        pooled = torch.zeros(int(owner.max()) + 1, 8).index_add(0, owner, x.tanh())
        return self.head(pooled)


def graphs() -> dict[str, Any]:
    """Small random graphs, whose edges are joined as a collate function says."""
    random = torch.Generator().manual_seed(0)
    samples = []
    for _ in range(200):
        size = int(torch.randint(4, 9, (1,), generator=random))
        nodes, edges = (
            torch.randint(0, most, shape, generator=random) for most, shape in ((3, (size,)), (size, (2, 12)))
        )
        samples.append((nodes, edges, int((nodes[edges[0]] == nodes[edges[1]]).sum() > 4)))
    torch.manual_seed(0)
    model = SumOverEdges()
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "compute_loss": lambda model, b, loss_fn: loss_fn(model(b["nodes"], b["edges"], b["owner"]), b["y"]),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
        "dataset": samples,
    }


def joined(samples: list[Any], *, shifted: bool) -> dict[str, torch.Tensor]:
    """Pack graphs into one, with or without the offsets of their nodes."""
    sizes = [len(nodes) for nodes, _, _ in samples]
    starts = [sum(sizes[:i]) * shifted for i in range(len(sizes))]
    return {
        "nodes": torch.cat([nodes for nodes, _, _ in samples]),
        "edges": torch.cat([edges + start for (_, edges, _), start in zip(samples, starts, strict=True)], 1),
        "owner": torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes)),
        "y": torch.tensor([label for _, _, label in samples]),
    }


@failing_example(CHECK, where="edges")
def edges_without_offsets() -> dict[str, Any]:
    """All edges point to the nodes of the first graphs."""
    shifted = False  # fixed: shifted = True
    parts = graphs()
    samples = parts.pop("dataset")
    collate = lambda batch: joined(batch, shifted=shifted)  # noqa: E731
    return {**parts, "loader": DataLoader(samples, 16, shuffle=True, collate_fn=collate)}


class LastState(nn.Module):
    """A recurrent network over packed sequences, which come sorted by length."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.head = nn.GRU(2, 12, batch_first=True), nn.Linear(12, 1)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True)
        return self.head(self.gru(packed)[1][-1]).squeeze(-1)


def sequences(collate: Callable[[list[Any]], Any]) -> dict[str, Any]:
    """Sequences of several lengths with a number each."""
    random = torch.Generator().manual_seed(0)
    xs = [torch.randn(3 + i % 9, 2, generator=random) for i in range(160)]
    samples = [(x, x.mean()) for x in xs]
    torch.manual_seed(0)
    model = LastState()
    return {
        "model": model,
        "loader": DataLoader(samples, 16, shuffle=True, collate_fn=collate),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
        "compute_loss": lambda model, b, loss_fn: loss_fn(model(b[0], b[1]), b[2]),
    }


def sorted_by_length(samples: list[Any], *, whole: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sort sequences by length, with their targets or without them, and pad them."""
    order = sorted(samples, key=lambda sample: len(sample[0]), reverse=True)
    xs = [x for x, _ in order]
    ys = [y for _, y in (order if whole else samples)]
    return nn.utils.rnn.pad_sequence(xs, batch_first=True), torch.tensor([len(x) for x in xs]), torch.stack(ys)


@failing_example(CHECK, where="batch[2]")
def targets_left_in_their_order() -> dict[str, Any]:
    """The sequences are sorted by length, and their targets stay where they were."""
    whole = False  # fixed: whole = True
    return sequences(lambda samples: sorted_by_length(samples, whole=whole))


def table(collate: Callable[[list[Any]], Any]) -> dict[str, Any]:
    """Rows of numbers with a number each."""
    x = torch.randn(200, 5, generator=torch.Generator().manual_seed(0)) * 3 + 1
    samples = [(row, row[0] * row[1]) for row in x]
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1), nn.Flatten(0))
    return {
        "model": model,
        "loader": DataLoader(samples, 20, shuffle=True, collate_fn=collate),
        "loss_fn": nn.MSELoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


@failing_example(CHECK, where="batch[0]")
def standardized_by_the_batch() -> dict[str, Any]:
    """Each batch is standardized with its own mean and standard deviation."""

    def collate(samples: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = torch.stack([row for row, _ in samples]), torch.stack([number for _, number in samples])
        return (x - x.mean(0)) / x.std(0), y  # fixed: return (x - 1) / 3, y

    return table(collate)


def alarms(setup: dict[str, Any]) -> list[str]:
    """Return the places of the alarms of this check."""
    report = nbdebug.diagnose(**setup, checks=[CHECK], progress=False)
    assert report.result(CHECK).status != "crashed"
    return [finding.where for finding in report.findings if finding.is_alarm]


def test_offsets_and_whole_samples_in_another_order_are_sound() -> None:
    parts = graphs()
    samples = parts.pop("dataset")
    collate = lambda batch: joined(batch, shifted=True)  # noqa: E731
    assert alarms({**parts, "loader": DataLoader(samples, 16, shuffle=True, collate_fn=collate)}) == []
    assert alarms(sequences(lambda samples: sorted_by_length(samples, whole=True))) == []


def test_mixed_samples_are_drawn_anew() -> None:
    """Mixup draws its partners, so that nothing can be compared."""

    def mixed(samples: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = torch.stack([row for row, _ in samples]), torch.stack([number for _, number in samples])
        other = torch.randperm(len(x))
        return 0.7 * x + 0.3 * x[other], 0.7 * y + 0.3 * y[other]

    report = nbdebug.diagnose(**table(mixed), checks=[CHECK], progress=False)
    assert "draws random numbers" in report.result(CHECK).reason
