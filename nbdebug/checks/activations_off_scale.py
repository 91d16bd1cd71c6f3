"""Signals that grow or die with depth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nbdebug.errors import NotApplicable
from nbdebug.evidence import GradientFlow, LayerFlow, Trend
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["activations_off_scale"]


@check(explains=("batch-not-memorised", "initial-loss-off", "outputs-identical"))
def activations_off_scale(
    flow: GradientFlow,
    *,
    shrinks: float = 1e-5,  # a plain network on digits that loses more was trained by no optimizer
    grows: float = 1e3,
    factor: float = 1.5,  # for each layer; residual networks stay below
    order: float = 0.8,  # rank correlation with depth: a trend
    largest: float = 0.6,  # share of the whole change that one layer may make: a trend, not one layer
) -> Iterator[Finding]:
    """The signal grows or dies with depth.

    nbdebug measures how much the output of every hidden layer varies from sample to sample and looks at the trend
    over depth. The last layer is left out: its output is the answer and has its own scale.

    Why it matters: a signal that halves in every layer is gone after twenty, and all samples look the same to the last
    layers; one that doubles ends in saturation, overflow and a huge first loss.

    What to try: an initialisation for the activation (He for ReLU, Glorot for tanh), normalisation between layers, or
    residual connections.
    """
    trend = flow.signal
    if trend is None or trend.layers < 4:
        raise NotApplicable("a trend over depth needs at least four hidden layers with weights")
    dies = trend.ratio < shrinks and trend.order < -order and trend.largest < largest
    bursts = trend.ratio > grows and trend.factor > factor and trend.order > order and trend.largest < largest
    if not dies and not bursts:
        return
    yield _finding(flow.layers[:-1], trend, shrinks if dies else grows)


def _finding(hidden: Sequence[LayerFlow], trend: Trend, threshold: float) -> Finding:
    return Finding(
        f"The signal {'dies' if trend.ratio < 1 else 'grows'} with depth: from sample to sample the output of "
        f"{hidden[0].path} varies by {hidden[0].spread:.2g}, that of {hidden[-1].path} by {hidden[-1].spread:.2g}; "
        f"each of {trend.layers} layers multiplies it by {trend.factor:.2f}.",
        where=hidden[0].path,
        severity="suspect",
        evidence={
            "last over first": trend.ratio,
            "factor for each layer": trend.factor,
            "threshold": threshold,
            "source": "37 reasons, 33: a standard deviation between 0.5 and 2; judged here by its trend",
        },
        remedies=(
            Remedy(
                "Initialise for the activation.",
                "nn.init.kaiming_normal_(layer.weight, nonlinearity='relu')",
                Patch("reinitialise", {"gain": "relu"}),
            ),
            Remedy("Normalise between layers.", "nn.BatchNorm1d(width)", Patch("normalise-between")),
        ),
        exhibit=Bars(
            tuple(layer.path for layer in hidden),
            tuple(layer.spread for layer in hidden),
            title="Spread of the signal, layer by layer",
            log=True,
            band=(0.5, 2.0),
        ),
    )
