"""Are the gradients of functions with a backward of their own right?"""

from __future__ import annotations

import sys

import torch

from nbdebug.control import Control
from nbdebug.errors import NotApplicable, OutOfTime
from nbdebug.evidence import CustomGradient, CustomGradients, TrialRun
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.twin import Twin
from nbdebug.twin.graph import NodeOwners
from nbdebug.twin.samples import Samples, runnable
from nbdebug.twin.slopes import FunctionCall, Slopes, calls_noted, own_functions, slopes_of
from nbdebug.twin.taps import tapped

__all__ = ["custom_gradients"]

SAMPLES = 4
CALLS = 3  # calls of one function that are examined
SECONDS = 10.0


@probe
def custom_gradients(twin: Twin, trial: TrialRun, control: Control) -> CustomGradients:
    """Compare custom backward functions with finite differences."""
    require_run(trial)
    twin.ready_to_train()
    whole = twin.batch()
    batch = runnable(Samples(whole, 0, whole.size, True), SAMPLES, twin.run).batch
    loss = twin.run(batch).loss
    functions = own_functions(loss) if isinstance(loss, torch.Tensor) and loss.requires_grad else []
    if not functions:
        raise NotApplicable("no autograd.Function with a custom backward is used")
    if sys.getprofile() is not None:
        raise NotApplicable("a Python profiler is active, so the calls cannot be traced")
    owners = NodeOwners()
    hooks = tapped(twin.model, after=owners.after, before=owners.before)
    with hooks, calls_noted(functions, lambda: owners.innermost or "loss_fn") as calls:
        twin.run(batch)
    chosen = [call for f in functions for call in [c for c in calls if c.function is f][:CALLS]]
    return CustomGradients(tuple(f.__name__ for f in functions), tuple(_all_judged(chosen, control)))


def _all_judged(calls: list[FunctionCall], control: Control) -> list[CustomGradient]:
    """Judge one call after another, as far as the time goes."""
    found: list[CustomGradient] = []
    try:
        with control.limit(SECONDS):
            for call in calls:
                found.extend(_judged(call, control))
    except OutOfTime:
        if control.is_over or not found:
            raise
    return found


def _judged(call: FunctionCall, control: Control) -> list[CustomGradient]:
    found = []
    for index, value in enumerate(call.args):
        control.poll()
        if not isinstance(value, torch.Tensor) or not value.requires_grad or not value.numel():
            continue
        slopes = slopes_of(call, index)
        if slopes is not None:
            found.append(_summed_up(call, index, slopes))
    return found


def _summed_up(call: FunctionCall, index: int, slopes: Slopes) -> CustomGradient:
    """Put the comparison into numbers; where the forward is flat, a gradient may be given on purpose."""
    given, measured = slopes.given, slopes.measured
    scale = max(float(measured.abs().max()), float(given.abs().max())) if given.numel() else 0.0
    flat = (measured.abs() <= 1e-6 * scale) & (given.abs() > 1e-3 * scale)
    kept_given, kept_measured = given[~flat], measured[~flat]
    size = max(float(kept_given.norm()), float(kept_measured.norm()))
    square = float(kept_measured @ kept_measured)
    return CustomGradient(
        function=call.function.__name__,
        argument=call.names[index],
        where=call.where,
        nature=slopes.nature,
        error=float((kept_given - kept_measured).norm()) / size if size > 0 else 0.0,
        ratio=float(kept_given @ kept_measured) / square if square > 0 else 1.0,
        probed=int(given.numel()),
        flat_but_given=int(flat.sum()),
        missing=slopes.missing,
        precision=slopes.precision,
    )
