"""What does every layer give, value by value?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.unit_activity import UnitActivity, UnitFacts
from nbdebug.experiments.activations import Activation, activations_in, by_unit
from nbdebug.experiments.capture import tapped
from nbdebug.experiments.tensor_stats import TensorFacts, facts_of, floats_of
from nbdebug.experiments.trace import Trace
from nbdebug.sandbox import Sandbox

__all__ = ["ActivationLook", "Histogram", "LayerLook", "activation_look", "histogram_of"]


@dataclass(frozen=True)
class Histogram:
    """Counts in bins of equal width from the lowest to the highest value."""

    low: float
    high: float
    counts: tuple[int, ...]


@dataclass(frozen=True)
class LayerLook:
    """The values that one module gave, or that a function of the forward made of them.

    `counts` are over the common edges of all layers, `own` over the layer's own range. `before` is what went into a
    nonlinearity. `dead` and `saturated` are shares of units, None where the question makes no sense. `fires` is, for
    each of the first units of an activation, the share of its values that are not 0, and `by_sample` the mean magnitude
    of the output for each of the first samples.
    """

    path: str
    module: str
    facts: TensorFacts
    counts: tuple[int, ...]
    own: Histogram | None
    before: Histogram | None = None
    dead: float | None = None
    saturated: float | None = None
    calls: int = 1
    fires: tuple[float, ...] = ()
    by_sample: tuple[float, ...] = ()


@dataclass(frozen=True)
class ActivationLook:
    """Every layer of one pass in the order of the calls, over common edges."""

    layers: tuple[LayerLook, ...]
    edges: tuple[float, ...]
    is_log: bool
    samples: int
    training: bool


BINS, OWN_BINS = 61, 40
MOST_UNITS, MOST_SAMPLES = 256, 64  # that are told one by one
SAMPLED = 200_000  # values of one layer that are counted; of larger ones, every so many
APART = 10.0  # layers whose sizes differ by more than this are shown on an axis that is logarithmic far from 0


@dataclass
class _Row:
    """The outputs of one module in one pass, and the pair around a nonlinearity."""

    path: str
    module: str
    outputs: list[torch.Tensor] = field(default_factory=list)
    before: torch.Tensor | None = None
    layer: str = ""  # the layer with weights whose activation this is
    fires: tuple[float, ...] = ()

    @property
    def values(self) -> torch.Tensor:
        return torch.cat([_some(output) for output in self.outputs])


@probe
def activation_look(sandbox: Sandbox, units: UnitActivity | None) -> ActivationLook:
    """Record activation histograms of every layer on one batch."""
    batch = sandbox.batch()
    trace = Trace()
    with tapped(sandbox.model, after=trace.after, before=trace.before):
        if sandbox.compute_loss is not None:
            sandbox.run(batch)
        else:
            sandbox.forward(batch)
    rows = _rows(trace)
    if not rows:
        raise NotApplicable("no module of this model returns a real-valued tensor")
    edges, is_log = _edges([row.values for row in rows])
    known = {facts.path: facts for facts in units.layers} if units is not None else {}
    layers = tuple(_look(row, edges, known.get(row.layer), batch.size) for row in rows)
    return ActivationLook(layers, tuple(edges.tolist()), is_log, batch.size, sandbox.model.training)


def histogram_of(tensor: torch.Tensor, bins: int = OWN_BINS) -> Histogram | None:
    """Count the finite values over their own range; None where there are none."""
    values = _some(tensor)
    values = values[torch.isfinite(values)]
    if not len(values):
        return None
    low, high = float(values.min()), float(values.max())
    if low == high:
        return Histogram(low, high, (len(values),))
    counts = torch.histc(values, bins, low, high)
    return Histogram(low, high, tuple(int(count) for count in counts))


def _some(tensor: torch.Tensor) -> torch.Tensor:
    values = floats_of(tensor).float().cpu()
    return values[:: max(1, len(values) // SAMPLED)]


def _rows(trace: Trace) -> list[_Row]:
    rows: dict[str, _Row] = {}
    for call in sorted(trace.calls, key=lambda call: call.began):
        output = call.output
        if call.is_leaf and output is not None and output.is_floating_point() and output.numel():
            row = rows.setdefault(call.path, _Row(call.path, type(call.module).__name__))
            row.outputs.append(output.detach())
    ordered = list(rows.values())
    for activation in activations_in(trace):
        _pair(activation, rows, ordered)
    return ordered


def _pair(activation: Activation, rows: dict[str, _Row], ordered: list[_Row]) -> None:
    """Note what went into a nonlinearity; one that is a line of the forward gets a row of its own."""
    layer = activation.layer.path
    if activation.module is None:
        own = _Row(f"{layer} → function", "in forward", [activation.after.detach()])
        ordered.insert(ordered.index(rows[layer]) + 1, own)
    else:
        own = rows[activation.name]
    own.before, own.layer = activation.before.detach(), layer
    units = by_unit(activation.after.detach(), activation.layer)
    if units is not None:
        own.fires = tuple(float(share) for share in (units[:MOST_UNITS] != 0).float().mean(1))


def _edges(every: Sequence[torch.Tensor]) -> tuple[torch.Tensor, bool]:
    """Choose common bins: of equal width; where layers are too different for that, wider the farther from 0.

    Near 0 they are of equal width all the same, up to about a standard deviation of the usual layer, so that a bell
    does not look like two hills.
    """
    sizes = [float(v[torch.isfinite(v)].abs().quantile(0.995)) for v in every if bool(torch.isfinite(v).any())]
    sizes = [size for size in sizes if size > 0] or [1.0]
    top = max(sizes)
    if top / min(sizes) <= APART:
        return torch.linspace(-top, top, BINS + 1), False
    usual = sorted(sizes)[len(sizes) // 2] / 2.5
    reach = math.asinh(top / usual)
    return usual * torch.linspace(-reach, reach, BINS + 1).sinh(), True


def _by_sample(row: _Row, size: int) -> tuple[float, ...]:
    """Return the mean magnitude of the first output for each sample; nothing where its rows are no samples."""
    output = row.outputs[0]
    if len(row.outputs) > 1 or output.dim() < 2 or output.shape[0] != size:
        return ()
    return tuple(float(mean) for mean in output[:MOST_SAMPLES].flatten(1).float().abs().mean(1).cpu())


def _look(row: _Row, edges: torch.Tensor, units: UnitFacts | None, size: int) -> LayerLook:
    values = row.values
    finite = values[torch.isfinite(values)].clamp(float(edges[0]), float(edges[-1]))
    places = torch.bucketize(finite, edges, right=True).clamp(1, len(edges) - 1) - 1
    counts = torch.bincount(places, minlength=len(edges) - 1)
    return LayerLook(
        path=row.path,
        module=row.module,
        facts=facts_of(row.outputs[0]),
        counts=tuple(int(count) for count in counts),
        own=histogram_of(values),
        before=histogram_of(row.before) if row.before is not None else None,
        dead=units.dead / units.units if units is not None and not units.bounded else None,
        saturated=units.saturated / units.units if units is not None and units.bounded else None,
        calls=len(row.outputs),
        fires=row.fires,
        by_sample=_by_sample(row, size),
    )
