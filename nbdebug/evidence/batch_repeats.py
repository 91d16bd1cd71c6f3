"""Does the same batch come again?"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import groupby

from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.loader_sweep import LoaderSweep

__all__ = ["BatchRepeats", "batch_repeats"]


@dataclass(frozen=True)
class BatchRepeats:
    """How often the same batch came again: in the loader's first batches, or in the steps of a real training.

    `in_a_row` is how many times in a row one batch came at most; `one_pass` says that no batch is due a second time,
    as it is in a second epoch. `is_inner` says that the loop has inner ones, which work on one batch for many steps.
    """

    unit: str
    seen: int
    distinct: int
    most: int
    in_a_row: int
    one_pass: bool
    complete: bool = False
    is_inner: bool = False


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
