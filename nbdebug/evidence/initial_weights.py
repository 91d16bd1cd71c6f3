"""The weights as they are: their scale beside the usual recipes, and whether they were trained already."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

from nbdebug.core.registry import probe
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.trace import Call, traced, weighted_calls
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Setup

__all__ = ["InitialWeights", "WeightFacts", "initial_weights", "looks_fresh"]


@dataclass(frozen=True)
class WeightFacts:
    """One weight matrix: its spread beside the spreads that the usual recipes give for its fans.

    `low` is the least that a usual recipe gives and `high` the most; `is_head` marks the last layer.
    """

    path: str
    name: str
    shape: tuple[int, ...]
    fan_in: int
    std: float
    low: float
    high: float
    looks_fresh: bool
    is_head: bool = False

    @property
    def excess(self) -> float:
        """How many times the spread lies above the band, or below it as a number under 1; 1 inside."""
        return self.std / self.high if self.std > self.high else min(self.std / self.low, 1.0)


@dataclass(frozen=True)
class InitialWeights:
    """The weights as they are now, and whether the model is freshly initialized or already trained."""

    weights: tuple[WeightFacts, ...]
    fresh: bool
    reason: str


SAMPLE = 8_000
FRESH_P = 1e-3  # a weight is taken for trained when no recipe explains its values better than this
TANH_GAIN = 5 / 3  # the largest of the usual gains, torch.nn.init.calculate_gain


@probe
def initial_weights(sandbox: Sandbox, setup: Setup, trial: TrialRun) -> InitialWeights:
    """Measure the scale of every weight matrix and test whether the model is untrained."""
    require_run(trial)
    calls = list({call.path: call for call in weighted_calls(traced(sandbox, sandbox.batch()))}.values())
    facts = [fact for call in calls for fact in _facts(call, is_head=call is calls[-1])]
    fresh, reason = _freshness(setup, facts)
    return InitialWeights(tuple(facts), fresh, reason)


def _facts(call: Call, *, is_head: bool) -> list[WeightFacts]:
    """Return one fact for each matrix; a parametrized weight has a scale of its own and is left out."""
    found = []
    for name, weight in call.module.named_parameters(recurse=False):
        if weight.dim() < 2 or not weight.is_floating_point() or (1 in weight.shape[:1] and weight.dim() > 2):
            continue
        fan_in, fan_out = _fans(call, weight)
        gates = max(1, weight.shape[0] // call.module.hidden_size) if isinstance(call.module, nn.RNNBase) else 1
        low = math.sqrt(1 / (3 * max(fan_in, fan_out // gates)))  # torch's default: uniform in ±1/√fan
        high = TANH_GAIN * math.sqrt(2 / fan_in)  # He, with room for a gain
        std = float(weight.detach().double().square().mean().sqrt())
        found.append(
            WeightFacts(call.path, name, tuple(weight.shape), fan_in, std, low, high, looks_fresh(weight), is_head)
        )
    return found


def _fans(call: Call, weight: torch.Tensor) -> tuple[int, int]:
    """Return how many values feed a unit and how many a value feeds; a plain matrix is read by what went in."""
    field = math.prod(weight.shape[2:])
    rows, columns = int(weight.shape[0]), int(weight.shape[1])
    if getattr(call.module, "transposed", False):
        rows, columns = columns, rows
    elif weight.dim() == 2 and not hasattr(call.module, "in_features") and call.inputs:
        width = int(call.inputs[0].shape[-1]) if call.inputs[0].dim() else 0
        if width == rows != columns:
            rows, columns = columns, rows
    return max(1, columns * field), max(1, rows * field)


def looks_fresh(weight: torch.Tensor) -> bool:
    """Whether the values could come from a usual recipe: uniform, normal, orthogonal, or something simpler."""
    values = weight.detach().flatten()
    if values.numel() > SAMPLE:
        values = values[torch.randint(values.numel(), (SAMPLE,), device=values.device)]
    values = values.double().cpu()
    if values.numel() < 30 or values.unique().numel() < 10:
        return True
    center, std, edge = float(values.mean()), float(values.std()), float(values.abs().max())
    uniform = ((values / (edge * (1 + 1 / len(values)))) + 1) / 2
    normal = 0.5 * (1 + torch.erf((values - center) / (std * math.sqrt(2))))
    bound = 2 * std / 0.88  # a normal that is cut at two of its own deviations has 0.88 of its spread
    inside = torch.erf(values.clamp(-bound, bound) / (std / 0.88 * math.sqrt(2)))
    cut = (inside / math.erf(math.sqrt(2)) + 1) / 2
    drawn = max(_p_value(part) for part in (uniform, normal, cut)) > FRESH_P and not _has_structure(weight)
    return drawn or _is_orthogonal(weight)


def _has_structure(weight: torch.Tensor) -> bool:
    """Whether rows or columns differ in length more than independent values would: training leaves such traces."""
    squares = weight.detach().double().flatten(1).square()
    for table in (squares, squares.T):
        lines, values = table.shape
        if lines < 4 or values < 4:
            continue
        lengths = table.mean(1)
        expected = 2 * float(squares.mean()) ** 2 / values  # of the mean of so many squares of a normal variable
        surprise = float(lengths.var()) / max(expected, 1e-300) * (lines - 1)
        if surprise > lines - 1 + 5 * math.sqrt(2 * (lines - 1)):  # five deviations of chi squared
            return True
    return False


def _p_value(quantiles: torch.Tensor) -> float:
    """Test by Kolmogorov and Smirnov whether these numbers are uniform between 0 and 1."""
    count = len(quantiles)
    steps = torch.arange(1, count + 1, dtype=torch.float64) / count
    sorted_ = quantiles.sort().values
    distance = float(torch.maximum((steps - sorted_).abs(), (sorted_ - steps + 1 / count).abs()).max())
    scaled = (math.sqrt(count) + 0.12 + 0.11 / math.sqrt(count)) * distance
    if scaled < 0.3:
        return 1.0
    return min(1.0, 2 * sum((-1.0) ** (k - 1) * math.exp(-2 * (k * scaled) ** 2) for k in range(1, 20)))


def _is_orthogonal(weight: torch.Tensor) -> bool:
    matrix = weight.detach().double().flatten(1)
    if max(matrix.shape) > 2048:
        return False
    product = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    scale = float(product.diagonal().mean())
    return scale > 0 and float((product / scale - torch.eye(len(product), device=product.device)).abs().max()) < 1e-3


def _freshness(setup: Setup, facts: list[WeightFacts]) -> tuple[bool, str]:
    """Judge the whole model: by what training leaves behind, then by the values of the weights."""
    if any(state for state in getattr(setup.optimizer, "state", {}).values()):
        return False, "the optimizer has already taken steps"
    counters = [b for n, b in setup.model.named_buffers() if n.endswith("num_batches_tracked") and b is not None]
    if counters and max(int(counter) for counter in counters) > 0:
        return False, "running statistics were already updated"
    telling = [fact for fact in facts if math.prod(fact.shape) >= 200]
    fresh = [fact for fact in telling if fact.looks_fresh]
    if len(fresh) < 0.5 * len(telling):
        return False, f"{len(telling) - len(fresh)} of {len(telling)} weights match no standard initialization"
    return True, f"{len(fresh)} of {len(telling)} weights match a standard initialization"
