"""Gradients that grow on their way back."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import GradientFlow, TimeFlow, Trend
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["exploding_gradients"]

SOURCE = "AutoTrainer: first over last above 70; TheDeepChecker: above 1e6 and doubling"


@check(
    explains=(
        "batch-not-memorised",
        "initial-loss-off",
        "activations-off-scale",
        "learning-rate-too-high",
        "non-finite-loss",
        "loss-diverges",
        "loss-spikes",
    )
)
def exploding_gradients(
    flow: GradientFlow,
    *,
    ratio: float = 1e3,  # between AutoTrainer's 70, which deep normalised networks pass, and TheDeepChecker's 1e6
    factor: float = 1.5,  # for each layer; plain networks with batch normalisation reach 1.2
    order: float = 0.8,  # rank correlation with depth: a trend
    largest: float = 0.6,  # share of the whole change that one layer may make: a trend, not one layer
    in_time: float = 1e4,
) -> Iterator[Finding]:
    """The gradient grows from layer to layer, or from time step to time step, on its way back.

    nbdebug measures the gradient at the output of every layer with weights and looks at the trend over depth; for
    recurrent layers it follows the gradient of the last time step back to the first.

    Why it matters: the first layers receive steps thousands of times too large. Training jumps about or ends in NaN,
    and a learning rate that is small enough for them is too small for all the others.

    What to try: an initialisation for the fan (He, Glorot), normalisation between layers, gated recurrent layers, an
    orthogonal recurrent weight, and torch.nn.utils.clip_grad_norm_ as a safety net.
    """
    trend = flow.gradient
    for walk in flow.time:
        if walk.ratio > in_time:
            yield _in_time(walk, in_time)
    if trend is None or trend.layers < 4:
        if flow.time:
            return
        raise NotApplicable("a trend over depth needs at least four layers with weights")
    if trend.ratio > ratio and trend.factor > factor and trend.order > order and trend.largest < largest:
        yield _over_depth(flow, trend, ratio)


def _remedies() -> tuple[Remedy, ...]:
    return (
        Remedy(
            "Initialise for the fan.", "nn.init.kaiming_normal_(layer.weight)", Patch("reinitialise", {"gain": "relu"})
        ),
        Remedy(
            "Clip what is left.",
            "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
            Patch("clip-gradients", {"norm": 1.0}),
        ),
    )


def _in_time(walk: TimeFlow, threshold: float) -> Finding:
    return Finding(
        f"In {walk.path} the gradient grows {walk.ratio:.1e} times on its way back over {walk.steps} time steps.",
        where=walk.path,
        evidence={"growth": walk.ratio, "steps": walk.steps, "threshold": threshold, "source": SOURCE},
        remedies=_remedies(),
    )


def _over_depth(flow: GradientFlow, trend: Trend, threshold: float) -> Finding:
    first, last = flow.layers[0], flow.layers[-1]
    return Finding(
        f"The gradient at {first.path} is {trend.ratio:.1e} times that at {last.path}: over {trend.layers} layers "
        f"each multiplies it by {trend.factor:.1f}.",
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
            title="Gradient norm, layer by layer",
            log=True,
        ),
    )
