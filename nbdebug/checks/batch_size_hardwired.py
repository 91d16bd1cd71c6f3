"""A model that works with one batch size only."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import BatchSizes
from nbdebug.exhibit import Table
from nbdebug.finding import Finding, Remedy, Severity
from nbdebug.registry import check

__all__ = ["batch_size_hardwired"]


@check
def batch_size_hardwired(sizes: BatchSizes) -> Iterator[Finding]:
    """The model works with one batch size only.

    nbdebug runs one sample, two, one fewer, half and twice the loader's batch size, in eval and in training mode.

    Why it matters: the last batch of an epoch is usually smaller, and inference often runs on a single sample. A number
    that should be `len(x)` is hardcoded somewhere, in a view, an initial state or a tensor of zeros.

    What to try: at the place named, take the size from the data: x.shape[0] instead of a number, x.flatten(1) instead
    of x.view(64, -1).
    """
    if len(sizes.tried) < 2:
        raise NotApplicable(f"a batch of {sizes.own} samples leaves no two other sizes to test")
    failed = {failure.size for failure in sizes.failures}
    smaller = {size for size in sizes.tried if 1 < size < sizes.own}
    even_only = bool(smaller) and all(size % 2 for size in failed & smaller) and not smaller <= failed
    if not failed or even_only:
        return
    first = next((f for f in sizes.failures if f.size in smaller), sizes.failures[0])
    hardwired = bool(smaller) and smaller <= failed
    place = f"`{first.where}` ({first.module})" if first.module else f"`{first.where}`"
    shapes = f" on {' and '.join(str(shape) for shape in first.shapes)}" if first.shapes else ""
    line = f" Line: `{first.source}`." if first.source else ""
    yield Finding(
        f"The model runs with batch size {sizes.own} but not with {', '.join(map(str, sorted(failed)))}. With "
        f"{first.size}, {place} fails{shapes} in {first.mode} mode: {first.error.rstrip('.')}.{line}",
        where=first.where,
        severity=_severity(sizes, hardwired),
        evidence={
            "sizes that fail": sorted(failed),
            "sizes that run": [size for size in sizes.tried if size not in failed],
            "the loaders give other sizes": sizes.meets_others,
            "threshold": "every batch size from 2 to the loader's own must run",
            "source": "the last batch of an epoch is usually smaller",
        },
        remedies=(Remedy("Take the batch size from the input.", "x.view(x.shape[0], -1)"),),
        exhibit=Table(
            ("samples", "mode", "where", "error"), tuple((f.size, f.mode, f.where, f.error) for f in sizes.failures)
        ),
    )


def _severity(sizes: BatchSizes, hardwired: bool) -> Severity:
    """Return a note for a batch size that the loaders never yield, and a bug for one that they do."""
    if not hardwired or not sizes.sure:
        return "note"
    if sizes.meets_others:
        return "bug"
    return "note" if sizes.single else "suspect"
