"""Gradients that die on their way back."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import GradientFlow, Trend
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy, Severity
from nbdebug.registry import check

__all__ = ["vanishing_gradients"]


@check(explains=("batch-not-memorised", "untrained-parameters", "activations-off-scale", "loss-flat"))
def vanishing_gradients(
    flow: GradientFlow,
    *,
    ratio: float = 1e-5,  # first layer over last; below it not even Adam trained a plain network on digits
    with_updates: float = 1e-3,  # AutoTrainer's ratio, where the steps of the first layers shrink as much
    order: float = 0.8,  # rank correlation with depth: a trend
    largest: float = 0.6,  # share of the whole change that one layer may make: a trend, not one layer
) -> Iterator[Finding]:
    """The gradient shrinks from layer to layer on its way back, until the first layers get none.

    nbdebug measures the gradient at the output of every layer with weights and looks at the trend over depth, then
    takes one step with your optimizer and compares how far the first and the last layers move.

    Why it matters: the first layers, on which all others build, stay as they were initialised; the last ones have to
    make do with random features.

    What to try: residual connections, normalisation between layers, ReLU or GELU instead of sigmoid and tanh, an
    initialisation for the activation (He, Glorot), or fewer layers.
    """
    trend = flow.gradient
    if trend is None or trend.layers < 4:
        raise NotApplicable("a trend over depth needs at least four layers with weights")
    first, last = flow.layers[0], flow.layers[-1]
    lag = first.update / last.update if last.update > 0 else 1.0
    harmed = lag < with_updates and trend.ratio < with_updates
    if trend.order > -order or trend.largest > largest or trend.factor > 0.6 or not (trend.ratio < ratio or harmed):
        return
    severity: Severity = "bug" if trend.ratio < ratio else "suspect"
    yield _finding(flow, trend, lag, ratio if trend.ratio < ratio else with_updates, severity)


def _finding(flow: GradientFlow, trend: Trend, lag: float, threshold: float, severity: Severity) -> Finding:
    first, last = flow.layers[0], flow.layers[-1]
    return Finding(
        f"The gradient at {first.path} is {trend.ratio:.1e} times that at {last.path}: over {trend.layers} layers each "
        f"leaves {trend.factor:.2f} of it. One step of {flow.optimizer} moves the first by {first.update:.1e} of its "
        f"size and the last by {last.update:.1e}.",
        where=first.path,
        severity=severity,
        evidence={
            "first over last": trend.ratio,
            "factor for each layer": trend.factor,
            "mean gradient of the first weights": first.weight_gradient,
            "first update over last": lag,
            "threshold": threshold,
            "source": "AutoTrainer: first over last below 1e-3; TheDeepChecker: shrinking from layer to layer",
        },
        remedies=(
            Remedy(
                "Use an activation without flat ends, and weights drawn for it.",
                "nn.ReLU()\nnn.init.kaiming_normal_(layer.weight, nonlinearity='relu')",
                Patch("relu-activations"),
            ),
            Remedy("Let the gradient pass beside the layers.", "x = x + block(x)", Patch("shortcuts")),
            Remedy("Normalise between layers.", "nn.BatchNorm1d(width)", Patch("normalise-between")),
        ),
        exhibit=Bars(
            tuple(layer.path for layer in flow.layers),
            tuple(layer.gradient for layer in flow.layers),
            title="Gradient norm, layer by layer",
            log=True,
        ),
    )
