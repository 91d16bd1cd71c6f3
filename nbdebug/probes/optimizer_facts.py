"""Read the optimizer's settings."""

from __future__ import annotations

from typing import Any

import torch

from nbdebug.evidence import EPS_STORED, OptimizerFacts
from nbdebug.registry import probe
from nbdebug.twin import Twin

__all__ = ["optimizer_facts"]


@probe
def optimizer_facts(twin: Twin) -> OptimizerFacts:
    """Read lr, momentum, betas, eps and weight decay of every parameter group."""
    name = "Adam" if twin.owns_optimizer else type(twin.optimizer).__name__
    return OptimizerFacts(name, tuple(_numbers(group) for group in twin.optimizer.param_groups), twin.owns_optimizer)


def _numbers(group: dict[str, Any]) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for key, value in group.items():
        if key == "params":
            continue
        if isinstance(value, tuple):
            numbers.update({f"{key}[{i}]": float(item) for i, item in enumerate(value)})
        elif hasattr(value, "__float__") and not isinstance(value, bool):
            numbers[key] = float(value)
    if "eps" in numbers:
        numbers[EPS_STORED] = min(
            (float(torch.tensor(numbers["eps"], dtype=kind)) for kind in _kinds(group)), default=1.0
        )
    return numbers


def _kinds(group: dict[str, Any]) -> set[torch.dtype]:
    """Give the precisions in which the optimizer keeps its numbers: those of the parameters."""
    return {p.dtype for p in group["params"] if p.is_floating_point()}
