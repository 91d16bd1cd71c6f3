"""A model that does not run on its own data."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.trial_run import TrialRun

__all__ = ["forward_fails"]


@check
def forward_fails(trial: TrialRun) -> Iterator[Finding]:
    """The model, the loss or the backward pass fails on a batch from its own loader.

    nbdebug runs a few batches through the model, the loss and the backward pass. An exception is attributed to the
    innermost module that was running; then small changes of its inputs are tried, to find one that runs.

    Why it matters: nothing can be learned before one pass runs.

    What to try: compare the shapes that the module named received with the possible fix; if the batch is not a pair of
    inputs and target, pass `compute_loss=`.
    """
    failure = trial if not trial.ok else trial.later
    if failure is None:
        return
    yield Finding(
        f"{_failed_pass(failure)}: {_first_sentence(failure.error)}.{_received(failure)}{_details(failure)}",
        where=failure.where or "model",
        severity="suspect" if failure.misread else "bug",
        evidence={
            "error": failure.error,
            "source line": failure.source,
            "shapes": [list(shape) for shape in failure.input_shapes],
            "what would fit": [fit.says for fit in failure.fits],
            "the batch was read as": failure.batch,
            "threshold": "none",
            "source": "an exception",
        },
        remedies=_remedies(failure),
    )


def _remedies(failure: TrialRun) -> tuple[Remedy, ...]:
    fits = tuple(Remedy(f"Use {fit.says}.", fit.code) for fit in failure.fits)
    if not fits or failure.kind not in ("shape", "dtype"):  # a tested fix is better than general advice
        fits += tuple(Remedy(says, code) for says, code in failure.advice)
    if not failure.misread:
        return fits
    return (
        *fits,
        Remedy("Pass `compute_loss=` to define how a batch is used.", "compute_loss=lambda model, batch, loss_fn: …"),
    )


def _failed_pass(failure: TrialRun) -> str:
    """Return which pass failed, on which batch, and in which module."""
    when = f" of batch {failure.index}" if failure.index else ""
    mode = " in eval mode" if failure.mode == "eval" else ""
    place = f" in `{failure.where}` ({failure.module})" if failure.where and failure.module else ""
    kinds = {"loss": "The loss", "code": "Your code"}
    kind = kinds.get(failure.failed_at, f"The {failure.failed_at} pass")
    return f"{kind}{when} fails{mode}{place}"


def _first_sentence(error: str) -> str:
    return error.splitlines()[0].split(". ")[0].rstrip(".")


def _received(failure: TrialRun) -> str:
    pairs = zip(failure.input_shapes, failure.input_dtypes, strict=True)
    shapes = " and ".join(f"{shape} {dtype}" for shape, dtype in pairs)
    return f" It received {shapes}." if shapes else ""


def _details(failure: TrialRun) -> str:
    """Return what is known beyond the exception: a possible fix, the cause and the line."""
    parts = []
    if failure.fits:
        parts.append(f"Possible fix: {' or '.join(fit.says for fit in failure.fits)}")
    if failure.detail:
        is_word = failure.detail.split()[0].isalpha()  # and not an identifier, which keeps its case
        parts.append(failure.detail[0].upper() + failure.detail[1:] if is_word else failure.detail)
    if failure.source:
        parts.append(f"Line: `{failure.source}`")
    return "".join(f" {part}." for part in parts)
