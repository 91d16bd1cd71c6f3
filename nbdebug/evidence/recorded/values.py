"""What came out of the layers: numbers that are not finite, layers that are silent, answers that change."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from nbdebug.core.registry import recorded
from nbdebug.errors import NotApplicable
from nbdebug.evidence.recording import Recording
from nbdebug.evidence.unit_activity import UnitActivity, UnitFacts
from nbdebug.watch.recorder.series import LayerSeries, Series, SilentUnits

__all__ = [
    "FirstBadValue",
    "PredictionChanges",
    "first_bad_value",
    "firsts_of",
    "prediction_changes",
    "unit_activity_recorded",
]


@dataclass(frozen=True)
class FirstBadValue:
    """Where numbers stopped to be finite: the step of the loss, and the first module or gradient that shows it.

    `step` is None where the loss stayed finite throughout. `share` is that of the module's values. `finite_at` is the
    last step up to it at which every layer was seen to be finite, `grew` the last finite loss over the first.
    """

    step: int | None
    count: int
    steps: int
    where: str = ""
    module: str = ""
    where_step: int | None = None
    share: float = math.nan
    what: str = ""  # "output" or "gradient"
    finite_at: int | None = None
    grew: float = 1.0
    rank: int | None = None  # of another process, where it was seen there first


@dataclass(frozen=True)
class PredictionChanges:
    """The share of a fixed batch whose answer changed from one look to the next, look by look."""

    shares: tuple[float, ...]
    steps: tuple[int, ...]


LOOKS, LATE = 10, 3  # at a layer altogether, and in the last half of the training
LEARNED = 0.5  # of the first loss: a training that comes below it learns
CHANGED = "predictions changed"  # the name under which the share of changed answers is logged


@recorded
def first_bad_value(recording: Recording) -> FirstBadValue:
    """Find the first non-finite loss, and the first module or gradient with it."""
    loss = recording.loss
    known = loss.measured + loss.not_finite
    if not known:
        raise NotApplicable("no loss was recorded; log it with live.log(loss=loss)")
    return _seen_elsewhere(recording, _seen_here(recording))


def firsts_of(recording: Recording) -> tuple[tuple[str, str, str, int], ...]:
    """Return what was not finite first: what, where, the kind of module, and the step; nothing where all was finite."""
    found = _seen_here(recording)
    if found.step is None:
        return ()
    first = [("loss", "loss", "", found.step)]
    return tuple(first + ([(found.what, found.where, found.module, found.where_step or 0)] if found.where else []))


def _seen_elsewhere(recording: Recording, found: FirstBadValue) -> FirstBadValue:
    """Put what another process saw before this one in its place: its gradients have come to all since."""
    for facts in recording.ranks[1:]:
        for what, where, module, step in facts.not_finite:
            here = (found.where_step, found.what == "gradient") if found.where else (found.step, True)
            if here[0] is not None and (step, what != "output") >= here:
                continue
            if what == "loss":
                if found.step is None:
                    found = replace(found, step=step, count=1, rank=facts.rank)
                continue
            seen = replace(found, where=where, module=module, where_step=step, what=what, rank=facts.rank)
            found = replace(seen, share=math.nan, finite_at=None, step=step if found.step is None else found.step)
    return found


def _seen_here(recording: Recording) -> FirstBadValue:
    loss = recording.loss
    if loss.first_not_finite is None:
        return FirstBadValue(None, 0, recording.steps)
    first = loss.first_not_finite
    found = FirstBadValue(first, loss.not_finite, recording.steps, finite_at=_finite_at(recording), grew=_grew(loss))
    every = [(*seen, layer) for layer in recording.layers.values() if (seen := _first_sick(layer)) is not None]
    sick = [one for one in every if one[0] <= first]  # later ones have weights that such a loss has made
    gradients = [(p.gradient.first_not_finite, p) for p in recording.parameters.values()]
    bad = [(step, parameter) for step, parameter in gradients if step is not None and step < first]
    if recording.scale.measured:  # a gradient scaler meets infinite gradients on purpose
        bad = []
    if bad and (not sick or min(step for step, _ in bad) < min(one[0] for one in sick)):
        step = min(step for step, _ in bad)
        parameter = [one for at, one in bad if at == step][-1]  # the nearest to the loss
        return replace(found, where=parameter.name, where_step=step, what="gradient")
    if sick:
        step, share, layer = min(sick, key=lambda one: one[0])  # the first of the model among the earliest
        return replace(
            found, where=layer.path, module=layer.module, where_step=step, share=share, what="output", finite_at=None
        )
    return found


def _finite_at(recording: Recording) -> int | None:
    """Return the last look up to the first bad loss at which every layer was finite; None where there was none."""
    first = recording.loss.first_not_finite
    looks = [layer.not_finite for layer in recording.layers.values()]
    steps = [int(step) for step in (looks[0].steps if looks else ()) if first is not None and step <= first]
    well = [step for step in steps if not any(look.high[look.steps == step].any() for look in looks)]
    return well[-1] if well else None


def _grew(loss: Series) -> float:
    """Return the last finite loss before the first that is not, over the first of all."""
    known = loss.finite
    before = known.values[known.steps < (loss.first_not_finite or 0)]
    return float(abs(before[-1]) / max(abs(before[0]), 1e-12)) if len(before) else 1.0


def _first_sick(layer: LayerSeries) -> tuple[int, float] | None:
    sick = np.flatnonzero(layer.not_finite.high > 0)
    if not len(sick):
        return None
    return int(layer.not_finite.steps[sick[0]]), float(layer.not_finite.high[sick[0]])


@recorded
def unit_activity_recorded(recording: Recording) -> UnitActivity:
    """Find dead units, and activations that were all zero in the second half of training."""
    owners = {parameter.layer for parameter in recording.parameters.values()}
    layers = [layer for layer in recording.layers.values() if layer.path not in owners and len(layer.zeros) >= LOOKS]
    if not layers and not recording.silent:
        raise NotApplicable(f"no activation was recorded {LOOKS} times")
    facts = [_of_silent(one) for one in recording.silent]
    dead = {one.path for one in recording.silent if one.dead == one.units}
    after_dead = False  # what comes behind a dead layer gives zeros as well
    for layer in recording.layers.values():
        is_dead = layer.path in dead or (layer in layers and _gives_zeros(layer, recording.steps // 2))
        if layer in layers:
            told = int(is_dead and not after_dead)
            facts.append(UnitFacts(layer.path, layer.module, 1, told, 0, 0.0, False, math.nan, math.nan))
        after_dead = is_dead
    looks = min((len(layer.zeros.since(recording.steps // 2)) for layer in layers), default=0)
    return UnitActivity(
        tuple(facts), looks, all_seen=True, unit="measurements", learns=_learns(recording.loss), is_watched=True
    )


def _gives_zeros(layer: LayerSeries, since: int) -> bool:
    late, top = layer.zeros.since(since).finite, layer.abs_max.since(since)
    return len(late) >= LATE and bool((late.low >= 1.0).all()) and bool((top.high == 0).all())


def _of_silent(one: SilentUnits) -> UnitFacts:
    place = f"after {one.module}"
    return UnitFacts(one.path, place, one.units, one.dead, 0, 0.0, False, one.low, one.high, samples=one.samples)


def _learns(loss: Series) -> bool:
    """Whether the loss of the last tenth is less than half of that of the first."""
    values = loss.finite.values
    tenth = max(3, len(values) // 10)
    if len(values) < 2 * tenth:
        return False
    first, last = float(values[:tenth].mean()), float(values[-tenth:].mean())
    return first > 0 and last < LEARNED * first


@recorded
def prediction_changes(recording: Recording) -> PredictionChanges:
    """Read how many predictions on a fixed batch changed between measurements."""
    series = recording.scalars.get(CHANGED)
    if series is None or len(series.finite) < LOOKS:
        raise NotApplicable("no fixed batch was tracked; use nbdebug.follow_predictions(live, inputs)")
    known = series.finite
    return PredictionChanges(tuple(map(float, known.values)), tuple(map(int, known.steps)))
