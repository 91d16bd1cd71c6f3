"""Does the same batch come again?"""

from __future__ import annotations

from collections import Counter
from itertools import groupby

from nbdebug.errors import NotApplicable
from nbdebug.evidence import BatchRepeats, LoaderSweep
from nbdebug.registry import probe

__all__ = ["batch_repeats"]

LEAST = 4  # different samples in a batch; fewer may meet again by chance


@probe
def batch_repeats(sweep: LoaderSweep) -> BatchRepeats:
    """Compare hashes of the loader's first batches."""
    sweep.require()
    look = sweep.ordered
    keys = [key for key, distinct in zip(look.batch_keys, look.distinct, strict=True) if distinct >= LEAST]
    if len(look.sizes) == 1 and look.complete:
        raise NotApplicable("the loader yields only one batch")
    if len(keys) < 3:
        raise NotApplicable(f"{len(keys)} batches of at least {LEAST} different samples: too few to compare")
    return BatchRepeats(
        unit="batches",
        seen=len(keys),
        distinct=len(set(keys)),
        most=Counter(keys).most_common(1)[0][1],
        in_a_row=max(len(list(same)) for _, same in groupby(keys)),
        one_pass=True,
        complete=look.complete,
    )
