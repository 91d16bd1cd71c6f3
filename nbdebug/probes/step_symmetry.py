"""Do units that begin alike ever become different?"""

from __future__ import annotations

import torch
from torch import nn

from nbdebug.control import Control
from nbdebug.evidence import StepSymmetry, SymmetricLayer, TrialRun
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.twin import Twin
from nbdebug.twin.small_steps import small_step
from nbdebug.twin.trace import Call, traced, weighted_calls

__all__ = ["step_symmetry"]

STEPS = 8
ALIKE = 1e-4  # of the largest unit: rounding in sums of different order stays below


@probe(quick=False)
def step_symmetry(twin: Twin, trial: TrialRun, control: Control) -> StepSymmetry:
    """Find layers with identical units, and test whether they stay identical during training."""
    require_run(trial)
    _rest(twin)
    batches = twin.batches(STEPS)
    calls = {call.path: call for call in weighted_calls(traced(twin, batches[0]))}
    weights = {(path, name): w for path, call in calls.items() for name, w in _units_of(call)}
    alike = {key: w for key, w in weights.items() if _is_alike(w) and not _told_apart(key, weights)}
    if not alike:
        return StepSymmetry((), len(weights), 0)
    before = {key: w.detach().clone() for key, w in alike.items()}
    for step in range(STEPS):
        control.progress(step / STEPS, "searching for units that stay identical")
        small_step(twin, batches[step % len(batches)])
    length = sum(float(p.detach().double().square().sum()) for p in twin.model.parameters()) ** 0.5 or 1.0
    layers = tuple(
        SymmetricLayer(
            path=key[0],
            name=key[1],
            units=int(w.shape[0]),
            distinct_before=_distinct(before[key]),
            distinct_after=_distinct(w),
            is_zero=not bool((before[key] != 0).any()),
            moved=float((w.detach() - before[key]).double().norm()) / length,
        )
        for key, w in alike.items()
    )
    return StepSymmetry(layers, len(weights), STEPS)


def _rest(twin: Twin) -> None:
    """Switch what is random off, because chance would tell units apart; recurrent layers need their training mode."""
    twin.model.eval()
    for module in twin.model.modules():
        if isinstance(module, nn.RNNBase):
            module.training = True
            module.dropout = 0.0


def _units_of(call: Call) -> list[tuple[str, torch.Tensor]]:
    """Give the trainable matrices of a layer with more than one unit; stacked gates count as they stand."""
    return [
        (name, weight)
        for name, weight in call.module.named_parameters(recurse=False)
        if weight.requires_grad and weight.dim() >= 2 and weight.shape[0] > 2 and weight.is_floating_point()
    ]


def _is_alike(weight: torch.Tensor) -> bool:
    return _distinct(weight) <= max(1, weight.shape[0] // 2)


def _told_apart(key: tuple[str, str], weights: dict[tuple[str, str], torch.Tensor]) -> bool:
    """Whether another weight of the layer makes the same units different, as the means of a Bayesian layer do."""
    path, units = key[0], weights[key].shape
    return any(other[0] == path and w.shape == units and not _is_alike(w) for other, w in weights.items())


def _distinct(weight: torch.Tensor) -> int:
    """Count the units that differ from every other one by more than rounding."""
    rows = weight.detach().double().flatten(1)
    scale = float(rows.abs().max())
    if scale == 0:
        return 1
    key = torch.randn(rows.shape[1], dtype=rows.dtype, device=rows.device) / rows.shape[1] ** 0.5
    shadows = (rows @ key).sort().values  # equal rows have equal shadows, and others almost never
    return 1 + int((shadows.diff() > ALIKE * scale).sum())
