"""The model does not run on its own data."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import TrialRun
from nbdebug.finding import Finding
from nbdebug.registry import check

__all__ = ["forward_fails"]


@check
def forward_fails(trial: TrialRun) -> Iterator[Finding]:
    """The model does not run on a batch of its own loader.

    nbdebug runs one batch through the model, the loss and the backward pass and places an exception at the innermost
    module that was running.

    Why it matters: nothing can be learned before one pass goes through.

    What to try: compare the shapes that met at the module named with what it expects; if the batch is not a plain
    pair of inputs and target, pass `compute_loss=`.
    """
    if trial.ok:
        return
    place = f" in {trial.where} ({trial.module})" if trial.where else ""
    shapes = " and ".join(
        f"{shape} {dtype}" for shape, dtype in zip(trial.input_shapes, trial.input_dtypes, strict=True)
    )
    met = f" It received {shapes}" if shapes else ""
    wants = f" and expects {trial.expected}." if met and trial.expected else "." if met else ""
    yield Finding(
        f"The {trial.failed_at} pass fails{place}: {trial.error.splitlines()[0]}.{met}{wants}",
        where=trial.where or ("loss_fn" if trial.failed_at == "loss" else "model"),
        evidence={"error": trial.error, "source line": trial.source, "the batch was read as": trial.batch},
    )
