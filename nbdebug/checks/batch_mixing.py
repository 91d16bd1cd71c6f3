"""Outputs of one sample that depend on another."""

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
    """The prediction for one sample depends on the other samples in its batch.

    In eval mode a prediction has to be the same whatever else is in the batch, and wherever in it the sample stands.
    nbdebug replaces one sample and looks at the outputs of the others, module by module; then it runs the same samples
    in another order.

    Why it matters: information flows between samples, usually because of a `view` or `reshape` where a `transpose`
    or `permute` was meant, or a softmax or mean over dimension 0. The loss may still fall, but the model learns
    something that does not exist when it is used on one sample.

    What to try: look at the module named and at the lines behind it for reshape, view, softmax(dim=0), mean(0), or a
    recurrent layer without batch_first=True.
    """
    if mixing.influence <= max(influence, 10 * mixing.noise):
        if order is not None and order.influence > max(influence, 10 * order.noise):
            yield _by_place(order, influence)
        return
    meant = mixing.batch_statistics or mixing.added or not mixing.sure
    doubt = ""
    if mixing.batch_statistics:
        doubt = " This layer keeps no running statistics, so it uses those of the batch in eval mode too."
    elif mixing.added:
        doubt = " There, numbers about the whole batch stand beside the sample's own, which critics of a GAN want."
    elif not mixing.sure:
        doubt = " If dimension 0 of your batch is time and not the samples, that is as it should be."
    yield Finding(
        f"Replacing sample {mixing.replaced} changes the outputs of {mixing.pairs} other samples by up to "
        f"{mixing.influence:.1%} of their size, first {mixing.place or 'in the model'}.{doubt}",
        where=mixing.first or "model",
        severity="note" if meant else "bug",
        evidence={
            "influence": mixing.influence,
            "noise": mixing.noise,
            "threshold": max(influence, 10 * mixing.noise),
            "source": "a healthy model gives exactly 0 in eval mode",
        },
        remedies=_remedies(mixing.first_module),
        exhibit=Bars(("changed by replacing", "changed by repeating"), (mixing.influence, mixing.noise), log=True),
    )


def _by_place(order: BatchOrder, influence: float) -> Finding:
    """Tell what depends on the place of a sample in its batch, though not on the other samples."""
    return Finding(
        f"The same {order.samples} samples in another order get other outputs, by up to {order.influence:.1%} of their "
        f"size, first {order.place or 'in the model'}: what is said about a sample depends on its place in the batch.",
        where=order.first or "model",
        severity="bug",
        evidence={
            "influence": order.influence,
            "noise": order.noise,
            "threshold": max(influence, 10 * order.noise),
            "source": "a healthy model gives exactly 0 in eval mode",
        },
        remedies=_remedies(""),
        exhibit=Bars(("changed by the order", "changed by luck"), (order.influence, order.noise), log=True),
    )


def _remedies(module: str) -> tuple[Remedy, ...]:
    """Put first what fits the module where the samples meet."""
    kept = Remedy("Keep dimension 0 for the samples: move dimensions with permute, not with view or reshape.")
    kinds = ("Attention", "Transformer", "LSTM", "GRU", "RNN")
    recurrent = any(kind in module for kind in kinds)
    time_first = Remedy(
        "Recurrent and attention layers expect time in dimension 0 unless they are told otherwise.",
        f"{module if recurrent else 'nn.LSTM'}(…, batch_first=True)",
        Patch("samples-first") if recurrent else None,
    )
    return (time_first, kept) if recurrent else (kept, time_first)
