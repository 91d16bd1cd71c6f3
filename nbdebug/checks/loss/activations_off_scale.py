"""Activations that vanish or explode with depth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.gradient_flow import GradientFlow, LayerFlow, Trend

__all__ = ["activations_off_scale"]


@check(basis="statistic", explains=("cannot-overfit-batch", "initial-loss-off", "outputs-identical"))
def activations_off_scale(
    flow: GradientFlow,
    *,
    shrinks: float = 1e-5,  # a plain network on digits below this was not trainable with any optimizer
    grows: float = 1e3,  # our choice: doubling in each of ten layers
    factor: float = 1.5,  # per layer; residual networks stay below
    order: float = 0.8,  # rank correlation with depth; below it there is no trend; our choice
    largest: float = 0.6,  # share of the total change from a single layer; above it there is no trend; our choice
    layers: int = 4,  # our choice: one order of three layers in three is a perfect trend, of four one in twelve
) -> Iterator[Finding]:
    """Activations vanish or explode with depth.

    nbdebug measures the standard deviation of every hidden layer's output across samples and its trend over depth. The
    last layer is excluded: the scale of its output depends on the targets.

    Why it matters: a signal that halves in every layer is gone after twenty, and the last layers cannot tell samples
    apart; one that doubles ends in saturation, overflow and a huge initial loss.

    What to try: use the initialization for the activation (He for ReLU, Glorot for tanh), normalization between layers,
    or residual connections.
    """
    trend = flow.signal
    if trend is None or trend.layers < layers:
        raise NotApplicable(f"a trend over depth needs at least {layers} hidden layers with weights")
    vanishes = trend.ratio < shrinks and trend.order < -order and trend.largest < largest
    explodes = trend.ratio > grows and trend.factor > factor and trend.order > order and trend.largest < largest
    if not vanishes and not explodes:
        return
    yield _finding(flow.layers[:-1], trend, shrinks if vanishes else grows)


def _finding(hidden: Sequence[LayerFlow], trend: Trend, threshold: float) -> Finding:
    return Finding(
        f"Activations {'vanish' if trend.ratio < 1 else 'explode'} with depth: their standard deviation goes from "
        f"{hidden[0].spread:.2g} at `{hidden[0].path}` to {hidden[-1].spread:.2g} at `{hidden[-1].path}` "
        f"(factor {trend.factor:.2f} per layer, {trend.layers} layers).",
        where=hidden[0].path,
        severity="suspect",
        evidence={
            "last over first": trend.ratio,
            "factor for each layer": trend.factor,
            "threshold": threshold,
            "source": "37 reasons, 33: a standard deviation between 0.5 and 2; evaluated here as a trend over depth",
        },
        remedies=(
            Remedy(
                "Initialize for the activation: He for ReLU, Glorot for tanh.",
                "nn.init.kaiming_normal_(layer.weight, nonlinearity='relu')",
                Patch("reinitialize", {"gain": "relu"}),
            ),
            Remedy(
                "Divide sums over neighbors or positions by their number.",
                "x = adjacency @ x / adjacency.sum(-1, keepdim=True)",
                Patch("unit-activations"),
            ),
            Remedy("Add normalization between layers.", "nn.BatchNorm1d(width)", Patch("normalize-between")),
        ),
        exhibit=Bars(
            tuple(layer.path for layer in hidden),
            tuple(layer.spread for layer in hidden),
            title="Activation standard deviation by layer",
            log=True,
            band=(0.5, 2.0),
        ),
    )
