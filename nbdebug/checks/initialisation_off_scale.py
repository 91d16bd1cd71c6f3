"""Weights that start much too large or much too small."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from nbdebug.errors import NotApplicable
from nbdebug.evidence import InitialWeights, RescaledStart, WeightFacts
from nbdebug.exhibit import Lines
from nbdebug.finding import Finding, Patch, Remedy, Severity, in_code
from nbdebug.registry import check

__all__ = ["initialisation_off_scale"]


@check(
    explains=(
        "initial-loss-off",
        "batch-not-memorised",
        "activations-off-scale",
        "vanishing-gradients",
        "exploding-gradients",
        "saturated-units",
        "dead-units",
        "outputs-identical",
        "missing-nonlinearity",
        "update-ratio-off",
    )
)
def initialisation_off_scale(
    weights: InitialWeights,
    start: RescaledStart,
    *,
    excess: float = 3.0,  # TheDeepChecker tests the variance against He, Glorot and LeCun; this is beyond all of them
    gain: float = 0.2,  # of the first loss, within a few steps
    head_start: float = 1.0,  # TheDeepChecker: a first loss off by 100 %
) -> Iterator[Finding]:
    """Weights start far larger or smaller than their fans ask for, and the training suffers from it.

    nbdebug compares the spread of every weight with the recipes of He, Glorot, LeCun and torch for its fans. Where it
    lies far outside, two copies are trained for a few steps, one of them with these weights brought to scale. A first
    loss that is far worse for it, but made up for by those steps, is only noted.

    Why it matters: a layer that multiplies its signal by ten makes a network of five layers multiply it by a hundred
    thousand, and one that divides it leaves nothing to learn from.

    What to try: nn.init.kaiming_normal_ before ReLU, nn.init.xavier_uniform_ before tanh and sigmoid, and zero biases.
    """
    if not weights.fresh:
        raise NotApplicable(f"the model has been trained: {weights.reason}")
    odd = [w for w in start.layers if w.excess > excess or w.excess < 1 / excess]
    if odd and (severity := _harm(start, gain, head_start)):
        yield _finding(odd, start, excess, severity)


def _harm(start: RescaledStart, gain: float, head_start: float) -> Severity | None:
    """Judge what the weights cost: the training, its beginning, or only the first loss."""
    if start.gain >= gain or not math.isfinite(start.gain):
        return "note" if start.is_made_up_for else "bug"
    if start.head_start <= head_start:
        return None
    return "suspect" if start.gain > 0 else "note"


def _curves(start: RescaledStart) -> Lines:
    series = (("as it is", start.as_is), ("weights to scale", start.rescaled))
    return Lines(tuple((n, tuple(map(float, range(len(v)))), v) for n, v in series), log_y=True)


def _finding(odd: Sequence[WeightFacts], start: RescaledStart, threshold: float, severity: Severity) -> Finding:
    worst = max(odd, key=lambda w: abs(math.log(w.excess)))
    first = odd[0]
    usual = math.sqrt(worst.low * worst.high)
    others = f" (and {len(odd) - 1} more layers)" if len(odd) > 1 else ""
    return Finding(
        f"The weights of {worst.path}{others} have a spread of {worst.std:.3g} where {worst.fan_in} inputs ask for "
        f"about {usual:.2g}; brought to scale, the loss begins at {start.rescaled[0]:.3g} instead of "
        f"{start.as_is[0]:.3g}, and {len(start.rescaled)} steps end at {start.rescaled[-1]:.3g} instead of "
        f"{start.as_is[-1]:.3g}.",
        where=first.path,
        severity=severity,
        evidence={
            "spreads": {f"{w.path}.{w.name}": w.std for w in odd},
            "usual": {f"{w.path}.{w.name}": [w.low, w.high] for w in odd},
            "gain": start.gain,
            "threshold": threshold,
            "source": "He et al. 2015, Glorot and Bengio 2010; TheDeepChecker",
        },
        remedies=(
            Remedy(
                "Initialise for the fan.",
                f"nn.init.kaiming_normal_({in_code(first.path)}.{first.name})",
                Patch("reinitialise", {"paths": [w.path for w in odd]}),
            ),
            Remedy("Or keep torch's own start.", f"{in_code(first.path)}.reset_parameters()"),
        ),
        exhibit=_curves(start),
    )
