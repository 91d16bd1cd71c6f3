"""Constant buffers differ between ranks."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding
from nbdebug.core.registry import check
from nbdebug.evidence.moving_buffers import MovingBuffers
from nbdebug.evidence.ranks import Ranks, apart_in

__all__ = ["rank_buffers_differ"]


@check
def rank_buffers_differ(
    ranks: Ranks,
    moving: MovingBuffers,
    *,
    rounding: float = 1e-5,  # relative; float32 sums in another order differ by less
) -> Iterator[Finding]:
    """Constant buffers of the model differ between ranks.

    A buffer that no forward pass changes (the mean and standard deviation of the data, random features, a mask) is part
    of the function being trained. Running statistics, as in BatchNorm, naturally differ between ranks and are not
    reported here; where they are not broadcast, that is a note.

    Why it matters: the ranks average the gradients of different functions, and the checkpoint contains the function of
    only one of them.

    What to try: compute the values once, from the whole data or from one seed, and send them to all ranks with
    `torch.distributed.broadcast`; or leave `broadcast_buffers=True` in DistributedDataParallel. For running statistics
    of the whole batch, use SyncBatchNorm.
    """
    for other in ranks.facts[1:]:
        found = [pair for pair in apart_in(ranks.first, other, buffers=True, rounding=rounding) if not pair[0].kept]
        constant = [(one, size) for one, size in found if one.name not in moving.names]
        for one, size in constant[:3]:
            yield Finding(
                f"The constant buffer `{one.name}` differs between rank {other.rank} and rank 0 by {size:.2g} "
                f"(relative) and is not broadcast.",
                where=one.name,
                severity="suspect",
                evidence={"rank": other.rank, "apart": size, "differing": len(constant)},
            )
        if found and not constant:
            one, size = found[0]
            yield Finding(
                f"Running statistics such as `{one.name}` differ between rank {other.rank} and rank 0 and are not "
                "broadcast: each rank evaluates with its own.",
                where=one.name,
                severity="note",
                evidence={"rank": other.rank, "apart": size, "differing": len(found)},
            )
