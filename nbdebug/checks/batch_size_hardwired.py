"""A model that works with one batch size only."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import BatchSizes, SizeFailure
from nbdebug.exhibit import Table
from nbdebug.finding import Finding, Remedy, Severity
from nbdebug.registry import check

__all__ = ["batch_size_hardwired"]


@check
def batch_size_hardwired(sizes: BatchSizes) -> Iterator[Finding]:
    """The model works with one batch size only.

    nbdebug runs one sample, two, one fewer, half and twice the loader's batch size, in eval and in training mode,
    alone and after a batch of the loader's size. State that the model keeps between calls, such as the hidden state of
    a recurrent network, is told apart from a hardcoded batch size.

    Why it matters: the last batch of an epoch is usually smaller, and inference often runs on a single sample. A number
    that should be `len(x)` is hardcoded somewhere, in a view, an initial state or a tensor of zeros.

    What to try: at the place named, take the size from the data: x.shape[0] instead of a number, x.flatten(1) instead
    of x.view(64, -1).
    """
    if len(sizes.tried) < 2:
        raise NotApplicable(f"a batch of {sizes.own} samples leaves no two other sizes to test")
    kept = [failure for failure in sizes.failures if failure.kept]
    if kept:
        yield _kept(sizes, kept)
    fixed = [failure for failure in sizes.failures if not failure.kept]
    failed = {failure.size for failure in fixed}
    smaller = {size for size in sizes.tried if 1 < size < sizes.own}
    even_only = bool(smaller) and all(size % 2 for size in failed & smaller) and not smaller <= failed
    if not failed or even_only:
        return
    first = next((f for f in fixed if f.size in smaller), fixed[0])
    hardwired = bool(smaller) and smaller <= failed
    yield _finding(
        sizes,
        fixed,
        f"The model runs with batch size {sizes.own} but not with {', '.join(map(str, sorted(failed)))}. With "
        f"{first.size}, {_said(first)}",
        where=first.where,
        severity=_severity(sizes, hardwired),
        remedy=Remedy("Take the batch size from the input.", "x.view(x.shape[0], -1)"),
    )


def _kept(sizes: BatchSizes, failures: list[SizeFailure]) -> Finding:
    """Return the finding for state kept between calls with the size of another batch; the loop may well reset it."""
    first, place = failures[0], failures[0].kept[0]
    reset = f" `{sizes.resets[0]}()` may reset it, if your loop calls it." if sizes.resets else ""
    return _finding(
        sizes,
        failures,
        f"The model keeps `{'` and `'.join(first.kept)}` between calls, sized for the previous batch. With "
        f"{first.size} samples after {sizes.own}, {_said(first)}{reset}",
        where=place.rpartition(".")[0] or "model",
        severity="suspect" if sizes.meets_others and not sizes.resets and sizes.sure else "note",
        remedy=Remedy(
            "Reset the state when the batch size changes, and detach it from the graph.",
            "if self.hidden is not None and self.hidden.shape[1] != len(x):\n    self.hidden = None",
        ),
    )


def _said(failure: SizeFailure) -> str:
    place = f"`{failure.where}` ({failure.module})" if failure.module else f"`{failure.where}`"
    shapes = f" on {' and '.join(str(shape) for shape in failure.shapes)}" if failure.shapes else ""
    line = f" Line: `{failure.source}`." if failure.source else ""
    return f"{place} fails{shapes} in {failure.mode} mode: {failure.error.rstrip('.')}.{line}"


def _finding(
    sizes: BatchSizes, failures: list[SizeFailure], says: str, *, where: str, severity: Severity, remedy: Remedy
) -> Finding:
    failed = {failure.size for failure in failures}
    return Finding(
        says,
        where=where,
        severity=severity,
        evidence={
            "sizes that fail": sorted(failed),
            "sizes that run": [size for size in sizes.tried if size not in failed],
            "kept between calls": sorted({name for failure in failures for name in failure.kept}),
            "the loaders give other sizes": sizes.meets_others,
            "threshold": "every batch size from 2 to the loader's own must run",
            "source": "the last batch of an epoch is usually smaller",
        },
        remedies=(remedy,),
        exhibit=Table(
            ("samples", "mode", "where", "error"), tuple((f.size, f.mode, f.where, f.error) for f in failures)
        ),
    )


def _severity(sizes: BatchSizes, hardwired: bool) -> Severity:
    """Return a note for a batch size that the loaders never yield, and a bug for one that they do."""
    if not hardwired or not sizes.sure:
        return "note"
    if sizes.meets_others:
        return "bug"
    return "note" if sizes.single else "suspect"
