"""A second derivative of all first derivatives at once, which adds the mixed ones."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.loss_operands import LossOperands

__all__ = ["mixed_derivatives_summed"]


@check(explains=("training-fails", "cannot-overfit-batch", "worse-than-baseline"))
def mixed_derivatives_summed(
    operands: LossOperands,
    *,
    share: float = 0.02,  # of all second derivatives; columns that do not interact have no mixed ones
) -> Iterator[Finding]:
    """A second derivative includes the mixed derivatives of all columns.

    nbdebug records one run of your loss and looks for a call of `autograd.grad` that differentiates a whole gradient
    with respect to the same inputs, all of its columns with the same weight. It then takes the derivatives column by
    column and compares.

    Why it matters: `grad(du, x, ones_like(du))` sums over the columns of `du`. Its first column is u_xx + u_yx and not
    u_xx, so that a Laplace operator made of it is another equation. The residual falls, and the solution is wrong.

    What to try: differentiate one column of the gradient at a time, and keep only that column of the result.
    """
    for found in operands.derivatives:
        if found.share <= share:
            continue
        yield Finding(
            f"`autograd.grad` differentiates all {found.columns} first derivatives at once: mixed derivatives are "
            f"{found.share:.0%} of the second derivatives that it adds up.",
            where=operands.place,
            severity="suspect",
            evidence={
                "columns": found.columns,
                "share of mixed derivatives": found.share,
                "threshold": share,
                "source": "autograd.grad returns a product with the Jacobian: the sum over all outputs",
            },
            remedies=(
                Remedy(
                    "Differentiate each column on its own.",
                    "first = grad(u.sum(), x, create_graph=True)[0]\n"
                    "second = [grad(first[:, k].sum(), x, create_graph=True)[0][:, k] for k in range(x.shape[1])]",
                ),
            ),
        )
        return
