"""Model parameters differ between ranks."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.charts import Table
from nbdebug.core.finding import Finding
from nbdebug.core.registry import check
from nbdebug.evidence.ranks import Ranks, apart_in, likeness

__all__ = ["ranks_drift_apart"]


@check
def ranks_drift_apart(
    ranks: Ranks,
    *,
    rounding: float = 1e-5,  # relative; float32 sums in another order differ by less
    alike: float = 0.9,  # correlation; independent initializations have none, a common start keeps most; our choice
) -> Iterator[Finding]:
    """Model parameters differ between ranks.

    Ranks that train one model together start with the same values and take the same steps, so their parameters stay
    identical. Parameters that DistributedDataParallel synchronizes, and parameters that are nearly identical on every
    rank, should be equal; what differs from the start may belong to model parallelism and is a note; so is what a
    communication hook averages only occasionally.

    Why it matters: the gradients are averaged over different models, the checkpoint of one rank is not what the others
    trained, and every evaluation depends on the rank.

    What to try: call the wrapper, `model(x)`, and not `model.module(x)`, which does not synchronize gradients. Leave
    `no_sync()` for the last backward pass before a step. Let every rank take every step: skip a bad batch on all of
    them or on none. Change weights before wrapping the model, or from the same seed everywhere. Without
    DistributedDataParallel, all-reduce the gradients of every parameter.
    """
    for other in ranks.facts[1:]:
        found = apart_in(ranks.first, other, buffers=False, rounding=rounding)
        together = [(one, size) for one, size in found if one.kept or likeness(ranks.first, other, one.name) > alike]
        if together:
            worst, size = max(together, key=lambda pair: pair[1])
            count, kept = len(together), sum(one.kept for one, _ in together)
            yield Finding(
                f"{count} of {len(ranks.first.prints)} tensors differ between rank {other.rank} and rank 0, most in "
                f"`{worst.name}` (relative difference {size:.2g}).",
                where=worst.name,
                severity="note" if other.own_averaging else "bug" if kept else "suspect",
                evidence={"rank": other.rank, "apart": size, "differing": count, "kept_by_ddp": kept},
                exhibit=Table(
                    ("parameter", "difference"), tuple((one.name, s) for one, s in together[:20]), "Relative difference"
                ),
            )
        elif found:
            yield Finding(
                f"{len(found)} parameters of rank {other.rank} are unrelated to those of rank 0 and not synchronized: "
                "right for model parallelism, wrong for data parallelism.",
                where=found[0][0].name,
                severity="note",
                evidence={"rank": other.rank, "apart": found[0][1], "differing": len(found)},
            )
