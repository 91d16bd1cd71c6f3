"""Padding is treated as data."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Remedy, Severity
from nbdebug.core.registry import check
from nbdebug.evidence.padding import PaddingTrial

__all__ = ["padding_dominates"]

MASK = Remedy("Mask the padding positions.", "mask = tokens != 0  # attention, pooling, pack_padded_sequence")
IGNORE = Remedy("Ignore padding in the loss.", "nn.CrossEntropyLoss(ignore_index=pad_id)")


@check(basis="statistic", explains=("worse-than-baseline", "cannot-overfit-batch", "loss-metric-disagree"))
def padding_dominates(
    padding: PaddingTrial,
    *,
    share: float = 0.3,  # of all positions; less padding does little harm; our choice
    most: float = 0.8,  # of all positions: batching by length would save most of the compute; our choice
    influence: float = 0.2,  # of the predictions' standard deviation; exactly 0 where padding is masked; our choice
    noises: float = 3.0,  # times the difference of two equal runs, for models random in eval mode; our choice
    in_loss: float = 0.5,  # of an even share of the gradient; our choice, exactly 0 where the loss ignores padding
    in_loss_least: float = 0.05,  # of the gradient at the outputs, however little is padding; our choice
) -> Iterator[Finding]:
    """Much of the input is padding, and the model or the loss treats it as data.

    nbdebug finds the padding value, removes the padding sample by sample, and compares the predictions: a model that
    masks its padding gives the same ones. A model that is random in eval mode is run several times, and the difference
    must exceed that between runs of the identical input. For outputs at every position it also measures how much of
    the loss gradient comes from padded positions.

    Why it matters: a recurrent state that has processed thirty zeros after the last word has forgotten the words; and a
    loss over padding is soon small, because padding is easy to predict, while nothing is learned about the rest.

    What to try: mask padding in attention and pooling, pack sequences for recurrent layers, set `ignore_index` in the
    loss, and batch sequences of similar length.
    """
    grave: Severity = "suspect" if padding.share >= share else "note"
    if padding.in_loss is not None and padding.in_loss > max(in_loss * padding.share, in_loss_least):
        yield _finding(
            padding,
            grave,
            share,
            IGNORE,
            f"{padding.in_loss:.0%} of the loss gradient comes from padding, which fills {padding.share:.0%} of "
            f"`{padding.name}`",
        )
    elif padding.changes_predictions(influence, noises):
        yield _finding(
            padding, grave if padding.at_end else "note", influence, MASK,
            f"{padding.share:.0%} of `{padding.name}` is padding, and removing it changes the predictions by "
            f"{padding.influence:.2g} standard deviations",
        )  # fmt: skip
    elif padding.share > most:
        short = Remedy("Batch sequences of similar length.", "collate_fn=pad_to_longest_in_batch")
        yield _finding(padding, "note", most, short, f"{padding.share:.0%} of `{padding.name}` is padding")


def _finding(padding: PaddingTrial, severity: Severity, threshold: float, remedy: Remedy, says: str) -> Finding:
    return Finding(
        f"{says} (padding value {padding.value:g}, {padding.samples} sequences of length up to {padding.longest}).",
        where=padding.name,
        severity=severity,
        evidence={
            "share of padding": padding.share,
            "influence on the prediction": padding.influence,
            "noise between runs of the identical input": padding.noise,
            "share of the gradient": padding.in_loss,
            "threshold": threshold,
            "source": "predictions must not depend on padding",
        },
        remedies=(remedy,),
        exhibit=Bars(("padding", "data"), (padding.share, 1 - padding.share), title="Positions"),
    )
