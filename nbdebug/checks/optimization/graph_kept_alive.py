"""Autograd graphs that are never freed."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.training_loop import LoopFacts

__all__ = ["graph_kept_alive"]


@check
def graph_kept_alive(
    loop: LoopFacts,
    *,
    spare: int = 2,  # the newest graph and the previous one are normal
    temporary: float = 0.8,  # of the graphs of some steps, freed later; our choice: some may have been freed before
) -> Iterator[Finding]:
    """The training step keeps the graphs of old batches alive, so memory grows with every step.

    nbdebug tags the autograd graph of each call of your training step, or of each step of a loop that it watches, and
    counts how many are still alive at the end.

    Why it matters: `total += loss` keeps the whole graph of every batch, with all its activations, until memory runs
    out. It looks like a memory leak, or like a batch that is too large.

    What to try: keep numbers, not tensors: `total += loss.item()`, or `loss.detach()` to avoid a synchronization.
    """
    loop.require()
    count = loop.count if loop.graphs_over is None else loop.graphs_over
    is_temporary = count < loop.count
    if loop.graphs_alive >= (temporary * count if is_temporary else count - 1) and loop.graphs_alive > spare:
        yield Finding(
            f"After {count} {loop.unit}, {loop.graphs_alive} of their autograd graphs "
            + ("were still alive; they were freed later." if is_temporary else "are still alive."),
            where=loop.place,
            severity="suspect" if is_temporary else "bug",
            evidence={
                "looked at": count,
                "graphs alive": loop.graphs_alive,
                "threshold": spare,
                "source": "counted",
            },
            remedies=(Remedy("Accumulate the number, not the tensor.", "total += loss.item()"),),
        )
