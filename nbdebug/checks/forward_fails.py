"""The model does not run on its own data."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import TrialRun
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["forward_fails"]


@check
def forward_fails(trial: TrialRun) -> Iterator[Finding]:
    """The model, its loss or the backward pass fails on a batch of its own loader.

    nbdebug runs a few batches through the model, the loss and the backward pass. An exception is placed at the
    innermost module that was running; then small changes of what it was given are tried, to say what would fit.

    Why it matters: nothing can be learned before one pass goes through.

    What to try: compare the shapes that met at the module named with what would fit; if the batch is not a plain
    pair of inputs and target, pass `compute_loss=`.
    """
    failure = trial if not trial.ok else trial.later
    if failure is None:
        return
    yield Finding(
        f"{_what(failure)}: {_first_sentence(failure.error)}.{_met(failure)}{_more(failure)}",
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
    fits = tuple(Remedy(f"This would fit: {fit.says}.", fit.code) for fit in failure.fits)
    if not fits or failure.kind not in ("shape", "dtype"):  # what was tried and runs is better than what usually helps
        fits += tuple(Remedy(says, code) for says, code in failure.advice)
    if not failure.misread:
        return fits
    return (*fits, Remedy("Say how your batch is consumed.", "compute_loss=lambda model, batch, loss_fn: …"))


def _what(failure: TrialRun) -> str:
    """Say which pass failed, on which batch, and in which module."""
    when = f" of batch {failure.index}" if failure.index else ""
    mode = " in eval mode" if failure.mode == "eval" else ""
    place = f" in {failure.where} ({failure.module})" if failure.where and failure.module else ""
    kinds = {"loss": "The loss", "code": "Your code"}
    kind = kinds.get(failure.failed_at, f"The {failure.failed_at} pass")
    return f"{kind}{when} fails{mode}{place}"


def _first_sentence(error: str) -> str:
    return error.splitlines()[0].split(". ")[0].rstrip(".")


def _met(failure: TrialRun) -> str:
    pairs = zip(failure.input_shapes, failure.input_dtypes, strict=True)
    shapes = " and ".join(f"{shape} {dtype}" for shape, dtype in pairs)
    return f" It received {shapes}." if shapes else ""


def _more(failure: TrialRun) -> str:
    """Add what is known beyond the exception: what would fit, what is behind it, and the line."""
    parts = []
    if failure.fits:
        parts.append(f"What would fit: {' or '.join(fit.says for fit in failure.fits)}")
    if failure.detail:
        is_word = failure.detail.split()[0].isalpha()  # and not a name, which is written as it is
        parts.append(failure.detail[0].upper() + failure.detail[1:] if is_word else failure.detail)
    if failure.source:
        parts.append(f"Line: {failure.source}")
    return "".join(f" {part}." for part in parts)
