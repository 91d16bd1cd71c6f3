"""A divergence whose width is not the one that the model samples with."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.sampled_normal import SampledNormal

__all__ = ["divergence_of_another_width"]

RIGHT = """std = torch.exp(0.5 * log_variance)
z = mean + std * torch.randn_like(std)
divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1)"""


@check(explains=("exponential-applied-twice", "loss-unbounded-below"))
def divergence_of_another_width(
    normal: SampledNormal,
    *,
    exact: float = 1e-3,  # residual of the form that fits, relative to how far the term varies: rounding
    apart: float = 0.02,  # residual of the right form, above which it is another one; our choice
) -> Iterator[Finding]:
    """The KL divergence of a VAE takes its width for something else, or has the wrong sign.

    nbdebug finds the mean and the width with which noise is scaled, exchanges both, and fits the term of the loss that
    reads them. With the width s, the divergence from a normal prior is made of s², log s and the squared mean.

    Why it matters: a log variance that is read as a log standard deviation, or the other way round, gives a loss whose
    minimum is not the prior. What the decoder is then given at generation is not what it was trained on.

    What to try: decide whether the layer returns a log variance or a log standard deviation, and use one helper for
    sampling and divergence, or `torch.distributions.kl_divergence`.
    """
    if normal.error > exact:
        return
    if normal.taken and normal.own_error > apart:
        yield _finding(f"takes {normal.taken}: its minimum is not the prior", normal, exact)
    elif normal.is_raised:
        yield _finding(
            "has the wrong sign: the loss falls as the distribution gets farther from the prior", normal, exact
        )


def _finding(said: str, normal: SampledNormal, threshold: float) -> Finding:
    return Finding(
        f"The divergence in the loss, as a function of the width that the noise is scaled with, {said}.",
        where=normal.place,
        severity="bug",
        evidence={
            "residual of this form": normal.error,
            "residual of the right form": normal.own_error,
            "threshold": threshold,
            "source": "Kingma and Welling, 2014, appendix B",
        },
        remedies=(Remedy("Use the same width for sampling and divergence.", RIGHT),),
    )
