"""Graphs joined to one batch whose edges all point to the nodes of the first one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.experiments.tape.program import run_recorded
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.nested import leaves, name_of

__all__ = ["JoinedGraphs", "edges_not_offset", "joined_graphs"]

BATCHES = 2
FEWEST = 4  # graphs of a batch
INDEXES = (
    "__getitem__", "__setitem__", "index_select", "index_add", "index_add_", "index_put", "index_put_", "gather",
    "scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_", "index_reduce",
    "sparse_coo_tensor", "embedding", "take",
)  # fmt: skip

SHIFT = """edges.append(edge_index + offset)
offset += len(x)"""


@dataclass(frozen=True)
class JoinedGraphs:
    """Some batches of graphs: how many of each, their nodes, those of the largest graph, the highest node of an edge.

    `without_edges` counts the graphs that no edge touches.
    """

    edges: str
    graphs: int
    nodes: int
    largest: int
    highest: int
    without_edges: int


@probe
def joined_graphs(sandbox: Sandbox) -> JoinedGraphs:
    """Find the edges of joined graphs and the graph that each node belongs to, in the widest batch."""
    found = [(graphs, batch) for batch in sandbox.batches(BATCHES) for graphs in _joined(batch)]
    if not found:
        raise NotApplicable("no batch holds edges and the graph of each node")
    widest, batch = max(found, key=lambda one: one[0].highest / one[0].largest)
    if widest.without_edges and not _index_nodes(sandbox, batch, widest):
        raise NotApplicable("what looks like edges is no index of nodes")
    return widest


def _index_nodes(sandbox: Sandbox, batch: Batch, graphs: JoinedGraphs) -> bool:
    """Whether the program reads or writes rows of nodes by the edges."""
    recording = run_recorded(sandbox, batch, step=sandbox.train_step is not None)
    for op in recording.ops:
        values = [recording.values[n] for n in (*op.inputs, *op.made)]
        by_edges = any(recording.values[n].sources == {graphs.edges} for n in op.inputs)
        if op.name in INDEXES and by_edges and any(v.shape[:1] == (graphs.nodes,) for v in values):
            return True
    return False


def _joined(batch: Batch) -> Iterator[JoinedGraphs]:
    whole = [(name_of(p), t) for p, t in leaves(batch.raw) if isinstance(t, torch.Tensor) and not t.is_floating_point()]
    rows = [t.shape[0] for _, t in leaves(batch.raw) if isinstance(t, torch.Tensor) and t.dim()]
    for _, owner in whole:
        if owner.dim() != 1 or rows.count(len(owner)) < 2 or not _counts_up(owner):
            continue
        sizes = torch.bincount(owner.long())
        for name, edges in whole:
            nodes, graphs = len(owner), len(sizes)
            if edges.dim() != 2 or edges.shape[0] != 2 or not edges.shape[1]:
                continue
            if int(edges.min()) < 0 or int(edges.max()) >= nodes:
                continue
            touched = owner[edges.long().flatten()].unique()
            yield JoinedGraphs(name, graphs, nodes, int(sizes.max()), int(edges.max()), graphs - len(touched))


def _counts_up(owner: torch.Tensor) -> bool:
    """Whether these are the numbers of several graphs, in their order."""
    steps = owner.long().diff()
    whole = len(owner) > 0 and int(owner[0]) == 0 and bool(((steps == 0) | (steps == 1)).all())
    return whole and int(owner[-1]) + 1 >= FEWEST


@check(
    explains=(
        "collate-mixes-samples",
        "batch-mixing",
        "worse-than-baseline",
        "training-fails",
        "inputs-ignored",
        "cannot-overfit-batch",
    )
)
def edges_not_offset(
    joined: JoinedGraphs,
    *,
    empty: float = 0.5,  # share of the graphs that no edge touches; our choice: shifted edges touch nearly all
) -> Iterator[Finding]:
    """The edges of joined graphs are not shifted: all of them lie in the first graphs of the batch.

    nbdebug looks for a tensor of edges (two rows of node numbers) beside one that says which graph each node belongs
    to, and compares the highest node that an edge has with the number of nodes of the largest graph.

    Why it matters: the nodes of all other graphs exchange no messages, and those of the first get the edges of all. The
    shapes fit, so nothing fails.

    What to try: add the number of nodes joined so far to the edges of each graph, or use `Batch.from_data_list` of
    torch_geometric.
    """
    if joined.highest >= joined.largest or joined.without_edges <= empty * joined.graphs:
        return
    yield Finding(
        f"All edges of `{joined.edges}` are between the first {joined.highest + 1} of {joined.nodes} nodes: "
        f"{joined.without_edges} of {joined.graphs} graphs in a batch have none.",
        where=joined.edges,
        severity="bug",
        evidence={
            "highest node of an edge": joined.highest,
            "nodes of the largest graph": joined.largest,
            "graphs without an edge": joined.without_edges,
            "threshold": joined.largest,
            "source": "documentation of torch_geometric: a batch is one graph with a block-diagonal adjacency matrix",
        },
        remedies=(Remedy("Shift the edges of each graph by the nodes before it.", SHIFT),),
        exhibit=Bars(("with edges", "without"), (joined.graphs - joined.without_edges, joined.without_edges)),
    )
