"""Samples that cannot be read."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nbdebug.evidence import LoaderSweep
from nbdebug.exhibit import Table
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["sample_fails"]


@check(explains=("empty-loader", "forward-fails"))
def sample_fails(sweep: LoaderSweep) -> Iterator[Finding]:
    """Reading a sample, or putting a batch together, raises an exception.

    nbdebug reads samples one by one from all over the data set, so that the index that fails can be named, and puts
    them together with the loader's own collate function.

    Why it matters: the training ends with the first such sample, perhaps after hours; and with worker processes the
    message rarely says which sample it was.

    What to try: read the sample named by its index and look at what it is made from; if samples differ in shape or
    type, pad or convert them, or give the loader a collate function of your own.
    """
    if not sweep.failed:
        return
    first = sweep.failures[0]
    reading = first.doing == "reading"
    share = f"{sweep.failed} of {sweep.failed + sweep.seen} samples tried"
    yield Finding(
        f"Reading sample {first.index} fails: {first.error} ({share} fail)."
        if reading
        else f"Putting a batch together fails, with sample {first.index} first in it: {first.error}.",
        where=f"loader.dataset[{first.index}]" if reading else "loader.collate_fn",
        evidence={
            "failed": sweep.failed,
            "read": sweep.seen,
            "first index": first.index,
            "error": first.error,
            "threshold": 0,
            "source": "every sample has to be readable",
        },
        remedies=(Remedy("Read that sample alone.", f"loader.dataset[{first.index}]"),),
        exhibit=Table(
            ("index", "doing", "error"), tuple((f.index, f.doing, f.error) for f in sweep.failures), samples=True
        ),
        quotes=tuple(re.findall(r"'[^']+'|\"[^\"]+\"", first.error)),  # "could not convert string to float: 'Jane'"
    )
