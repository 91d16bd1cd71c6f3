"""Input features with very different magnitudes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.first_layer_inputs import FirstWeights

__all__ = ["feature_scales_differ"]


@check(
    basis="statistic",
    explains=(
        "initial-loss-off",
        "activations-off-scale",
        "learning-rate-too-high",
        "saturated-units",
        "dead-units",
        "exploding-gradients",
        "cannot-overfit-batch",
        "worse-than-baseline",
        "non-finite-forward",
    ),
)
def feature_scales_differ(
    first: FirstWeights,
    *,
    ratio: float = 100.0,  # two orders of magnitude: the smaller column is 1 % of the sum; our choice
    large: float = 10.0,  # minimum magnitude of the larger one; our choice, …
    far: float = 1e4,  # … unless the ratio exceeds this; our choice
) -> Iterator[Finding]:
    """Some features are hundreds of times larger than others at the input of the first layer.

    The magnitude of a feature is that of its nonzero values, so that sparse and binary columns do not count as small;
    it is measured at the input of the first layer with weights, after any preprocessing inside the model.

    Why it matters: the large features dominate the weighted sums of the layer; the small ones are lost in their noise,
    and no learning rate fits both.

    What to try: standardize every column with its own mean and standard deviation; take the logarithm of columns that
    span orders of magnitude; or start the model with BatchNorm.
    """
    for layer in first.layers:
        magnitudes = layer.filled[layer.filled > 0]
        if len(magnitudes) < 2:
            continue
        low, high = float(magnitudes.min()), float(magnitudes.max())
        if high > ratio * low and (high > large or high > far * low):
            top = int(np.argmax(layer.filled))
            shown = np.argsort(-layer.filled)[:30]
            yield Finding(
                f"Feature {top} has magnitude {high:.4g} at the input of `{layer.path}` ({layer.module}), the smallest "
                f"feature {low:.3g}: a ratio of {high / low:.0f}.",
                where=layer.path,
                severity="suspect",
                evidence={
                    "largest": high,
                    "median": float(np.median(magnitudes)),
                    "smallest": low,
                    "largest feature": top,
                    "samples": layer.samples,
                    "threshold": ratio,
                    "source": "Karpathy, debugging neural networks: scale all inputs equally",
                },
                remedies=(
                    Remedy(
                        "Standardize each column separately.",
                        "x = (x - x.mean(0)) / x.std(0)",
                        Patch("standardize-inputs", {"axis": 1 if "Conv" in layer.module else -1}),
                    ),
                    Remedy(
                        "Start the model with BatchNorm.", f"nn.Sequential(nn.BatchNorm1d({layer.features}), model)"
                    ),
                ),
                exhibit=Bars(
                    tuple(f"feature {i}" for i in shown),
                    tuple(float(layer.filled[i]) for i in shown),
                    title="Feature magnitude",
                    log=True,
                ),
            )
