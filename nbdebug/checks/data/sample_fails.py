"""Loading a sample or collating a batch raises an exception."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nbdebug.charts import Table
from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.loader_sweep import LoaderSweep

__all__ = ["sample_fails"]


@check(explains=("empty-loader", "forward-fails"))
def sample_fails(sweep: LoaderSweep) -> Iterator[Finding]:
    """Loading a sample or collating a batch raises an exception.

    nbdebug reads samples one by one from the whole dataset, so that the failing index can be named, and collates them
    with the loader's `collate_fn`.

    Why it matters: training stops at the first such sample, perhaps after hours; and with worker processes the message
    rarely says which sample it was.

    What to try: load the sample by its index and inspect its source; if samples differ in shape or dtype, pad or
    convert them, or pass a custom `collate_fn` to the loader.
    """
    if not sweep.failed:
        return
    first = sweep.failures[0]
    reading = first.doing == "reading"
    share = f"{sweep.failed} of {sweep.failed + sweep.seen} samples tried"
    yield Finding(
        f"Loading sample {first.index} fails: {first.error} ({share} fail)."
        if reading
        else f"Collating the batch that starts with sample {first.index} fails: {first.error}.",
        where=f"loader.dataset[{first.index}]" if reading else "loader.collate_fn",
        evidence={
            "failed": sweep.failed,
            "read": sweep.seen,
            "first index": first.index,
            "error": first.error,
            "threshold": 0,
            "source": "every sample must load",
        },
        remedies=(Remedy("Load this sample alone.", f"loader.dataset[{first.index}]"),),
        exhibit=Table(
            ("index", "doing", "error"), tuple((f.index, f.doing, f.error) for f in sweep.failures), samples=True
        ),
        quotes=tuple(re.findall(r"'[^']+'|\"[^\"]+\"", first.error)),  # "could not convert string to float: 'Jane'"
    )
