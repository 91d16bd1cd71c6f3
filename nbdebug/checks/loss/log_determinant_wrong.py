"""A flow whose log determinant is not that of its map."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.flow_likelihood import FlowLikelihood

__all__ = ["log_determinant_wrong"]


@check(explains=("loss-unbounded-below", "training-fails", "loss-diverges"))
def log_determinant_wrong(
    flow: FlowLikelihood,
    *,
    correlation: float = 0.98,  # with the measured log determinants; only then is the loss surely that of a flow
    factor: float = 0.1,  # that the slope may differ from 1; our choice
) -> Iterator[Finding]:
    """The log determinant of a normalizing flow has the wrong sign or the wrong scale.

    Where the loss contains the normal density of a code that is as large as the input, nbdebug measures the Jacobian
    from input to code on parts of a batch, and compares its log determinant with what else the loss holds.

    Why it matters: the change of variables is log p(x) = log p(z) + log |det dz/dx|. With another sign the likelihood
    grows without bound where everything is squeezed to zero; with another scale the density does not integrate to 1.

    What to try: add the log determinant of the map from data to code. The one of the inverse has the opposite sign.
    """
    if abs(flow.correlation) < correlation or math.isnan(flow.slope) or abs(flow.slope - 1) <= factor:
        return
    said = "the wrong sign" if flow.slope < 0 else "another scale"
    yield Finding(
        f"The log determinant in the loss has {said}: it is {flow.slope:.2f} times the measured one, over the "
        f"{flow.size} dimensions of a sample.",
        where=flow.place,
        severity="bug",
        evidence={
            "slope": flow.slope,
            "correlation": flow.correlation,
            "threshold": f"1 ± {factor}",
            "source": "Dinh et al., 2017 (RealNVP), equation 2: the change of variables",
        },
        remedies=(
            Remedy(
                "Add the log determinant of the map from data to code.",
                "log_likelihood = prior.log_prob(z) + log_abs_det_dz_dx\nloss = -log_likelihood.mean()",
            ),
        ),
    )
