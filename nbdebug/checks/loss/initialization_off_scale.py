"""Weights that are initialized far too large or too small."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from nbdebug.charts import Lines
from nbdebug.core.control import Control
from nbdebug.core.finding import Finding, Patch, Remedy, Severity, in_code
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.initial_weights import InitialWeights, WeightFacts
from nbdebug.experiments.textbook_training import final_loss, plain_adam, race
from nbdebug.sandbox import Sandbox

__all__ = ["RescaledStart", "initialization_off_scale", "rescaled_start"]


@dataclass(frozen=True)
class RescaledStart:
    """The loss of a short training as the weights are, and with the weights of some layers brought to scale."""

    layers: tuple[WeightFacts, ...]
    as_is: tuple[float, ...]
    rescaled: tuple[float, ...]

    @property
    def gain(self) -> float:
        """How much lower the loss is with the weights to scale, early or in the end, as a share of where that began."""
        if not self.rescaled:
            return 0.0
        third = len(self.rescaled) // 3
        pairs = ((self.as_is, self.rescaled), (self.as_is[:third], self.rescaled[:third]))
        lower = [
            final_loss(as_is, rescaled) - final_loss(rescaled, as_is) for as_is, rescaled in pairs if as_is and rescaled
        ]
        return max(lower) / max(abs(self.rescaled[0]), 1e-12)

    @property
    def is_made_up_for(self) -> bool:
        """Whether the training as it is has come further in the end, wherever it began."""
        return bool(self.rescaled) and final_loss(self.as_is, self.rescaled) < final_loss(self.rescaled, self.as_is)

    @property
    def head_start(self) -> float:
        """How much lower the first loss is with the weights to scale, as a share of itself."""
        return (self.as_is[0] - self.rescaled[0]) / max(abs(self.rescaled[0]), 1e-12) if self.rescaled else 0.0


BATCHES = 8
STEPS = 120  # a layer that passes on a thousandth looks like any other for the first forty
SUSPICIOUS = 2.5  # times above the band of the usual recipes, or as far below it, before the race is worth its time


@probe(quick=False)
def rescaled_start(sandbox: Sandbox, weights: InitialWeights, control: Control) -> RescaledStart:
    """Train two copies for a few steps, one of them with rescaled weights."""
    odd = [w for w in weights.weights if w.std > 0 and _is_odd(w.excess, w.is_head)]
    if not odd or not weights.fresh:
        return RescaledStart((), (), ())
    batches, other = sandbox.batches(BATCHES), sandbox.fresh()
    as_is = race(
        sandbox, batches, plain_adam(sandbox), STEPS, tell=lambda f: control.progress(f / 2, "training unchanged")
    )
    modules = dict(other.model.named_modules())
    with torch.no_grad():
        for weight in odd:
            owner = modules["" if weight.path == "model" else weight.path]
            factor = math.sqrt(weight.low * weight.high) / weight.std
            getattr(owner, weight.name).mul_(factor)
            for other_part in owner.parameters(recurse=False):
                if other_part.dim() == 1 and factor < 1:  # a bias that came with the weights goes with them
                    other_part.mul_(factor)
    rescaled = race(
        other,
        batches,
        plain_adam(other),
        STEPS,
        tell=lambda f: control.progress(0.5 + f / 2, "training with rescaled weights"),
    )
    return RescaledStart(tuple(odd), as_is, rescaled)


def _is_odd(excess: float, is_head: bool) -> bool:
    """Whether a spread is worth a race; a last layer may start as small as it likes."""
    return excess > SUSPICIOUS or (excess < 1 / SUSPICIOUS and not is_head)


@check(
    basis="statistic",
    explains=(
        "initial-loss-off",
        "cannot-overfit-batch",
        "activations-off-scale",
        "vanishing-gradients",
        "exploding-gradients",
        "saturated-units",
        "dead-units",
        "outputs-identical",
        "missing-nonlinearity",
        "update-ratio-off",
    ),
)
def initialization_off_scale(
    weights: InitialWeights,
    start: RescaledStart,
    *,
    excess: float = 3.0,  # TheDeepChecker tests the variance against He, Glorot and LeCun; this exceeds all of them
    gain: float = 0.2,  # of the initial loss, within a few steps; our choice
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
                Patch("reinitialize", {"paths": [w.path for w in off_scale]}),
            ),
            Remedy("Use PyTorch's default initialization.", f"{in_code(first.path)}.reset_parameters()"),
        ),
        exhibit=_curves(start),
    )
