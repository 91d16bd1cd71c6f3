"""A mask of zeros and ones that is used as an index."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.loss_operands import LossOperands

__all__ = ["mask_used_as_index"]


@check(explains=("loss-depends-on-order", "cannot-overfit-batch", "worse-than-baseline", "labels-unrelated-to-inputs"))
def mask_used_as_index(operands: LossOperands) -> Iterator[Finding]:
    """A mask of zeros and ones is used as an index, so that only two samples are read.

    nbdebug records one run of your loss and looks for lookups along an axis with an entry for each sample, by integers
    from the batch that are as many, and all 0 or 1.

    Why it matters: `values[mask]` selects the samples of a *boolean* mask. With integers it reads the entries 0 and 1,
    again and again, and no other sample is trained. Nothing fails, whatever the batch.

    What to try: convert the mask, `values[mask.bool()]`, or multiply by it.
    """
    for mask in operands.indexed[:1]:
        named = f"`{mask.sources[0]}`" if len(mask.sources) == 1 else "A mask"
        yield Finding(
            f"{named} is used as an index by `{mask.op}`: its {mask.size} integers are all 0 or 1, so only 2 of "
            f"{mask.size} samples are read.",
            where=operands.place,
            severity="bug",
            evidence={
                "entries": mask.size,
                "ones": mask.ones,
                "made of": list(mask.sources),
                "threshold": "as many integers as entries, all of them 0 or 1",
                "source": "PyTorch's indexing: integers are positions, only booleans are a mask",
            },
            remedies=(Remedy("Select by a boolean mask.", "chosen = values[mask.bool()]"),),
        )
