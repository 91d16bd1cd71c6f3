"""Inputs of the wrong size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nbdebug.evidence import FirstLayer, FirstWeights
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["unnormalised_inputs"]

SOURCE = "37 reasons, 12 and 14: mean 0 and spread 1, or values in [0, 1] or [-1, 1]"


@check(
    explains=("feature-scales-apart", "initial-loss-off", "activations-off-scale", "saturated-units", "dead-units",
              "exploding-gradients", "learning-rate-too-high", "batch-not-memorised", "worse-than-baseline",
              "non-finite-forward")
)  # fmt: skip
def unnormalised_inputs(
    first: FirstWeights,
    *,
    large: float = 15.0,  # pixels of 0 to 16 still train well; those of 0 to 255 have a size of about 100
    small: float = 0.005,  # a picture divided by 255 twice has a size of 0.002
    share: float = 0.25,  # of the features; one column alone is feature-scales-apart
) -> Iterator[Finding]:
    """The inputs arrive at the first weights far too large or far too small.

    nbdebug taps the first layers with weights and measures what really arrives there, so that a scaling inside of
    `forward` counts, and then makes all inputs ten times smaller: a model whose answer does not change normalises by
    itself, wherever it does so. Token ids are not features.

    Why it matters: weights are initialised for inputs of about unit size. With inputs of 100, activations saturate and
    gradients are hundreds of times too large for any usual learning rate; with tiny ones, the biases drown the data.

    What to try: subtract the mean and divide by the standard deviation of the training data, feature by feature or
    channel by channel; divide pixels by 255, once; or begin with a normalising layer.
    """
    if first.ignores_scale:
        return
    for layer in first.layers:
        many = (layer.size > large).mean() > share and ((layer.size > large).sum() > 1 or layer.features == 1)
        filled = float(np.median(layer.filled[layer.filled > 0])) if layer.high > layer.low else 1.0
        if many and layer.drive > 3:  # weights made for such inputs give outputs of unit size
            yield _finding(layer, "large", float(np.median(layer.size[layer.size > large])), large)
        elif filled < small and max(-layer.low, layer.high) < 10 * small:
            yield _finding(layer, "small", filled, small)


def _finding(layer: FirstLayer, kind: str, size: float, threshold: float) -> Finding:
    divide = Remedy("Divide pixels by 255.", "x = x.float() / 255", Patch("scale-inputs", {"factor": 1 / 255}))
    standardise = Remedy(
        "Standardise with the statistics of the training data.",
        "x = (x - mean) / std",
        Patch("standardise-inputs", {"axis": 1 if "Conv" in layer.module else -1}),
    )
    return Finding(
        f"The inputs arrive at {layer.path} ({layer.module}) {'far too ' + kind}: their size is {size:.3g} "
        f"(between {layer.low:.3g} and {layer.high:.3g} in {layer.samples} samples), where about 1 is due.",
        where=layer.path,
        severity="suspect",
        evidence={
            "size": size,
            "lowest": layer.low,
            "highest": layer.high,
            "mean": float(layer.mean.mean()),
            "std": float(layer.std.mean()),
            "samples": layer.samples,
            "threshold": threshold,
            "source": SOURCE,
        },
        remedies=(divide, standardise) if layer.high > 100 and layer.low >= 0 else (standardise,),
        exhibit=Bars(
            tuple(f"feature {i}" for i in range(min(len(layer.size), 30))),
            tuple(float(v) for v in layer.size[:30]),
            title="Size of what arrives",
            log=True,
            band=(0.1, 10.0),
        ),
    )
