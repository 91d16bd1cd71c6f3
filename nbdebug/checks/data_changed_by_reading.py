"""A data set that is edited by being read."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import Rereading
from nbdebug.exhibit import Lines
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["data_changed_by_reading"]


@check(explains=("unnormalised-inputs", "constant-inputs", "not-reproducible", "split-shift"))
def data_changed_by_reading(rereading: Rereading) -> Iterator[Finding]:
    """Reading a sample changes the data set, so that the next epoch sees something else.

    nbdebug reads the same samples three times on a copy, with every random generator put back in between. Random
    augmentation then gives the same values; an edit in place does not.

    Why it matters: a transform that works in place (`x /= 255`, `x -= mean`, `img[...] = 0`) is applied again at every
    epoch. The data drift away while the model trains, and the loss goes up for no visible reason.

    What to try: let transforms give a new tensor (`x = x / 255`), or copy what is read before it is changed.
    """
    if not rereading.changed:
        return
    sure = bool(rereading.stored) or rereading.local == rereading.changed
    what = "targets" if rereading.target_changed == rereading.changed else "values"
    kept = f"; {rereading.stored[0]} changed" if rereading.stored else ""
    yield Finding(
        f"{rereading.changed} of {rereading.read} samples gave other {what} when they were read again with the same "
        f"random numbers (sample {rereading.examples[0]}: mean size {rereading.first:.4g}, {rereading.second:.4g}, "
        f"{rereading.third:.4g}){kept}.",
        where=f"sample {rereading.examples[0]}",
        severity="bug" if sure else "note",
        evidence={
            "changed": rereading.changed,
            "read": rereading.read,
            "only the sample that was read": rereading.local,
            "threshold": 0,
            "source": "A practical guide for debugging TensorFlow codes; reading has to leave data as they are",
        },
        remedies=(
            Remedy("Make a new tensor instead of writing into the stored one.", "x = x / 255  # not x /= 255"),
            Remedy("Copy what is read before it is changed.", "x = self.data[index].clone()"),
        ),
        exhibit=Lines(
            (("mean size", (1.0, 2.0, 3.0), (rereading.first, rereading.second, rereading.third)),),
            f"Sample {rereading.examples[0]}, read three times",
            x_label="reading",
            y_label="mean size",
        ),
    )
