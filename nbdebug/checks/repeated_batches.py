"""The same batch again and again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from nbdebug.errors import NotApplicable
from nbdebug.evidence import LoaderSweep
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["repeated_batches"]


@check(explains=("duplicate-samples", "samples-dropped"))
def repeated_batches(
    sweep: LoaderSweep,
    *,
    share: float = 0.1,  # of the batches that are copies of another one
    least: int = 4,  # different samples; fewer may meet again by chance
) -> Iterator[Finding]:
    """The loader gives the same batch again and again.

    nbdebug draws the first batches in the loader's own order and compares the digests of their samples.

    Why it matters: the model trains on a handful of samples and learns them by heart, while the loop seems to go over
    the whole data set. It happens when an index is computed from the wrong counter, a stream is opened anew for every
    batch, or a batch that was kept for a test is still in use.

    What to try: print the indices that the sampler yields; look for `next(iter(loader))` inside of the loop.
    """
    sweep.require()
    look = sweep.ordered
    keys = [key for key, distinct in zip(look.batch_keys, look.distinct, strict=True) if distinct >= least]
    if len(look.sizes) == 1 and look.complete:
        raise NotApplicable("the loader gives one batch only")
    if len(keys) < 3:
        raise NotApplicable(f"{len(keys)} batches of at least {least} different samples: too few to compare")
    copies = len(keys) - len(set(keys))
    if copies <= share * len(keys):
        return
    at_once = sum(a == b for a, b in pairwise(keys))
    alarming = at_once > 0 or len(set(keys)) <= 2 or look.complete
    most = Counter(keys).most_common(1)[0][1]
    yield Finding(
        f"{copies} of the first {len(keys)} batches are copies of another one; one batch came {most} times, and only "
        f"{len(set(keys))} are different.",
        where="loader",
        severity="bug" if alarming else "note",
        evidence={
            "batches": len(keys),
            "different batches": len(set(keys)),
            "times that one follows itself": at_once,
            "threshold": share,
            "source": "37 reasons, 1",
        },
        remedies=(Remedy("Draw from the loader in the loop.", "for batch in loader: …"),),
    )
