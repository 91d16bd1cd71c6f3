"""Layers that collapse into one."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import Linearity, LinearPair
from nbdebug.finding import Finding, Patch, Remedy, Severity, in_code
from nbdebug.registry import check

__all__ = ["missing_nonlinearity"]


@check(explains=("batch-not-memorised", "worse-than-baseline"))
def missing_nonlinearity(linearity: Linearity) -> Iterator[Finding]:
    """The whole network is one affine map, however many layers it has.

    nbdebug mixes pairs of samples and compares the answer to the mixture with the mixture of the answers, in eval mode
    and before a last softmax or sigmoid. In an affine network they agree to the last digit.

    Why it matters: linear layers without a nonlinearity between them collapse into a single one. The network can do no
    more than linear or logistic regression, whatever its depth.

    What to try: put an activation (ReLU, GELU, tanh) between the layers named. Two layers with a narrow middle, as a
    low-rank map or a linear autoencoder has, may be meant.
    """
    if linearity.is_affine and linearity.chain:
        wasted = [pair for pair in linearity.chain if pair.is_wasted]
        pair = (wasted or linearity.chain)[0]
        says = (
            f"The network is affine: mixing samples mixes the answers to within {linearity.deviation:.0e}. Its "
            f"{len(linearity.chain) + 1} layers in a row collapse into one; nothing bends the values between "
            f"{pair.first} and {pair.second}."
        )
        yield _finding(says, pair, linearity, "bug" if wasted else "note")
        return
    for pair in linearity.touching:
        if pair.is_wasted:
            says = f"Nothing stands between {pair.first} and {pair.second}, so that the two could be one layer."
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
                "Put an activation between them.",
                f"x = {in_code(pair.second, 'self')}(torch.relu({in_code(pair.first, 'self')}(x)))",
                Patch(
                    "activation-between", {"layers": list(dict.fromkeys(p.first for p in linearity.chain or (pair,)))}
                ),
            ),
        ),
    )
