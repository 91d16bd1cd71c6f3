"""A loader that yields no batches."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.loader_sweep import LoaderSweep

__all__ = ["empty_loader"]


@check(explains=("samples-dropped",))
def empty_loader(sweep: LoaderSweep) -> Iterator[Finding]:
    """The loader yields no batches.

    nbdebug requests the first batches from the loader, within a time limit.

    Why it matters: a loop over an empty loader ends immediately and without an error. The model is never trained, and
    the only sign is a loss that is never printed or a mean over nothing.

    What to try: check the length of the dataset, its filters and its paths; with `drop_last=True` the batch size must
    not exceed the size of the dataset; a sampler must yield indices.
    """
    if sweep.ordered.sizes:
        return
    if sweep.failed:
        raise NotApplicable("every sample tested raises an error; see sample-fails")
    size, total = sweep.batch_size, sweep.total
    remedy = Remedy("Print the sizes of dataset and loader.", "print(len(loader.dataset), len(loader))")
    if total == 0:
        says = "The dataset is empty, so the loader yields no batches."
    elif sweep.stopped:
        says = f"The loader yielded no batch within {sweep.seconds:.0f} seconds."
        remedy = Remedy("Measure how long one sample takes to load.", "%time loader.dataset[0]")
    elif total is not None and size is not None and size > total:
        says = f"With `drop_last=True` and batch size {size}, a dataset of {total} samples yields no batches."
        remedy = Remedy(
            "Set `drop_last=False`, or use a smaller batch size.",
            "DataLoader(…, drop_last=False)",
            Patch("reload-batches", {"drop_last": False}),
        )
    else:
        of = f" from its {total} samples" if total else ""
        says = f"The loader yields no batches{of}: its sampler or its source is empty."
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
