"""How do signal and gradient change from layer to layer?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import nn

from nbdebug.core.control import Control
from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.gradient_descent import small_step
from nbdebug.experiments.trace import Call, owned_matrices, traced, weighted_calls
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch

__all__ = ["GradientFlow", "LayerFlow", "TimeFlow", "Trend", "gradient_flow", "trend_of"]


@dataclass(frozen=True)
class LayerFlow:
    """One layer with weights, in the order of the calls: the signal that it passes on and the gradient that it gets.

    `spread` is how much its output varies from sample to sample, `gradient` the norm of the loss's gradient at its
    output, `update` the change of its weights in one step of the optimizer relative to their size.
    """

    path: str
    spread: float
    gradient: float
    weight_gradient: float  # mean absolute value
    update: float


@dataclass(frozen=True)
class TimeFlow:
    """How the gradient changes on its way through time: its norm at the first step over that at the last."""

    path: str
    steps: int
    ratio: float


@dataclass(frozen=True)
class Trend:
    """A quantity over depth: how the far end compares with the near one, and how orderly it goes there.

    `ratio` is the end over the start, `factor` the same for one layer, `order` the rank correlation with depth.
    """

    ratio: float
    factor: float
    order: float
    layers: int
    largest: float  # the share of the whole change that the largest single step makes


def trend_of(values: Sequence[float]) -> Trend | None:
    """Describe how a quantity changes over layers; values that are zero or not finite are left out."""
    logs = [math.log(value) for value in values if 0 < value < math.inf]
    if len(logs) < 3:
        return None
    ranks = np.argsort(np.argsort(logs, kind="stable"), kind="stable")
    order = float(np.corrcoef(np.arange(len(logs)), ranks)[0, 1])
    change = logs[-1] - logs[0]
    steps = [(b - a) / change if change else 0.0 for a, b in pairwise(logs)]
    return Trend(math.exp(min(change, 700.0)), math.exp(change / (len(logs) - 1)), order, len(logs), max(steps))


@dataclass(frozen=True)
class GradientFlow:
    """Signal and gradient layer by layer; `head` is the last layer, whose output is the answer."""

    layers: tuple[LayerFlow, ...]
    time: tuple[TimeFlow, ...]
    signal: Trend | None  # from the first layer to the last hidden one
    gradient: Trend | None  # from the last layer back to the first
    optimizer: str


LONG = 8  # calls of one layer that make a walk through time
WAKING = 3  # small steps after which a start at zero shows its gradients

Measured = dict[str, list[tuple[float, float]]]  # path -> spread and gradient of each call


@probe(quick=False)
def gradient_flow(sandbox: Sandbox, trial: TrialRun, control: Control) -> GradientFlow:
    """Measure activations, gradients and updates of every weighted layer on one batch."""
    require_run(trial)
    sandbox.ready_to_train()
    batch = sandbox.batch()
    measured = _measure(sandbox, batch)
    if any(gradient == 0 for calls in measured.values() for _, gradient in calls):
        for _ in range(WAKING):
            small_step(sandbox, batch)
        measured = _measure(sandbox, batch)
    if not measured:
        raise NotApplicable("no gradient flows through a layer with weights")
    magnitudes = _weight_gradients(sandbox, measured)
    control.progress(0.5, "taking one step")
    updates = _updates(sandbox, batch, measured)
    layers = tuple(
        LayerFlow(path, calls[0][0], calls[0][1], magnitudes[path], updates[path]) for path, calls in measured.items()
    )
    unrolled = [TimeFlow(p, len(c), c[0][1] / c[-1][1]) for p, c in measured.items() if len(c) >= LONG and c[-1][1] > 0]
    return GradientFlow(
        layers=layers,
        time=(*unrolled, *_through_time(sandbox, batch)),
        signal=trend_of([layer.spread for layer in layers[:-1]]),
        gradient=trend_of([layer.gradient for layer in reversed(layers)]),
        optimizer="Adam" if sandbox.owns_optimizer else type(sandbox.optimizer).__name__,
    )


def _measure(sandbox: Sandbox, batch: Batch) -> Measured:
    """Return spread and gradient at every call of a layer that a gradient comes to, in the order of beginning."""
    sandbox.model.zero_grad(set_to_none=True)
    trace = traced(sandbox, batch)
    calls = sorted((c for c in weighted_calls(trace) if c.is_leaf), key=lambda call: call.began)
    gradients = _listen(calls)
    loss = trace.outcome.loss if trace.outcome is not None else None
    if not isinstance(loss, torch.Tensor) or not loss.requires_grad or loss.numel() != 1:
        raise NotApplicable("the loss has no gradient")
    loss.backward()
    measured: Measured = {}
    for index, call in enumerate(calls):
        if index in gradients and call.output is not None:
            measured.setdefault(call.path, []).append((_spread(call.output), gradients[index]))
    return measured


def _listen(calls: list[Call]) -> dict[int, float]:
    heard: dict[int, float] = {}
    for index, call in enumerate(calls):
        if call.output is not None and call.output.requires_grad:
            call.output.register_hook(lambda g, i=index: heard.__setitem__(i, float(g.double().norm())))
    return heard


def _spread(output: torch.Tensor) -> float:
    """Measure how much an output varies over the samples; a single sample is measured by its size."""
    values = output.detach().double().flatten(1) if output.dim() > 1 else output.detach().double().reshape(-1, 1)
    if len(values) < 2:
        return float(values.square().mean().sqrt())
    return float(values.var(0).mean().sqrt())


def _modules(sandbox: Sandbox, measured: Measured) -> dict[str, nn.Module]:
    known = dict(sandbox.model.named_modules())
    return {path: known["" if path == "model" else path] for path in measured}


def _weight_gradients(sandbox: Sandbox, measured: Measured) -> dict[str, float]:
    magnitudes = {}
    for path, module in _modules(sandbox, measured).items():
        gradients = [w.grad for _, w in owned_matrices(module) if w.grad is not None]
        magnitudes[path] = max((float(g.to_dense().double().abs().mean()) for g in gradients), default=0.0)
    return magnitudes


def _updates(sandbox: Sandbox, batch: Batch, measured: Measured) -> dict[str, float]:
    """Take one step of the optimizer in force and measure how far each layer moved."""
    weights = {path: owned_matrices(module) for path, module in _modules(sandbox, measured).items()}
    before = {path: [w.detach().clone() for _, w in own] for path, own in weights.items()}
    sandbox.plain_step(batch)
    return {
        path: max(
            (
                float((w.detach() - old).double().norm() / old.double().norm().clamp_min(1e-30))
                for (_, w), old in zip(own, before[path], strict=True)
            ),
            default=0.0,
        )
        for path, own in weights.items()
    }


def _through_time(sandbox: Sandbox, batch: Batch) -> list[TimeFlow]:
    """Follow the gradient of the last step of every recurrent layer back to its first."""
    found = []
    for call in traced(sandbox, batch).calls:
        layer = call.module
        if isinstance(layer, nn.RNNBase) and call.inputs and call.inputs[0].dim() == 3 and not layer.bidirectional:
            given = call.inputs[0].detach().clone().requires_grad_()
            time = 1 if layer.batch_first else 0
            if given.shape[time] < LONG:
                continue
            (gradient,) = torch.autograd.grad(layer(given)[0].select(time, -1).sum(), given)
            norms = gradient.double().movedim(time, 0).flatten(1).norm(dim=1)
            if float(norms[-1]) > 0:
                found.append(TimeFlow(call.path, len(norms), float(norms[0] / norms[-1])))
    return found
