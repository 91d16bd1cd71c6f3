"""Weights that are initialized far too large or too small."""

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
    excess: float = 3.0,  # TheDeepChecker tests the variance against He, Glorot and LeCun; this exceeds all of them
    gain: float = 0.2,  # of the initial loss, within a few steps
    head_start: float = 1.0,  # TheDeepChecker: an initial loss off by 100 %
) -> Iterator[Finding]:
    """Weights are initialized far too large or too small for their fan-in, and training suffers.

    nbdebug compares the standard deviation of every weight with the He, Glorot, LeCun and PyTorch initializations for
    its fan-in and fan-out. Where it is far outside, two copies are trained for a few steps, one of them with these
    weights rescaled. A much higher initial loss that those steps make up for is only a note.

    Why it matters: a layer that multiplies its signal by ten makes a network of five layers multiply it by a hundred
    thousand, and one that divides it leaves no signal to learn from.

    What to try: nn.init.kaiming_normal_ before ReLU, nn.init.xavier_uniform_ before tanh and sigmoid, and zero biases.
    """
    if not weights.fresh:
        raise NotApplicable(f"the model does not look untrained: {weights.reason}")
    off_scale = [w for w in start.layers if w.excess > excess or w.excess < 1 / excess]
    if off_scale and (severity := _severity(start, gain, head_start)):
        yield _finding(off_scale, start, excess, severity)


def _severity(start: RescaledStart, gain: float, head_start: float) -> Severity | None:
    """Return the severity by what the weights affect: training, its start, or the initial loss only."""
    if start.gain >= gain or not math.isfinite(start.gain):
        return "note" if start.is_made_up_for else "bug"
    if start.head_start <= head_start:
        return None
    return "suspect" if start.gain > 0 else "note"


def _curves(start: RescaledStart) -> Lines:
    series = (("original weights", start.as_is), ("rescaled weights", start.rescaled))
    return Lines(tuple((n, tuple(map(float, range(len(v)))), v) for n, v in series), log_y=True)


def _finding(off_scale: Sequence[WeightFacts], start: RescaledStart, threshold: float, severity: Severity) -> Finding:
    worst = max(off_scale, key=lambda w: abs(math.log(w.excess)))
    first = off_scale[0]
    expected = math.sqrt(worst.low * worst.high)
    others = f" (and {len(off_scale) - 1} more layer{'s' * (len(off_scale) > 2)})" if len(off_scale) > 1 else ""
    return Finding(
        f"The weights of `{worst.path}`{others} have a standard deviation of {worst.std:.3g}; about {expected:.2g} is "
        f"expected for fan-in {worst.fan_in}. Rescaled, the loss after {len(start.rescaled)} steps is "
        f"{start.rescaled[-1]:.3g} instead of {start.as_is[-1]:.3g} (initially {start.rescaled[0]:.3g} instead of "
        f"{start.as_is[0]:.3g}).",
        where=first.path,
        severity=severity,
        evidence={
            "spreads": {f"{w.path}.{w.name}": w.std for w in off_scale},
            "usual": {f"{w.path}.{w.name}": [w.low, w.high] for w in off_scale},
            "gain": start.gain,
            "threshold": threshold,
            "source": "He et al. 2015, Glorot and Bengio 2010; TheDeepChecker",
        },
        remedies=(
            Remedy(
                "Re-initialize the weights for their fan-in.",
                f"nn.init.kaiming_normal_({in_code(first.path)}.{first.name})",
                Patch("reinitialise", {"paths": [w.path for w in off_scale]}),
            ),
            Remedy("Use PyTorch's default initialization.", f"{in_code(first.path)}.reset_parameters()"),
        ),
        exhibit=_curves(start),
    )
