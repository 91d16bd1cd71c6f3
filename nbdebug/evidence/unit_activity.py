"""Which units ever fire, and which can still move?"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nbdebug.core.control import Control
from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.activations import Activation, activations_in, by_unit
from nbdebug.experiments.trace import traced
from nbdebug.sandbox import Sandbox
from nbdebug.setup.user_code import user_code

__all__ = ["UnitActivity", "UnitFacts", "unit_activity"]


@dataclass(frozen=True)
class UnitFacts:
    """What the units of one layer do over many samples, in eval mode.

    `dead` counts units that are zero for every sample because what goes into the activation is never positive;
    `saturated` counts units of a bounded activation with nearly zero gradient for almost every sample. `flat` is the
    fraction of all values at which the gradient is nearly zero.
    """

    path: str
    activation: str
    units: int
    dead: int
    saturated: int
    flat: float
    bounded: bool
    low: float  # of what goes into the activation
    high: float
    samples: int | None = None  # where this layer was seen with others than the rest


@dataclass(frozen=True)
class UnitActivity:
    """The units of all layers that have an activation, over so many samples, or looks at a real training.

    `learns` says that the loss fell all the same, as far as it was seen.
    """

    layers: tuple[UnitFacts, ...]
    samples: int
    all_seen: bool
    unit: str = "samples"
    learns: bool = False
    is_watched: bool = False  # by looks at a real training, which take single units


SAMPLES = 1024
BATCHES = 32
DERIVATIVES = 4  # batches whose derivatives are measured
FLAT = 0.01  # of the steepest derivative: tanh beyond 3, a sigmoid beyond 6
MOSTLY = 0.6  # of the samples


@probe(quick=False)
def unit_activity(sandbox: Sandbox, trial: TrialRun, control: Control) -> UnitActivity:
    """Run many batches in eval mode and record the inputs and outputs of every activation."""
    require_run(trial)
    tallies: dict[str, _Tally] = {}
    seen, batches = 0, sandbox.batches(BATCHES)
    with sandbox.mode(training=False):
        for index in control.as_many(range(len(batches))):
            control.progress(index / len(batches), "recording every unit")
            if seen >= SAMPLES:
                break
            for activation in activations_in(traced(sandbox, batches[index]), tallies if index else None):
                path = activation.layer.path
                if path not in tallies:
                    tallies[path] = _Tally(activation)
                tallies[path].add(activation, with_derivative=index < DERIVATIVES)
            seen += batches[index].size
    if not tallies:
        raise NotApplicable("no layer with an activation after it was called")
    total = sandbox.setup.feed.total
    facts = tuple(tally.facts(path) for path, tally in tallies.items())
    return UnitActivity(facts, seen, total is not None and seen >= total)


@dataclass
class _Tally:
    """Running counts for the units of one layer."""

    first: Activation

    def __post_init__(self) -> None:
        units = self.first.units
        self.name, self.bounded = self.first.name, _is_bounded(self.first)
        self.fired = torch.zeros(units, dtype=torch.bool)
        self.high, self.low = torch.full((units,), -torch.inf), torch.full((units,), torch.inf)
        self.flat, self.shut, self.count = torch.zeros(units), torch.zeros(units), 0
        self.top = 0.0
        self.first = None  # type: ignore[assignment]  # let the graph go

    def add(self, activation: Activation, *, with_derivative: bool) -> None:
        """Take one call of the layer into account."""
        before = by_unit(activation.before.detach(), activation.layer)
        after = by_unit(activation.after.detach(), activation.layer)
        if before is None or after is None or len(before) != len(self.fired):
            return
        self.fired |= (after != 0).any(1).cpu()
        self.high = torch.maximum(self.high, before.amax(1).float().cpu())
        self.low = torch.minimum(self.low, before.amin(1).float().cpu())
        self.top = max(self.top, float(after.abs().max()))
        derivative = _derivative(activation) if with_derivative else None
        if derivative is not None:
            steepest = min(max(float(derivative.max()), 0.25), 1.0)
            closed = (after == 0) & (derivative == 0)  # the shut side of a rectifier, also of one with a ceiling
            self.flat += ((derivative < FLAT * steepest) & ~closed).float().sum(1).cpu()
            self.shut += closed.float().sum(1).cpu()
            self.count += derivative.shape[1]

    def facts(self, path: str) -> UnitFacts:
        """Return the counts as numbers."""
        dead = ~self.fired & (self.high <= 0) & (self.low < 0)
        share = self.flat / max(self.count, 1)
        if not self.bounded:  # a unit whose derivative is nearly zero for every sample is as good as dead
            dead |= (self.flat + self.shut >= self.count) & (self.count > 0) & (self.high <= 0) & (self.low < 0)
        return UnitFacts(
            path=path,
            activation=self.name,
            units=len(self.fired),
            dead=int(dead.sum()),
            saturated=int((share > MOSTLY).sum()) if self.bounded else 0,
            flat=float(share.mean()),
            bounded=self.bounded,
            low=float(self.low.min()),
            high=float(self.high.max()),
        )


def _derivative(activation: Activation) -> torch.Tensor | None:
    """Measure the derivative of an activation at every value, from its graph; None where values act on each other."""
    before, after = activation.before, activation.after
    if before.shape != after.shape or not before.requires_grad or not after.requires_grad:
        return None
    signs = torch.randint(0, 2, after.shape, device=after.device, dtype=after.dtype) * 2 - 1
    derivatives = []
    for weights in (torch.ones_like(after), signs):  # for an activation the sign of its neighbors is all the same
        try:
            (gradient,) = torch.autograd.grad((after * weights).sum(), before, retain_graph=True, allow_unused=True)
        except RuntimeError:  # a model that takes gradients in its forward pass has freed what it kept for them
            return None
        if gradient is None:
            return None
        derivatives.append(gradient.detach().abs())
    if not torch.allclose(derivatives[0], derivatives[1], rtol=1e-3, atol=1e-6):
        return None
    return by_unit(derivatives[0], activation.layer)


def _is_bounded(activation: Activation) -> bool:
    """Whether the activation has a ceiling and a floor: tried on a ramp, or read off the values of a function."""
    before, after = activation.before.detach(), activation.after.detach()
    if activation.module is not None:
        ramp = torch.linspace(-60, 60, 121, dtype=before.dtype, device=before.device)
        with user_code(passing=()), torch.no_grad():
            out = activation.module(ramp.reshape(-1, *[1] * (before.dim() - 1)).expand(-1, *before.shape[1:]).clone())
            return float(out.abs().max()) <= 10  # ReLU6 included
        return False
    reach = float(after.abs().max())
    exact = float((after == 0).float().mean())
    return before.shape == after.shape and reach <= 1.0001 and float(before.abs().max()) > 1.5 * reach and exact < 0.01
