"""Consecutive linear layers have no activation between them."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import Linearity, LinearPair
from nbdebug.finding import Finding, Patch, Remedy, Severity, in_code
from nbdebug.registry import check

__all__ = ["missing_nonlinearity"]


@check(explains=("batch-not-memorised", "worse-than-baseline"))
def missing_nonlinearity(linearity: Linearity) -> Iterator[Finding]:
    """The whole network is one affine map, regardless of its depth.

    nbdebug interpolates between pairs of samples and compares the output of the interpolation with the interpolation of
    the outputs, in eval mode and before a final softmax or sigmoid. In an affine network they agree up to rounding.

    Why it matters: linear layers without a nonlinearity between them collapse into a single one. The network is no more
    expressive than linear or logistic regression, whatever its depth.

    What to try: put an activation (ReLU, GELU, tanh) between the layers named. Two linear layers with a narrow
    bottleneck, as in a low-rank factorization or a linear autoencoder, may be intended.
    """
    if linearity.is_affine and linearity.chain:
        wasted = [pair for pair in linearity.chain if pair.is_wasted]
        pair = (wasted or linearity.chain)[0]
        says = (
            f"The network is affine (deviation {linearity.deviation:.0e}): its {len(linearity.chain) + 1} consecutive "
            f"linear layers collapse into one. There is no activation between `{pair.first}` and `{pair.second}`."
        )
        yield _finding(says, pair, linearity, "bug" if wasted else "note")
        return
    for pair in linearity.touching:
        if pair.is_wasted:
            says = f"There is no activation between `{pair.first}` and `{pair.second}`: they are equal to one layer."
            yield _finding(says, pair, linearity, "note")
            return


def _finding(says: str, pair: LinearPair, linearity: Linearity, severity: Severity) -> Finding:
    return Finding(
        says,
        where=pair.first,
        severity=severity,
        evidence={
            "deviation from affine": linearity.deviation,
            "threshold": linearity.limit,
            "width between the layers": pair.width,
            "into the first": pair.into,
            "out of the second": pair.out,
            "source": "37 reasons, 24; a composition of affine maps is affine",
        },
        remedies=(
            Remedy(
                "Add an activation between the two layers.",
                f"x = {in_code(pair.second, 'self')}(torch.relu({in_code(pair.first, 'self')}(x)))",
                Patch(
                    "activation-between", {"layers": list(dict.fromkeys(p.first for p in linearity.chain or (pair,)))}
                ),
            ),
        ),
    )
