"""Read the optimizer's settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from nbdebug.errors import NbdebugError
from nbdebug.evidence import EPS_STORED, GroupRate, OptimizerFacts
from nbdebug.registry import probe
from nbdebug.twin import Twin
from nbdebug.twin.schedules import made_with, rate_of, rates_now

__all__ = ["optimizer_facts"]


CALLS = 3  # of the user's step, enough to see whether it sets the learning rate


@probe
def optimizer_facts(twin: Twin) -> OptimizerFacts:
    """Read lr, momentum, betas, eps and weight decay of every parameter group."""
    groups = tuple(_numbers(group) for group in twin.optimizer.param_groups)
    if twin.owns_optimizer:
        return OptimizerFacts("Adam", groups, assumed=True)
    has_scheduler = twin.scheduler is not None
    return OptimizerFacts(type(twin.optimizer).__name__, groups, False, tuple(_rates(twin)), has_scheduler)


def _rates(twin: Twin) -> Iterator[GroupRate]:
    """Read the rates of the user's own optimizer: those of the twin may stand behind a warm-up already."""
    peaks = _peaks(twin)
    for index, group in enumerate(twin.subject.optimizer.param_groups):
        now = rate_of(group)
        trained = sum(p.requires_grad for p in group["params"])
        if now is not None and trained:
            peak = peaks[index] if index < len(peaks) else None
            yield GroupRate(index, now, peak, made_with(group), trained, bool(group.get("maximize")))


def _peaks(twin: Twin) -> tuple[float, ...]:
    """Return the highest rate of each group from now on, as far as it is known."""
    live = twin.subject.optimizer
    now = rates_now(live)
    if twin.scheduler is not None:
        plateau = isinstance(twin.scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)  # which only lowers
        return now if plateau else twin.subject.highest_rates or ()
    peaks = tuple(max(rate, made_with(group) or rate) for rate, group in zip(now, live.param_groups, strict=True))
    if twin.train_step is None or min(peaks) > 0:
        return peaks
    stepped = _rates_of_step(twin)
    return tuple(max(pair) for pair in zip(peaks, stepped, strict=True)) if stepped else ()


def _rates_of_step(twin: Twin) -> tuple[float, ...]:
    """Call the user's step, which may set the learning rate, and return the highest rates; empty where it fails."""
    seen = []
    twin.ready_to_train()
    try:
        for batch in [twin.batch()] * CALLS:
            twin.user_step(batch.clone())
            seen.append(rates_now(twin.optimizer))
    except NbdebugError:
        raise
    except Exception:  # a step that fails is reported by its own check
        return ()
    return tuple(max(rates) for rates in zip(*seen, strict=True))


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
