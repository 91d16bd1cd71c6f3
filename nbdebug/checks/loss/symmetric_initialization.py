"""Units of a layer start with identical weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from nbdebug.charts import Bars
from nbdebug.core.control import Control
from nbdebug.core.finding import Finding, Patch, Remedy, in_code
from nbdebug.core.registry import check, probe
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.initial_weights import InitialWeights
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.gradient_descent import small_step
from nbdebug.experiments.trace import Call, traced, weighted_calls
from nbdebug.sandbox import Sandbox

__all__ = ["StepSymmetry", "SymmetricLayer", "step_symmetry", "symmetric_initialization"]


@dataclass(frozen=True)
class SymmetricLayer:
    """A weight whose units began alike: how many differed at the start and after a few steps, and how far it moved."""

    path: str
    name: str
    units: int
    distinct_before: int
    distinct_after: int
    is_zero: bool
    moved: float  # relative to the length of all parameters


@dataclass(frozen=True)
class StepSymmetry:
    """The layers whose units began alike, and whether a few steps told them apart."""

    layers: tuple[SymmetricLayer, ...]
    steps: int


STEPS = 8
ALIKE = 1e-4  # of the largest unit: rounding in sums of different order stays below


@probe(quick=False)
def step_symmetry(sandbox: Sandbox, trial: TrialRun, control: Control) -> StepSymmetry:
    """Find layers with identical units, and test whether they stay identical during training."""
    require_run(trial)
    _rest(sandbox)
    batches = sandbox.batches(STEPS)
    calls = {call.path: call for call in weighted_calls(traced(sandbox, batches[0]))}
    weights = {(path, name): w for path, call in calls.items() for name, w in _units_of(call)}
    alike = {key: w for key, w in weights.items() if _is_alike(w) and not _told_apart(key, weights)}
    if not alike:
        return StepSymmetry((), 0)
    before = {key: w.detach().clone() for key, w in alike.items()}
    for step in range(STEPS):
        control.progress(step / STEPS, "searching for units that stay identical")
        small_step(sandbox, batches[step % len(batches)])
    length = sum(float(p.detach().double().square().sum()) for p in sandbox.model.parameters()) ** 0.5 or 1.0
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
    return StepSymmetry(layers, STEPS)


def _rest(sandbox: Sandbox) -> None:
    """Switch what is random off, because chance would tell units apart; recurrent layers need their training mode."""
    sandbox.model.eval()
    for module in sandbox.model.modules():
        if isinstance(module, nn.RNNBase):
            module.training = True
            module.dropout = 0.0


def _units_of(call: Call) -> list[tuple[str, torch.Tensor]]:
    """Return the trainable matrices of a layer with more than one unit; stacked gates count as they stand."""
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


@check(
    basis="statistic",
    explains=(
        "cannot-overfit-batch",
        "untrained-parameters",
        "initial-loss-off",
        "outputs-identical",
        "bottleneck-too-narrow",
        "vanishing-gradients",
        "activations-off-scale",
        "initialization-off-scale",
    ),
)
def symmetric_initialization(
    symmetry: StepSymmetry,
    weights: InitialWeights | None,
    *,
    distinct: float = 0.5,  # fraction of distinct units below which a layer is effectively narrower; our choice
    grown: float = 1.5,  # times the distinct units at the start: becoming distinct, however slowly, is fine; our choice
    least_units: int = 4,  # of the layer that is named; our choice
) -> Iterator[Finding]:
    """The units of a layer start with identical weights, so they compute and learn the same.

    nbdebug looks for layers whose weight rows are identical and takes a few SGD steps. Layers that are zero-initialized
    on purpose (a last layer, the end of a residual branch, an adapter) become distinct at once; these do not.

    Why it matters: units with identical weights get identical gradients and stay identical. However wide the layer is,
    it acts as a single unit.

    What to try: initialize weights randomly (`nn.init.kaiming_normal_`, `nn.init.xavier_uniform_`); only biases, and
    layers followed by a randomly initialized one, may start at zero or at a constant.
    """
    heads = {w.path for w in weights.weights if w.is_head} if weights is not None else set()
    stuck = [
        layer
        for layer in symmetry.layers
        if layer.distinct_after <= max(1, distinct * layer.units)
        and layer.distinct_after <= max(2, grown * layer.distinct_before)
    ]
    if stuck:
        yield _finding(stuck, "bug", f"still {stuck[0].distinct_after} after {symmetry.steps} steps")
        return
    slow = [la for la in symmetry.layers if not la.is_zero and la.distinct_before == 1 and la.path not in heads]
    if slow and slow[0].units >= least_units:
        yield _finding(slow, "suspect", f"{slow[0].distinct_after} after {symmetry.steps} steps")


def _finding(layers: list[SymmetricLayer], severity: str, then: str) -> Finding:
    first = layers[0]
    what = "start with all-zero weights" if first.is_zero else "start with identical weights"
    others = f" So do {len(layers) - 1} more layer{'s' * (len(layers) > 2)}." if len(layers) > 1 else ""
    return Finding(
        f"The {first.units} units of `{first.path}` {what} ({first.distinct_before} distinct at initialization, "
        f"{then}).{others}",
        where=first.path,
        severity=severity,  # type: ignore[arg-type]
        evidence={
            "units": {f"{la.path}.{la.name}": la.units for la in layers},
            "different at the start": {f"{la.path}.{la.name}": la.distinct_before for la in layers},
            "different after the steps": {f"{la.path}.{la.name}": la.distinct_after for la in layers},
            "threshold": "units become distinct within a few steps",
            "source": "37 reasons, 28: symmetric units stay symmetric",
        },
        remedies=(
            Remedy(
                "Initialize the weights randomly.",
                f"nn.init.kaiming_normal_({in_code(first.path)}.{first.name})",
                Patch("reinitialize", {"paths": [layer.path for layer in layers]}),
            ),
        ),
        exhibit=Bars(("units", "distinct"), (float(first.units), float(first.distinct_after)), title=first.path),
    )
