"""Columns of very different size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nbdebug.evidence import FirstWeights
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["feature_scales_apart"]


@check(explains=("initial-loss-off", "activations-off-scale", "learning-rate-too-high", "saturated-units", "dead-units",
                 "exploding-gradients", "batch-not-memorised", "worse-than-baseline",
                 "non-finite-forward"))  # fmt: skip
def feature_scales_apart(
    first: FirstWeights,
    *,
    ratio: float = 100.0,  # two orders of magnitude: the smaller column is 1 % of the sum
    large: float = 10.0,  # the larger of them has to be large in itself, …
    far: float = 1e4,  # … unless they are as far apart as this
) -> Iterator[Finding]:
    """Some features arrive at the first weights hundreds of times larger than others.

    The size of a feature is that of its values other than zero, so that rare and binary columns are not small ones;
    it is measured where the features really arrive, behind whatever the model does to them first.

    Why it matters: the sum over the inputs of a layer is the large columns; what the small ones say is lost in their
    noise, and no learning rate fits both.

    What to try: standardise every column with its own mean and standard deviation; take the logarithm of columns that
    span orders of magnitude; or begin with batch normalisation.
    """
    for layer in first.layers:
        size = layer.filled[layer.filled > 0]
        if len(size) < 2:
            continue
        low, high = float(size.min()), float(size.max())
        if high > ratio * low and (high > large or high > far * low):
            top = int(np.argmax(layer.filled))
            shown = np.argsort(-layer.filled)[:30]
            yield Finding(
                f"Feature {top} arrives at {layer.path} ({layer.module}) with a size of {high:.3g}, another with "
                f"{low:.3g}: a factor of {high / low:.0f}.",
                where=layer.path,
                severity="suspect",
                evidence={
                    "largest": high,
                    "median": float(np.median(size)),
                    "smallest": low,
                    "largest feature": top,
                    "samples": layer.samples,
                    "threshold": ratio,
                    "source": "Karpathy, debugging neural networks: scale the inputs alike",
                },
                remedies=(
                    Remedy(
                        "Standardise every column by itself.",
                        "x = (x - x.mean(0)) / x.std(0)",
                        Patch("standardise-inputs", {"axis": 1 if "Conv" in layer.module else -1}),
                    ),
                    Remedy("Let the model do it.", f"nn.Sequential(nn.BatchNorm1d({layer.features}), model)"),
                ),
                exhibit=Bars(
                    tuple(f"feature {i}" for i in shown),
                    tuple(float(layer.filled[i]) for i in shown),
                    title="Size of the features",
                    log=True,
                ),
            )
