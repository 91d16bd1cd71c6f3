"""Padding that is read as if it were data."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import PaddingTrial
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Remedy, Severity
from nbdebug.registry import check

__all__ = ["padding_dominates"]

MASK = Remedy("Tell the model which places are real.", "mask = tokens != 0  # attention, pooling, pack_padded_sequence")
IGNORE = Remedy("Let the loss leave padding out.", "nn.CrossEntropyLoss(ignore_index=pad_id)")


@check(explains=("worse-than-baseline", "batch-not-memorised", "loss-metric-disagree"))
def padding_dominates(
    padding: PaddingTrial,
    *,
    share: float = 0.3,  # of all places; less padding does little harm
    most: float = 0.8,  # of all places: then shorter batches would save most of the work
    influence: float = 0.2,  # of the spread of the predictions; exactly 0 where padding is masked
    noises: float = 3.0,  # times what two runs of the identical input differ by, for models that draw in eval mode
) -> Iterator[Finding]:
    """Much of the input is padding, and the model or the loss takes it for data.

    nbdebug finds the value that sequences are filled up with, cuts the padding off sample by sample, and compares the
    predictions: a model that masks its padding gives the same. A model that is random in eval mode is run many times,
    and the difference has to exceed that between runs of the identical input. For outputs at every place it also looks
    at how much of the gradient comes from places that are padding.

    Why it matters: a state that has read thirty zeros after the last word has forgotten the words; and a loss over
    padding is soon small, because padding is easy to predict, while nothing is learned about the rest.

    What to try: mask padding in attention and pooling, pack sequences for recurrent layers, set `ignore_index` in the
    loss, and put sequences of similar lengths into one batch.
    """
    grave: Severity = "suspect" if padding.share >= share else "note"
    if padding.in_loss is not None and padding.in_loss > max(0.5 * padding.share, 0.05):
        yield _finding(
            padding, grave, share, IGNORE,
            f"{padding.in_loss:.0%} of the gradient of the loss comes from padding, which fills {padding.share:.0%} of "
            f"{padding.name}",
        )  # fmt: skip
    elif padding.influence is not None and padding.influence > max(influence, noises * padding.noise):
        yield _finding(
            padding, grave if padding.at_end else "note", influence, MASK,
            f"{padding.share:.0%} of {padding.name} is padding, and cutting it off changes a prediction by "
            f"{padding.influence:.2g} times what predictions differ by",
        )  # fmt: skip
    elif padding.share > most:
        short = Remedy("Put sequences of similar lengths into one batch.", "collate_fn=pad_to_longest_in_batch")
        yield _finding(padding, "note", most, short, f"{padding.share:.0%} of {padding.name} is padding")


def _finding(padding: PaddingTrial, severity: Severity, threshold: float, remedy: Remedy, says: str) -> Finding:
    return Finding(
        f"{says} (value {padding.value:g}, {padding.samples} sequences of up to {padding.longest}).",
        where=padding.name,
        severity=severity,
        evidence={
            "share of padding": padding.share,
            "influence on the prediction": padding.influence,
            "noise between runs of the identical input": padding.noise,
            "share of the gradient": padding.in_loss,
            "threshold": threshold,
            "source": "a prediction must not depend on what only fills up the batch",
        },
        remedies=(remedy,),
        exhibit=Bars(("padding", "data"), (padding.share, 1 - padding.share), title="Places"),
    )
