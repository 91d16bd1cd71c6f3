"""A loader that gives nothing."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import LoaderSweep
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["empty_loader"]


@check(explains=("samples-dropped",))
def empty_loader(sweep: LoaderSweep) -> Iterator[Finding]:
    """The loader gives no batch.

    nbdebug asks the loader for its first batches, within a time limit.

    Why it matters: a loop over an empty loader ends at once and without an error. The model is then never trained, and
    the only sign is a loss that was never printed or an average over nothing.

    What to try: look at the length of the data set and at its filters and paths; with `drop_last=True` the batch must
    not be larger than the data set; a sampler must yield indices.
    """
    if sweep.ordered.sizes:
        return
    if sweep.failed:
        raise NotApplicable("every sample that was tried fails; see sample-fails")
    size, total = sweep.batch_size, sweep.total
    remedy = Remedy("Look at what the data set found.", "print(len(loader.dataset), len(loader))")
    if total == 0:
        says = "The data set holds no sample, so the loader gives no batch."
    elif sweep.stopped:
        says = f"No batch came within {sweep.seconds:.0f} seconds."
        remedy = Remedy("Measure what reading one sample costs.", "%time loader.dataset[0]")
    elif total is not None and size is not None and size > total:
        says = f"With drop_last and batches of {size}, a data set of {total} samples gives no batch."
        remedy = Remedy(
            "Keep the incomplete batch, or make batches smaller.",
            "DataLoader(…, drop_last=False)",
            Patch("reload-batches", {"drop_last": False}),
        )
    else:
        of = f" of its {total} samples" if total else ""
        says = f"The loader gives no batch{of}: its sampler or its source is empty."
    yield Finding(
        says,
        where="loader",
        evidence={
            "batches": 0,
            "samples in the data set": total,
            "batch size": size,
            "seconds": sweep.seconds,
            "threshold": 1,
            "source": "37 reasons, 3",
        },
        remedies=(remedy,),
    )
