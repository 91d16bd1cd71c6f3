"""Ranks whose parameters are not the same."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import Ranks
from nbdebug.evidence.ranks import apart_in, likeness
from nbdebug.exhibit import Table
from nbdebug.finding import Finding
from nbdebug.registry import check

__all__ = ["ranks_drift_apart"]


@check
def ranks_drift_apart(
    ranks: Ranks,
    *,
    rounding: float = 1e-5,  # relative; sums in another order differ by less in float32
    alike: float = 0.9,  # correlation; what was drawn apart has none, what began together keeps most of it
) -> Iterator[Finding]:
    """The processes of one training hold different parameters.

    Processes that train one model together begin with the same values and make the same steps, so that their parameters
    stay the same. Parameters that DistributedDataParallel keeps, and parameters that are nearly the same on every
    process, are meant to be one; what is different from the beginning may be a part of a model that is split over the
    processes, and is a note; so is what a communication hook averages only now and then.

    Why it matters: the gradients are averaged over models that are not the same, the checkpoint of one process is not
    what the others trained, and every evaluation depends on who makes it.

    What to try: call the wrapper, `model(x)`, and not `model.module(x)`, which adds up no gradients. Leave `no_sync()`
    at the last backward pass before a step. Let every process make every step: skip a bad batch on all of them or on
    none. Change weights before wrapping the model, or from the same seed everywhere. Without
    DistributedDataParallel, average the gradients of every parameter.
    """
    for other in ranks.facts[1:]:
        found = apart_in(ranks.first, other, buffers=False, rounding=rounding)
        together = [(one, size) for one, size in found if one.kept or likeness(ranks.first, other, one.name) > alike]
        if together:
            worst, size = max(together, key=lambda pair: pair[1])
            count, kept = len(together), sum(one.kept for one, _ in together)
            yield Finding(
                f"Rank {other.rank} and rank 0 hold different values in {count} of {len(ranks.first.prints)} tensors, "
                f"most in {worst.name} (by {size:.2g} of its size).",
                where=worst.name,
                severity="note" if other.own_averaging else "bug" if kept else "suspect",
                evidence={"rank": other.rank, "apart": size, "differing": count, "kept_by_ddp": kept},
                exhibit=Table(("parameter", "apart"), tuple((one.name, s) for one, s in together[:20]), "Apart"),
            )
        elif found:
            yield Finding(
                f"{len(found)} parameters of rank {other.rank} have nothing in common with those of rank 0, and "
                "nothing keeps them the same: right for a model that is split, wrong for copies of one.",
                where=found[0][0].name,
                severity="note",
                evidence={"rank": other.rank, "apart": found[0][1], "differing": len(found)},
            )
