"""Boxes that are read as two corners although they are none."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.loss_operands import LossOperands

__all__ = ["box_format_mismatch"]


@check(explains=("training-fails", "cannot-overfit-batch", "worse-than-baseline", "loss-unbounded-below"))
def box_format_mismatch(
    operands: LossOperands,
    *,
    share: float = 0.05,  # of boxes with a negative side; single ones are errors of labeling
) -> Iterator[Finding]:
    """The loss reads target boxes as corners, but they have another format.

    nbdebug records one run of your loss and looks for areas of target boxes: the last two columns minus the first two,
    multiplied. A box of two corners has no negative side.

    Why it matters: an intersection over union of boxes given by center and size is a number, but means nothing. The
    loss falls a little, and the predicted boxes never fit.

    What to try: convert both, the predictions and the targets, to (x1, y1, x2, y2) before you compute areas.
    """
    for found in operands.boxes:
        if found.negative <= share * found.boxes:
            continue
        named = f"`{found.sources[0]}`" if len(found.sources) == 1 else "the targets"
        yield Finding(
            f"{found.negative} of {found.boxes} target boxes ({named}) have a negative side where the loss reads them "
            "as two corners: they have another format, such as center and size.",
            where=operands.place,
            severity="bug",
            evidence={
                "boxes": found.boxes,
                "boxes with a negative side": found.negative,
                "threshold": share,
                "source": "torchvision.ops.box_area: 0 <= x1 < x2 and 0 <= y1 < y2",
            },
            remedies=(
                Remedy(
                    "Convert predictions and targets to corners.",
                    "from torchvision.ops import box_convert\n\n"
                    'boxes = box_convert(boxes, in_fmt="cxcywh", out_fmt="xyxy")',
                ),
            ),
        )
        return
