"""Gradients that grow during the backward pass."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.gradient_flow import GradientFlow, TimeFlow, Trend

__all__ = ["exploding_gradients"]

SOURCE = "AutoTrainer: first over last above 70; TheDeepChecker: above 1e6 and doubling"


@check(
    basis="statistic",
    explains=(
        "cannot-overfit-batch",
        "initial-loss-off",
        "activations-off-scale",
        "learning-rate-too-high",
        "non-finite-loss",
        "loss-diverges",
        "loss-spikes",
    ),
)
def exploding_gradients(
    flow: GradientFlow,
    *,
    ratio: float = 1e3,  # between AutoTrainer's 70, which deep normalized networks exceed, and TheDeepChecker's 1e6
    factor: float = 1.5,  # per layer; plain networks with BatchNorm reach 1.2
    order: float = 0.8,  # rank correlation with depth; below it there is no trend; our choice
    largest: float = 0.6,  # share of the total change from a single layer; above it there is no trend; our choice
    in_time: float = 1e4,  # our choice: ten times that over depth, because sequences are longer than networks are deep
    layers: int = 4,  # our choice: one order of three layers in three is a perfect trend, of four one in twelve
) -> Iterator[Finding]:
    """The gradient grows from layer to layer, or from time step to time step, in the backward pass.

    nbdebug measures the gradient at the output of every layer with weights and its trend over depth; for recurrent
    layers it traces the gradient of the last time step back to the first.

    Why it matters: the first layers receive updates thousands of times too large. Training is unstable or ends in NaN,
    and a learning rate that is small enough for them is too small for all other layers.

    What to try: use an initialization for the fan-in (He, Glorot), normalization between layers, gated recurrent
    layers, orthogonal recurrent weights, and torch.nn.utils.clip_grad_norm_ as a safety net.
    """
    trend = flow.gradient
    for recurrent in flow.time:
        if recurrent.ratio > in_time:
            yield _in_time(recurrent, in_time)
    if trend is None or trend.layers < layers:
        if flow.time:
            return
        raise NotApplicable(f"a trend over depth needs at least {layers} layers with weights")
    if trend.ratio > ratio and trend.factor > factor and trend.order > order and trend.largest < largest:
        yield _over_depth(flow, trend, ratio)


def _remedies() -> tuple[Remedy, ...]:
    return (
        Remedy(
            "Re-initialize the weights for their fan-in.",
            "nn.init.kaiming_normal_(layer.weight)",
            Patch("reinitialize", {"gain": "relu"}),
        ),
        Remedy(
            "Clip the gradient norm.",
            "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
            Patch("clip-gradients", {"norm": 1.0}),
        ),
    )


def _in_time(recurrent: TimeFlow, threshold: float) -> Finding:
    return Finding(
        f"In `{recurrent.path}` the gradient grows by a factor of {recurrent.ratio:.1e} in the backward pass through "
        f"{recurrent.steps} time steps.",
        where=recurrent.path,
        evidence={"growth": recurrent.ratio, "steps": recurrent.steps, "threshold": threshold, "source": SOURCE},
        remedies=_remedies(),
    )


def _over_depth(flow: GradientFlow, trend: Trend, threshold: float) -> Finding:
    first, last = flow.layers[0], flow.layers[-1]
    return Finding(
        f"The gradient at `{first.path}` is {trend.ratio:.1e} times the gradient at `{last.path}`: it grows by a "
        f"factor of {trend.factor:.1f} per layer over {trend.layers} layers.",
        where=first.path,
        evidence={
            "first over last": trend.ratio,
            "factor for each layer": trend.factor,
            "threshold": threshold,
            "source": SOURCE,
        },
        remedies=_remedies(),
        exhibit=Bars(
            tuple(layer.path for layer in flow.layers),
            tuple(layer.gradient for layer in flow.layers),
            title="Gradient norm by layer",
            log=True,
        ),
    )
