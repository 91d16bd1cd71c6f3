"""An exponential of what is an exponential already, as of a rate that is taken for its logarithm."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.loss_operands import LossOperands
from nbdebug.experiments.repeated_exponentials import RepeatedExponential

__all__ = ["exponential_applied_twice"]


@check(explains=("training-fails", "cannot-overfit-batch", "worse-than-baseline", "initial-loss-off"))
def exponential_applied_twice(
    operands: LossOperands,
    *,
    below: float = 0.05,  # of the counts; where all are at least 1, so may be their rates
) -> Iterator[Finding]:
    """A positive value is taken for its logarithm, and the exponential is taken again.

    nbdebug records one run of your loss and looks for `exp` of what `exp` or `softplus` has made, and for a
    `poisson_nll_loss` with `log_input=True` whose input cannot be negative.

    Why it matters: such a variance or rate can never be below 1. A standard deviation that is passed as a log variance
    makes the divergence of a VAE pull to a wrong width, and a rate that is passed as a log rate cannot predict rare
    events. The training runs, and its optimum is elsewhere.

    What to try: pass the output of the layer where a logarithm is expected, or `log_input=False` for a rate.
    """
    for found in operands.exponentials:
        if found.below is None:
            yield _finding(found, operands.place, "one that is positive by construction is no log variance or log rate")
            return
        if found.below > below:
            yield _finding(found, operands.place, f"{found.below:.0%} of the targets are below 1")
            return


def _finding(found: RepeatedExponential, place: str, why: str) -> Finding:
    takes = "takes the exponential of" if found.op == "exp" else "expects a logarithm and takes the exponential of"
    code = (
        "loss_fn = nn.PoissonNLLLoss(log_input=False)"
        if found.op == "poisson_nll_loss"
        else "divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp())"
    )
    return Finding(
        f"`{found.op}` {takes} what `{found.inner}` has made (lowest {found.lowest:.3g}): its result can never be "
        f"below 1, but {why}.",
        where=place,
        severity="suspect" if found.below is None else "bug",
        evidence={
            "made by": found.inner,
            "lowest argument": found.lowest,
            "targets below 1": found.below,
            "threshold": "an argument that cannot be negative",
            "source": "documentation of torch.nn.PoissonNLLLoss; Kingma and Welling, 2014, appendix B",
        },
        remedies=(Remedy("Pass the logarithm, or say that it is none.", code),),
    )
