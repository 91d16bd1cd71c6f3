"""How weights, gradients and updates went, parameter by parameter."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nbdebug.core.registry import recorded
from nbdebug.errors import NotApplicable
from nbdebug.evidence.gradient_flow import GradientFlow, LayerFlow, trend_of
from nbdebug.evidence.parameter_gradients import GradientReach, ParameterReach
from nbdebug.evidence.recording import Recording
from nbdebug.evidence.short_run import UpdateRatios
from nbdebug.watch.recorder.series import ParameterSeries, Series

__all__ = [
    "WeightGrowth",
    "gradient_flow_recorded",
    "gradient_reach_recorded",
    "largest_growth",
    "median_update",
    "update_ratios_recorded",
    "weight_growth",
]


@dataclass(frozen=True)
class WeightGrowth:
    """How the norms of the weight matrices grew: for each its name, its first and last norm, and whether it goes on.

    `recent` is the growth over the last quarter of the run, as a factor; `usual` a small but usual first norm for a
    matrix of this shape.
    """

    matrices: tuple[tuple[str, float, float, float, float], ...]  # name, first, last, recent, usual
    steps: int
    looks: int


STEPS = 20  # without a gradient; fewer may be a part that comes into play later
LOOKS = 8  # measurements of a parameter; fewer are no course
USUAL = 0.3  # norm of a row at the beginning; PyTorch's own initialization gives 0.58
SETTLING = 0.1  # share of the steps at the beginning that are left out, because Adam's first steps are large


@recorded
def weight_growth(recording: Recording) -> WeightGrowth:
    """Compare the norm of every weight matrix at the start and at the end."""
    found = []
    for parameter in _matrices(recording):
        weight = parameter.weight.finite
        if len(weight) < LOOKS or not weight.values[0] > 0:
            continue
        first, last = float(weight.values[0]), float(weight.values[-1])
        # By steps, because most looks may come early.
        recent = last / float(weight.values[np.searchsorted(weight.steps, 0.75 * weight.steps[-1], "right") - 1])
        found.append((parameter.name, first, last, recent, USUAL * math.sqrt(parameter.shape[0])))
    if not found:
        raise NotApplicable(f"no weight matrix was measured {LOOKS} times")
    return WeightGrowth(tuple(found), recording.steps, max(len(p.weight) for p in _matrices(recording)))


@recorded
def update_ratios_recorded(recording: Recording) -> UpdateRatios:
    """Compute the median update of every weight matrix, and the first and last loss."""
    loss = recording.loss.finite
    if len(loss) < LOOKS:
        raise NotApplicable("the loss is unknown, so progress cannot be measured")
    ratios = [(p.name, _settled(p.update)) for p in _matrices(recording) if len(p.update) >= LOOKS]
    if not ratios:
        raise NotApplicable(f"no weight update was measured {LOOKS} times")
    tenth = max(3, len(loss) // 10)
    return UpdateRatios(tuple(ratios), float(loss.values[:tenth].mean()), float(loss.values[-tenth:].mean()))


@recorded
def gradient_reach_recorded(recording: Recording) -> GradientReach:
    """Find the parameters that never got a gradient, and whether their layers ran."""
    coverage = recording.coverage
    if coverage is None or recording.steps < STEPS:
        raise NotApplicable(f"{recording.steps} steps were recorded; at least {STEPS} are required")
    if len(coverage.waiting) == len(coverage.held):
        raise NotApplicable("no parameter got a gradient; see step-never-taken")
    waiting, found = set(coverage.waiting), []
    owners = [name.rpartition(".")[0] or "model" for name in coverage.held]
    for name, owner in zip(coverage.held, owners, strict=True):
        # Of what a whole holds beside its layers, it is unknown whether it was used.
        is_layer = owner != "model" and not any(other.startswith(f"{owner}.") for other in owners)
        found.append(
            ParameterReach(
                name,
                owner,
                coverage.shapes[name],
                requires_grad=True,
                in_optimizer=True,
                gradients=(0.0 if name in coverage.waiting_zero else None if name in waiting else 1.0,),
                is_copy=name in coverage.waiting_moved,  # as a mean over time is
                calls=int(is_layer and owner in recording.layers),
            )
        )
    loss = recording.loss.last
    return GradientReach(tuple(found), (), recording.steps, loss, True, True, True, is_watched=True)


@recorded
def gradient_flow_recorded(recording: Recording) -> GradientFlow:
    """Estimate the gradient at every weighted layer, in the order of the model.

    The gradient of a weight is that at the output times what came in, so that the size of what came in is divided out.
    """
    layers, given = [], _sizes_of_inputs(recording)
    for parameter in _matrices(recording):
        if len(parameter.gradient.finite) >= LOOKS:
            norm = float(np.median(parameter.gradient.finite.values.astype(float)))
            mean = norm / math.sqrt(math.prod(parameter.shape))  # of one element, so that wide layers compare
            at_output = mean / given.get(parameter.layer or "model", 1.0)
            layers.append(LayerFlow(parameter.layer or "model", math.nan, at_output, mean, _settled(parameter.update)))
    if not layers:
        raise NotApplicable(f"no weight gradient was measured {LOOKS} times")
    gradient = trend_of([layer.gradient for layer in reversed(layers)])
    return GradientFlow(tuple(layers), (), None, gradient, recording.optimizer)


def _sizes_of_inputs(recording: Recording) -> dict[str, float]:
    """Return for each layer the size of what the one before it gave; one for the first."""
    sizes, before = {}, 1.0
    for path, layer in recording.layers.items():
        if any(other.startswith(f"{path}.") for other in recording.layers):
            continue  # a block, whose parts follow
        sizes[path] = before
        size = math.hypot(_settled(layer.mean), _settled(layer.std))
        before = size if 0 < size < math.inf else 1.0
    return sizes


def median_update(recording: Recording) -> float:
    """Return the median over the matrices of their median update; NaN where none was measured."""
    known = [_settled(p.update) for p in _matrices(recording) if len(p.update)]
    known = [value for value in known if math.isfinite(value)]
    return float(np.median(known)) if known else math.nan


def largest_growth(recording: Recording) -> float:
    """Return by how much the norm of a weight matrix has grown at most; 1 where none was measured twice."""
    known = [weight for p in _matrices(recording) if len(weight := p.weight.finite) > 1 and weight.values[0] > 0]
    return max((float(weight.values[-1] / weight.values[0]) for weight in known), default=1.0)


def _settled(series: Series) -> float:
    """Return the median over the steps behind the first ones; a look stands for the steps since the look before it."""
    known = series.finite
    settled = known.since(int(SETTLING * known.steps[-1])) if len(known) else known
    if not len(settled):
        return math.nan
    order, steps = np.argsort(settled.values), np.diff(settled.steps, prepend=settled.steps[0] - 1)
    covered = np.cumsum(steps[order])
    return float(settled.values[order][np.searchsorted(covered, covered[-1] / 2)])


def _matrices(recording: Recording) -> list[ParameterSeries]:
    return [parameter for parameter in recording.parameters.values() if parameter.is_matrix]
