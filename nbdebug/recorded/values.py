"""What came out of the layers: numbers that are not finite, layers that are silent, answers that change."""

from __future__ import annotations

import math

import numpy as np

from nbdebug.errors import NotApplicable
from nbdebug.evidence import FirstBadValue, LayerSeries, PredictionChanges, Recording, UnitActivity, UnitFacts
from nbdebug.registry import recorded

__all__ = ["first_bad_value", "prediction_changes", "unit_activity_recorded"]

LOOKS = 10
CHANGED = "predictions changed"  # the name under which the share of changed answers is logged


@recorded
def first_bad_value(recording: Recording) -> FirstBadValue:
    """Find the step at which the loss stopped to be finite, and the first module or gradient that shows it."""
    loss = recording.loss
    known = loss.measured + loss.not_finite
    if not known:
        raise NotApplicable("the loss was not seen; log it with live.log(loss=loss)")
    if loss.first_not_finite is None:
        return FirstBadValue(None, 0, recording.steps)
    sick = [(*first, layer) for layer in recording.layers.values() if (first := _first_sick(layer)) is not None]
    if sick:
        step, share, layer = min(sick, key=lambda found: found[0])  # the first of the model among the earliest
        return FirstBadValue(
            loss.first_not_finite, loss.not_finite, recording.steps, layer.path, layer.module, step, share, "output"
        )
    gradients = [(p.gradient.first_not_finite, p) for p in recording.parameters.values()]
    bad = [(step, parameter) for step, parameter in gradients if step is not None]
    if bad and recording.scale.measured == 0:  # a gradient scaler meets infinite gradients on purpose
        step, parameter = min(bad, key=lambda found: found[0])
        return FirstBadValue(
            loss.first_not_finite, loss.not_finite, recording.steps, parameter.name, "", step, math.nan, "gradient"
        )
    return FirstBadValue(loss.first_not_finite, loss.not_finite, recording.steps)


def _first_sick(layer: LayerSeries) -> tuple[int, float] | None:
    sick = np.flatnonzero(layer.not_finite.high > 0)
    if not len(sick):
        return None
    return int(layer.not_finite.steps[sick[0]]), float(layer.not_finite.high[sick[0]])


@recorded
def unit_activity_recorded(recording: Recording) -> UnitActivity:
    """Find activations that gave nothing but zeros in the last half of all looks."""
    owners = {parameter.layer for parameter in recording.parameters.values()}
    layers = [layer for layer in recording.layers.values() if layer.path not in owners and len(layer.zeros) >= LOOKS]
    if not layers:
        raise NotApplicable(f"no activation was looked at {LOOKS} times")
    facts = []
    for layer in layers:
        late = layer.zeros.tail(len(layer.zeros) // 2).finite
        is_dead = (
            len(late) > 0 and bool((late.low >= 1.0).all()) and bool((layer.abs_max.tail(len(late)).high == 0).all())
        )
        facts.append(UnitFacts(layer.path, layer.module, 1, int(is_dead), 0, 0.0, False, math.nan, math.nan))
    return UnitActivity(tuple(facts), min(len(layer.zeros) // 2 for layer in layers), all_seen=True, unit="looks")


@recorded
def prediction_changes(recording: Recording) -> PredictionChanges:
    """Read how many answers about a fixed batch changed from look to look."""
    series = recording.scalars.get(CHANGED)
    if series is None or len(series.finite) < LOOKS:
        raise NotApplicable("no fixed batch was followed; nbdebug.follow_predictions(live, inputs) does")
    known = series.finite
    return PredictionChanges(tuple(map(float, known.values)), tuple(map(int, known.steps)))
