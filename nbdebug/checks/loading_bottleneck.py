"""A loop that waits for its data."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import Pace
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["loading_bottleneck"]


@check
def loading_bottleneck(
    run: Pace,
    *,
    share: float = 0.8,
    seconds: float = 0.1,  # a batch that comes sooner is not worth a process
    noticed: float = 0.02,  # in a real training less is worth a note
) -> Iterator[Finding]:
    """Training waits for the loader most of the time.

    nbdebug times drawing a batch in one process, divides by the number of workers, and compares with a training step;
    in a training that it watches it times what passes between a step and the next forward pass.

    Why it matters: a faster model or machine does not help; the time is spent on reading and transforming.

    What to try: more workers, cached or smaller files, transforms on whole batches.
    """
    waiting = run.loading_seconds / max(run.workers, 1)
    part = waiting / max(waiting + run.training_seconds, 1e-9)
    if part > share and waiting > (noticed if run.place else seconds):
        said = (
            f"Between a step and the next forward pass {run.loading_seconds:.2g} s pass"
            if run.place
            else f"A batch takes {run.loading_seconds:.2g} s to load (workers: {run.workers})"
        )
        yield Finding(
            f"{said}, and passes and step take {run.training_seconds:.2g} s: {part:.0%} of the time is waiting"
            + (", for the loader or for what else your loop does there." if run.place else "."),
            where="loader",
            severity="suspect" if waiting > seconds else "note",
            evidence={
                "share of waiting": part,
                "threshold": share,
                "seconds a batch": run.loading_seconds,
                "source": "measured",
            },
            remedies=(Remedy("Let other processes load.", "DataLoader(…, num_workers=4, persistent_workers=True)"),),
            exhibit=Bars(("loading", "training"), (run.loading_seconds, run.training_seconds), title="Seconds a batch"),
        )
