"""Ranks whose constants are not the same."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import MovingBuffers, Ranks
from nbdebug.evidence.ranks import apart_in
from nbdebug.finding import Finding
from nbdebug.registry import check

__all__ = ["rank_buffers_differ"]


@check
def rank_buffers_differ(
    ranks: Ranks,
    moving: MovingBuffers,
    *,
    rounding: float = 1e-5,  # relative; sums in another order differ by less in float32
) -> Iterator[Finding]:
    """The processes of one training hold different constants in their buffers.

    A buffer that no pass changes (a mean and a spread of the data, a table of random features, a mask) is a part of the
    function that is trained. Running statistics, as of BatchNorm, differ between processes by their nature and raise
    nothing here; where nobody sends them round, that is a note.

    Why it matters: the processes average the gradients of different functions, and whoever loads the checkpoint gets
    the function of one of them.

    What to try: compute the values once, from the whole data or from one seed, and send them to all with
    `torch.distributed.broadcast`; or leave `broadcast_buffers=True` in DistributedDataParallel. For running statistics
    that should be those of the whole batch, use SyncBatchNorm.
    """
    for other in ranks.facts[1:]:
        found = [pair for pair in apart_in(ranks.first, other, buffers=True, rounding=rounding) if not pair[0].kept]
        constant = [(one, size) for one, size in found if one.name not in moving.names]
        for one, size in constant[:3]:
            yield Finding(
                f"The buffer {one.name}, which no pass changes, is different on rank {other.rank} and rank 0 "
                f"(by {size:.2g} of its size), and nothing sends it round.",
                where=one.name,
                severity="suspect",
                evidence={"rank": other.rank, "apart": size, "differing": len(constant)},
            )
        if found and not constant:
            one, size = found[0]
            yield Finding(
                f"Running statistics such as {one.name} differ between rank {other.rank} and rank 0, and nothing sends "
                "them round: each process evaluates with its own.",
                where=one.name,
                severity="note",
                evidence={"rank": other.rank, "apart": size, "differing": len(found)},
            )
