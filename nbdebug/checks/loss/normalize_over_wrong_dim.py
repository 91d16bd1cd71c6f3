"""Representations that are normalized over another dimension than the one in which they are compared."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.loss_operands import LossOperands

__all__ = ["normalize_over_wrong_dim"]


@check(explains=("initial-loss-off", "batch-mixing", "cannot-overfit-batch", "worse-than-baseline"))
def normalize_over_wrong_dim(operands: LossOperands) -> Iterator[Finding]:
    """Representations are normalized over another dimension than the one in which they are compared.

    nbdebug records one run and looks for products of two representations that were both scaled to length 1, by
    `F.normalize` or by a division by their norm, and follows the normalized dimension to the product. It reports
    products that sum over another one.

    Why it matters: a product of normalized rows is a cosine similarity only if the rows, and not the columns, have
    length 1. Normalized over the batch, each similarity depends on all other samples, and long rows win. `F.normalize`
    takes dimension 1 by default, which is the time of (batch, time, features).

    What to try: normalize over the features, `F.normalize(z, dim=-1)`.
    """
    if not operands.compared:
        raise NotApplicable("no product of normalized representations was found")
    for wrong in operands.normalized[:1]:
        over = "the batch" if wrong.axis == 0 else f"dim {wrong.axis}"
        yield Finding(
            f"Both operands of `{wrong.product}` are normalized over {over} (shape {wrong.shape}), but the product "
            "sums over another dimension: it is no cosine similarity.",
            where=wrong.module or operands.place,
            severity="suspect",
            evidence={
                "shape": wrong.shape,
                "normalized dimension": wrong.axis,
                "products of normalized representations": operands.compared,
                "threshold": "the dimension that the product sums over",
                "source": "documentation of torch.nn.functional.normalize: dim=1 is the default",
            },
            remedies=(
                Remedy(
                    "Normalize over the features.",
                    "z = F.normalize(z, dim=-1)",
                    Patch("normalize-features", {"wrong": wrong.axis}),
                ),
            ),
        )
