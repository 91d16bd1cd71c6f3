"""What the evidence of a step looks like: charts in the field's words, for each kind of evidence that has any."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from nbdebug.charts import Bars, Exhibit, Lines
from nbdebug.checks.loss.initialization_off_scale import RescaledStart
from nbdebug.checks.loss.loss_sums_over_batch import BatchScaling
from nbdebug.checks.optimization.model_ignores_inputs import BlindRun
from nbdebug.checks.passes.batch_mixing import BatchMixing
from nbdebug.evidence.baselines import Baselines
from nbdebug.evidence.first_layer_inputs import FirstWeights
from nbdebug.evidence.first_pass import FirstPass
from nbdebug.evidence.gradient_flow import GradientFlow
from nbdebug.evidence.initial_loss import InitialLoss
from nbdebug.evidence.initial_weights import InitialWeights
from nbdebug.evidence.learning_gate import LearningGate
from nbdebug.evidence.learning_rate_trials import RateTrials
from nbdebug.evidence.loader_sweep import LoaderSweep
from nbdebug.evidence.overfit_one_batch import Overfit
from nbdebug.evidence.parameter_gradients import GradientReach
from nbdebug.evidence.short_run import Pace, ShortRun, UpdateRatios
from nbdebug.evidence.unit_activity import UnitActivity

__all__ = ["charts_of", "is_charted", "training_curve"]

MOST_CLASSES = 30
USUAL_UPDATE = (1e-4, 1e-2)  # Karpathy, "makemore": about 1e-3 of the weight in a step, a decade to either side


def is_charted(known: Any) -> bool:
    """Return whether this kind of evidence has charts of its own."""
    return type(known) in CHARTS


def charts_of(known: Any) -> list[Exhibit]:
    """Return the charts of an evidence; none where it has nothing that can be drawn."""
    return [chart for chart in CHARTS[type(known)](known) if _is_worth_it(chart)]


def training_curve(gate: LearningGate, title: str) -> Lines:
    """Return the short training that is judged, beside the one that it is compared with."""
    curves = [("your training", gate.losses)]
    curves += [(gate.reference_name, gate.reference_losses)] if gate.reference_losses else []
    return Lines.of_losses(curves, title)


def _is_worth_it(chart: Exhibit) -> bool:
    values = chart.values if isinstance(chart, Bars) else getattr(chart, "series", ())
    return len(values) > 0


def _bars(title: str, pairs: Iterable[tuple[str, float]], **more: Any) -> Bars:
    known = [(str(name), float(value)) for name, value in pairs if value is not None and math.isfinite(value)]
    return Bars(tuple(name for name, _ in known), tuple(value for _, value in known), title, **more)


def _sweep(known: LoaderSweep) -> Iterator[Exhibit]:
    for name, labels in known.labels.items():
        classes, counts = np.unique(labels, return_counts=True)
        if 2 <= len(classes) <= MOST_CLASSES and np.allclose(classes, np.round(classes)):
            pairs = [(f"class {int(c)}", float(n)) for c, n in zip(classes, counts, strict=True)]
            yield _bars(f"Samples per class ({name})", pairs)
    for part in known.inputs[:1]:
        facts = [("minimum", part.low), ("mean", part.mean), ("standard deviation", part.std), ("maximum", part.high)]
        yield _bars(f"Values of {part.name}", facts)


def _first_weights(known: FirstWeights) -> Iterator[Exhibit]:
    for layer in known.layers[:1]:
        facts = [("mean", np.mean(layer.mean)), ("standard deviation", np.mean(layer.std)), ("unit scale", 1.0)]
        yield _bars(f"Inputs of {layer.path}, the first layer", facts)


def _baselines(known: Baselines) -> Iterator[Exhibit]:
    yield _bars("Score of simple models on held-out folds", [*known.scores.items(), ("chance level", known.chance)])


def _mixing(known: BatchMixing) -> Iterator[Exhibit]:
    pairs = [("one sample replaced", known.influence), ("same batch again", known.noise)]
    yield _bars("Relative change of the other outputs", pairs)


def _initial_loss(known: InitialLoss) -> Iterator[Exhibit]:
    for first in known.guesses[:2]:
        chance = f"chance level ({first.classes} classes)" if first.classes > 1 else "chance level"
        pairs = [("your first loss", first.loss), (chance, first.guess), ("best constant output", first.constant)]
        yield _bars(f"Initial loss{f' of {first.name}' if first.name else ''}", pairs)


def _first_pass(known: FirstPass) -> Iterator[Exhibit]:
    if known.chance_loss is not None:
        yield _bars("Loss of the first batch", [("your loss", known.loss), ("chance level", known.chance_loss)])


def _scaling(known: BatchScaling) -> Iterator[Exhibit]:
    yield _bars("Loss of a batch", [("one batch", known.once), ("the batch twice", known.twice)])


def _reach(known: GradientReach) -> Iterator[Exhibit]:
    trained = [p for p in known.parameters if p.requires_grad]
    pairs = [(p.name, max((g for g in p.gradients if g is not None), default=0.0)) for p in trained]
    yield _bars("Gradient norm per parameter", pairs, log=True)


def _weights(known: InitialWeights) -> Iterator[Exhibit]:
    yield _bars("Weight standard deviation per layer", [(w.path, w.std) for w in known.weights], log=True)


def _rescaled(known: RescaledStart) -> Iterator[Exhibit]:
    curves = [("as it is", known.as_is), ("default initialization", known.rescaled)]
    yield from _lines("Loss from another start", curves)


def _flow(known: GradientFlow) -> Iterator[Exhibit]:
    yield _bars("Standard deviation of each layer's output", [(la.path, la.spread) for la in known.layers], log=True)
    yield _bars("Gradient of each layer's output", [(layer.path, layer.gradient) for layer in known.layers], log=True)


def _units(known: UnitActivity) -> Iterator[Exhibit]:
    shares = [
        (layer.path, 100 * (layer.saturated if layer.bounded else layer.dead) / max(layer.units, 1))
        for layer in known.layers
    ]
    yield _bars(f"Dead or saturated units over {known.samples:,} {known.unit}", shares, unit="%")


def _rates(known: RateTrials) -> Iterator[Exhibit]:
    curves = [(f"{c.learning_rate:.3g}{' (yours)' * (c is known.own)}", c.losses) for c in known.trials]
    yield from _lines("Loss on one batch, by learning rate", curves)


def _overfit(known: Overfit) -> Iterator[Exhibit]:
    yield from _lines("Loss while overfitting one batch", [(f"{known.batch_size} samples", known.curve.losses)])


def _blind(known: BlindRun) -> Iterator[Exhibit]:
    curves = [("real inputs", known.sighted.losses), ("one input for all", known.blind.losses)]
    yield from _lines("Loss while overfitting one batch", curves)


def _gate(known: LearningGate) -> Iterator[Exhibit]:
    if known.losses:
        yield training_curve(known, "Loss of a short training on a copy")
    scores = [("your training", known.value), ("chance level", known.chance)]
    yield _bars(f"{known.measure} after {known.steps} steps", scores)


def _short_run(known: ShortRun) -> Iterator[Exhibit]:
    yield from _lines("Loss of a short training run", [("training loss", known.losses)])


def _updates(known: UpdateRatios) -> Iterator[Exhibit]:
    yield _bars("Update/weight ratio per step", known.ratios, log=True, band=USUAL_UPDATE)


def _pace(known: Pace) -> Iterator[Exhibit]:
    pairs = [("loading", 1e3 * known.loading_seconds), ("training", 1e3 * known.training_seconds)]
    yield _bars("Time of one step", pairs, unit="ms")


def _lines(title: str, curves: Sequence[tuple[str, Sequence[float]]]) -> Iterator[Lines]:
    shown = [(name, losses) for name, losses in curves if len(losses) > 1]
    if shown:
        yield Lines.of_losses(shown, title)


CHARTS: dict[type, Callable[[Any], Iterator[Exhibit]]] = {
    LoaderSweep: _sweep,
    FirstWeights: _first_weights,
    Baselines: _baselines,
    BatchMixing: _mixing,
    InitialLoss: _initial_loss,
    BatchScaling: _scaling,
    GradientReach: _reach,
    InitialWeights: _weights,
    RescaledStart: _rescaled,
    FirstPass: _first_pass,
    GradientFlow: _flow,
    UnitActivity: _units,
    RateTrials: _rates,
    Overfit: _overfit,
    BlindRun: _blind,
    LearningGate: _gate,
    ShortRun: _short_run,
    UpdateRatios: _updates,
    Pace: _pace,
}
