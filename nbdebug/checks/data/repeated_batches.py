"""The loader returns the same batch repeatedly."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy, Severity
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.batch_repeats import BatchRepeats
from nbdebug.evidence.step_calls import StepCalls

__all__ = ["repeated_batches"]


CALLS = 3  # of a training step, with different batches, that tell what it reads


@check(explains=("duplicate-samples", "samples-dropped"))
def repeated_batches(
    repeats: BatchRepeats | None,
    step: StepCalls | None,
    *,
    share: float = 0.1,  # fraction of batches that are duplicates of another one; our choice
    in_a_row: int = 10,  # consecutive steps on one batch, where others occur as well; our choice
    few: int = 2,  # distinct batches of a whole pass; our choice
) -> Iterator[Finding]:
    """The loader returns the same batch repeatedly, or the training step always uses the same one.

    nbdebug draws the first batches in the loader's own order and compares hashes of their samples; in a training that
    it watches, it identifies batches by some of their values. Repetition across epochs is fine, and inner loops on one
    batch are only noted: there the weights are reset in between, or the model generates the data. A training step that
    is called with different batches has to give the model different inputs.

    Why it matters: the model overfits a handful of samples, while the loop seems to iterate over the whole dataset. It
    happens when an index is computed from the wrong counter, a stream is reopened for every batch, or a batch kept for
    a test is still in use.

    What to try: print the indices that the sampler yields; look for `next(iter(loader))` inside the loop.
    """
    if repeats is None and step is None:
        raise NotApplicable("no batches could be drawn")
    if step is not None and step.calls >= CALLS and step.inputs == 1:
        yield _ignored(step)
    if repeats is None:
        return
    copies = repeats.seen - repeats.distinct
    if copies <= share * repeats.seen:
        return
    if repeats.one_pass:
        severity: Severity = "bug" if repeats.in_a_row > 1 or repeats.distinct <= few or repeats.complete else "note"
    elif repeats.distinct == 1 or repeats.in_a_row >= in_a_row:
        # Full-batch training is legitimate, and so are inner loops.
        severity = "note" if repeats.distinct == 1 or repeats.is_inner else "suspect"
    else:
        return
    yield Finding(
        f"{copies} of the first {repeats.seen} {repeats.unit} are duplicates: only {repeats.distinct} distinct; one "
        f"batch occurs {repeats.most} times, up to {repeats.in_a_row} in a row.",
        where="loader",
        severity=severity,
        evidence={
            "batches": repeats.seen,
            "different batches": repeats.distinct,
            "in a row": repeats.in_a_row,
            "threshold": share,
            "source": "37 reasons, 1",
        },
        remedies=(Remedy("Iterate over the loader in the loop.", "for batch in loader: …"),),
    )


def _ignored(step: StepCalls) -> Finding:
    return Finding(
        f"`train_step` ignores its batch: in {step.calls} calls with different batches, the model receives the same "
        "inputs.",
        where="train_step",
        evidence={"calls": step.calls, "different inputs": step.inputs, "threshold": 1, "source": "observed calls"},
        remedies=(Remedy("Train on the batch that the step is given.", "x, y = batch  # not next(iter(loader))"),),
    )
