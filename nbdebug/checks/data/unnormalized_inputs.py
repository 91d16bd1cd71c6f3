"""The inputs are not normalized."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.first_layer_inputs import FirstLayer, FirstWeights

__all__ = ["unnormalized_inputs"]

SOURCE = "37 reasons, 12 and 14: mean 0 and standard deviation 1, or values in [0, 1] or [-1, 1]"


@check(
    basis="statistic",
    explains=(
        "feature-scales-differ",
        "initial-loss-off",
        "activations-off-scale",
        "saturated-units",
        "dead-units",
        "exploding-gradients",
        "learning-rate-too-high",
        "cannot-overfit-batch",
        "worse-than-baseline",
        "non-finite-forward",
    ),
)
def unnormalized_inputs(
    first: FirstWeights,
    *,
    large: float = 15.0,  # pixels in [0, 16] still train well; those in [0, 255] have a magnitude of about 100
    small: float = 0.005,  # an image divided by 255 twice has a magnitude of 0.002
    share: float = 0.25,  # fraction of the features; a single column is reported by feature-scales-differ; our choice
    drive: float = 3.0,  # of what the weights make of it: those scaled for such inputs give about 1; our choice
    nowhere: float = 10.0,  # times `small`, the largest value of inputs that are too small; our choice
) -> Iterator[Finding]:
    """The inputs of the first layer are far too large or far too small.

    nbdebug hooks the first layers with weights and measures their actual inputs, so a scaling inside `forward` counts,
    and then makes all inputs ten times smaller: a model whose outputs do not change normalizes its inputs itself,
    wherever it does so. Token ids are not features.

    Why it matters: initializations assume inputs near unit scale. With inputs around 100, activations saturate and
    gradients are hundreds of times too large for any usual learning rate; with tiny inputs, the biases dominate the
    data.

    What to try: subtract the mean and divide by the standard deviation of the training data, per feature or per
    channel; divide pixels by 255, once; or start with a normalization layer.
    """
    if first.ignores_scale:
        return
    for layer in first.layers:
        many = (layer.size > large).mean() > share and ((layer.size > large).sum() > 1 or layer.features == 1)
        filled = float(np.median(layer.filled[layer.filled > 0])) if layer.high > layer.low else 1.0
        if many and layer.drive > drive:
            yield _finding(layer, first.pictures, "large", float(np.median(layer.size[layer.size > large])), large)
        elif filled < small and max(-layer.low, layer.high) < nowhere * small:
            yield _finding(layer, first.pictures, "small", filled, small)


def _finding(layer: FirstLayer, pictures: bool, kind: str, size: float, threshold: float) -> Finding:
    divide = Remedy("Divide pixels by 255.", "x = x.float() / 255", Patch("scale-inputs", {"factor": 1 / 255}))
    standardize = Remedy(
        "Standardize with the mean and standard deviation of the training data.",
        "x = (x - mean) / std",
        Patch("standardize-inputs", {"axis": 1 if "Conv" in layer.module else -1}),
    )
    return Finding(
        f"The inputs of `{layer.path}` ({layer.module}) are far too {kind}: typical magnitude {size:.3g} instead of "
        f"about 1 (range {layer.low:.4g} to {layer.high:.4g} in {layer.samples} samples).",
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
        remedies=(divide, standardize) if pictures and 100 < layer.high <= 255 and layer.low >= 0 else (standardize,),
        exhibit=Bars(
            tuple(f"feature {i}" for i in range(min(len(layer.size), 30))),
            tuple(float(v) for v in layer.size[:30]),
            title="Input magnitude",
            log=True,
            band=(0.1, 10.0),
        ),
    )
