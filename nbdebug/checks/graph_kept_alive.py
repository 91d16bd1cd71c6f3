"""Graphs that something holds on to."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import LoopFacts
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["graph_kept_alive"]


@check
def graph_kept_alive(
    loop: LoopFacts, *, spare: int = 2
) -> Iterator[Finding]:  # the newest graph and one behind it are usual
    """The training step keeps the graphs of old batches alive, so memory grows with every step.

    nbdebug marks the graph of each call of your training step, or of each step of a loop that it watches, and counts
    which marks are still alive at the end.

    Why it matters: `total += loss` keeps the whole graph of every batch, with all its activations, until the memory is
    full. It looks like a leak, or like a batch that is too large.

    What to try: keep numbers, not tensors: `total += loss.item()`, or `loss.detach()` where it must not wait.
    """
    loop.require()
    count = loop.count if loop.graphs_over is None else loop.graphs_over
    for_a_time = count < loop.count
    if loop.graphs_alive >= (0.8 * count if for_a_time else count - 1) and loop.graphs_alive > spare:
        yield Finding(
            f"After {count} {loop.unit} {loop.graphs_alive} of their graphs "
            + ("were still alive, before they were let go." if for_a_time else "are still alive."),
            where=loop.place,
            severity="suspect" if for_a_time else "bug",
            evidence={
                "looked at": count,
                "graphs alive": loop.graphs_alive,
                "threshold": spare,
                "source": "counted",
            },
            remedies=(Remedy("Keep the number, not the tensor.", "total += loss.item()"),),
        )
