"""Gradients vanish toward the first layers."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy, Severity
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.gradient_flow import GradientFlow, Trend

__all__ = ["vanishing_gradients"]


@check(
    basis="statistic", explains=("cannot-overfit-batch", "untrained-parameters", "activations-off-scale", "loss-flat")
)
def vanishing_gradients(
    flow: GradientFlow,
    *,
    ratio: float = 1e-5,  # first layer over last; below it not even Adam trained an MLP on digits
    with_updates: float = 1e-3,  # AutoTrainer's ratio, where the updates of the first layers shrink as much
    factor: float = 0.6,  # per layer; our choice between 1 and 0.25, the largest derivative of a sigmoid
    order: float = 0.8,  # rank correlation with depth: a trend; our choice
    largest: float = 0.6,  # fraction of the total change due to one layer: a trend, not a single layer; our choice
    layers: int = 4,  # our choice: one order of three layers in three is a perfect trend, of four one in twelve
) -> Iterator[Finding]:
    """The gradient shrinks from layer to layer in the backward pass and vanishes in the first layers.

    nbdebug measures the gradient at the output of every layer with weights and its trend over depth, then takes one
    step with your optimizer and compares the updates of the first and the last layer.

    Why it matters: the first layers, which all others build on, keep their initial weights; the last ones have to work
    with random features.

    What to try: residual connections, normalization between layers, ReLU or GELU instead of sigmoid and tanh, an
    initialization that matches the activation (He, Glorot), or fewer layers.
    """
    trend = flow.gradient
    if trend is None or trend.layers < layers:
        raise NotApplicable(f"a trend over depth needs at least {layers} layers with weights")
    first, last = flow.layers[0], flow.layers[-1]
    lag = first.update / last.update if last.update > 0 else 1.0
    harmed = lag < with_updates and trend.ratio < with_updates
    if trend.order > -order or trend.largest > largest or trend.factor > factor or not (trend.ratio < ratio or harmed):
        return
    severity: Severity = "bug" if trend.ratio < ratio else "suspect"
    yield _finding(flow, trend, lag, ratio if trend.ratio < ratio else with_updates, severity)


def _finding(flow: GradientFlow, trend: Trend, lag: float, threshold: float, severity: Severity) -> Finding:
    first, last = flow.layers[0], flow.layers[-1]
    return Finding(
        f"The gradient at `{first.path}` is {trend.ratio:.1e} times that at `{last.path}`: each of {trend.layers} "
        f"layers scales it by {trend.factor:.2f}. One `{flow.optimizer}` step changes them by {first.update:.1e} and "
        f"{last.update:.1e} (relative).",
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
                "Use a non-saturating activation with matching initialization.",
                "nn.ReLU()\nnn.init.kaiming_normal_(layer.weight, nonlinearity='relu')",
                Patch("relu-activations"),
            ),
            Remedy("Add residual connections.", "x = x + block(x)", Patch("shortcuts")),
            Remedy("Add normalization between layers.", "nn.BatchNorm1d(width)", Patch("normalize-between")),
        ),
        exhibit=Bars(
            tuple(layer.path for layer in flow.layers),
            tuple(layer.gradient for layer in flow.layers),
            title="Gradient norm per layer",
            log=True,
        ),
    )
