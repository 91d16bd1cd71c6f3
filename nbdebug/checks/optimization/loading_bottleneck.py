"""Training that waits for its data."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.short_run import Pace

__all__ = ["loading_bottleneck"]


@check
def loading_bottleneck(
    run: Pace,
    *,
    share: float = 0.8,  # of the time of a step; our choice: loading costs four times what training does
    seconds: float = 0.1,  # a faster batch is not worth a worker process; our choice
    noticed: float = 0.02,  # in a watched run: seconds worth a note; our choice
) -> Iterator[Finding]:
    """Training waits for the data loader most of the time.

    nbdebug times loading a batch in one process, divides by the number of workers, and compares with a training step;
    in a training run that it watches, it times the gap between a step and the next forward pass.

    Why it matters: a faster model or GPU does not help; the time is spent on reading and transforming data.

    What to try: use more workers, cached or smaller files, and transforms on whole batches.
    """
    waiting = run.loading_seconds / max(run.workers, 1)
    part = waiting / max(waiting + run.training_seconds, 1e-9)
    if part > share and waiting > (noticed if run.place else seconds):
        gap, code = (
            ("between a step and the next forward pass", "in the loader or other code of your loop")
            if run.place
            else ("on data loading", f"to load with {run.workers} workers")
        )
        yield Finding(
            f"{part:.0%} of the time is spent {gap}: {run.loading_seconds:.2g} s per batch {code}, "
            f"{run.training_seconds:.2g} s to train on it.",
            where="loader",
            severity="suspect" if waiting > seconds else "note",
            evidence={
                "share of waiting": part,
                "threshold": share,
                "seconds a batch": run.loading_seconds,
                "source": "measured",
            },
            remedies=(
                Remedy("Load batches in worker processes.", "DataLoader(…, num_workers=4, persistent_workers=True)"),
            ),
            exhibit=Bars(
                ("loading", "training"), (run.loading_seconds, run.training_seconds), title="Seconds per batch"
            ),
        )
