"""Would the training go better from weights of the usual scale?"""

from __future__ import annotations

import math

import torch

from nbdebug.control import Control
from nbdebug.evidence import InitialWeights, RescaledStart
from nbdebug.registry import probe
from nbdebug.twin import Twin
from nbdebug.twin.race import plain_adam, race

__all__ = ["rescaled_start"]

BATCHES = 8
STEPS = 120  # a layer that passes on a thousandth looks like any other for the first forty
SUSPICIOUS = 2.5  # times above the band of the usual recipes, or as far below it, before the race is worth its time


@probe(quick=False)
def rescaled_start(twin: Twin, weights: InitialWeights, control: Control) -> RescaledStart:
    """Train two copies for a few steps, one of them with rescaled weights."""
    odd = [w for w in weights.weights if w.std > 0 and _is_odd(w.excess, w.is_head)]
    if not odd or not weights.fresh:
        return RescaledStart((), (), ())
    batches, other = twin.batches(BATCHES), twin.fresh()
    as_is = race(twin, batches, plain_adam(twin), STEPS, tell=lambda f: control.progress(f / 2, "training unchanged"))
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
