"""Predictions that depend on other samples in the batch."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import BatchMixing, BatchOrder
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["batch_mixing"]


@check(explains=("inputs-ignored", "batch-not-memorised"))
def batch_mixing(
    mixing: BatchMixing,
    order: BatchOrder | None,
    *,
    influence: float = 1e-3,  # Karpathy's recipe: must be 0
) -> Iterator[Finding]:
    """The prediction for one sample depends on the other samples in the batch.

    In eval mode a prediction must not depend on the rest of the batch, nor on the sample's position in it. nbdebug
    replaces one sample and compares the outputs of the others, module by module; then it runs the same samples in a
    different order.

    Why it matters: information leaks between samples, usually through a `view` or `reshape` where a `transpose` or
    `permute` was meant, or a softmax or mean over dimension 0. The loss may still fall, but the model relies on
    information that is missing at inference on a single sample.

    What to try: check the module named, and the code after it, for reshape, view, softmax(dim=0), mean(0), or a
    recurrent layer without batch_first=True.
    """
    if mixing.influence <= max(influence, 10 * mixing.noise):
        if order is not None and order.influence > max(influence, 10 * order.noise):
            yield _order_dependent(order, influence)
        return
    intended = mixing.batch_statistics or mixing.added or not mixing.sure
    caveat = ""
    if mixing.batch_statistics:
        caveat = " This layer tracks no running statistics, so it uses batch statistics in eval mode too."
    elif mixing.added:
        caveat = " Batch statistics are appended to each sample's features there, as GAN critics do on purpose."
    elif not mixing.sure:
        caveat = " If dimension 0 of your batch is time rather than samples, this is expected."
    yield Finding(
        f"Replacing sample {mixing.replaced} changes the outputs of {mixing.pairs} other samples by up to "
        f"{mixing.influence:.1%}, first {mixing.place or 'in the model'}.{caveat}",
        where=mixing.first or "model",
        severity="note" if intended else "bug",
        evidence={
            "influence": mixing.influence,
            "noise": mixing.noise,
            "threshold": max(influence, 10 * mixing.noise),
            "source": "exactly 0 for a correct model in eval mode",
        },
        remedies=_remedies(mixing.first_module),
        exhibit=Bars(("sample replaced", "same batch again"), (mixing.influence, mixing.noise), log=True),
    )


def _order_dependent(order: BatchOrder, influence: float) -> Finding:
    """Return the finding for outputs that depend on the position in the batch, but not on the other samples."""
    return Finding(
        f"Reordering the same {order.samples} samples changes their outputs by up to {order.influence:.1%}, first "
        f"{order.place or 'in the model'}: predictions depend on the position in the batch.",
        where=order.first or "model",
        severity="bug",
        evidence={
            "influence": order.influence,
            "noise": order.noise,
            "threshold": max(influence, 10 * order.noise),
            "source": "exactly 0 for a correct model in eval mode",
        },
        remedies=_remedies(""),
        exhibit=Bars(("different order", "same order again"), (order.influence, order.noise), log=True),
    )


def _remedies(module: str) -> tuple[Remedy, ...]:
    """Return the fixes, the one for this kind of module first."""
    kept = Remedy("Keep dimension 0 for samples: reorder dimensions with `permute`, not with `view` or `reshape`.")
    kinds = ("Attention", "Transformer", "LSTM", "GRU", "RNN")
    recurrent = any(kind in module for kind in kinds)
    time_first = Remedy(
        "Pass `batch_first=True`: recurrent and attention layers expect time in dimension 0 by default.",
        f"{module if recurrent else 'nn.LSTM'}(…, batch_first=True)",
        Patch("samples-first") if recurrent else None,
    )
    return (time_first, kept) if recurrent else (kept, time_first)
