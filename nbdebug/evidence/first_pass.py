"""One forward and backward pass, everything measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from nbdebug.core.registry import probe
from nbdebug.errors import NbdebugError, NotApplicable
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.capture import tapped
from nbdebug.experiments.task import Task, chance_loss, task_of
from nbdebug.experiments.tensor_stats import TensorFacts, facts_of
from nbdebug.sandbox import Outcome, Sandbox
from nbdebug.setup.nested import first_tensor

__all__ = ["FirstPass", "LayerFacts", "ParameterFacts", "as_far_as_it_runs", "first_pass", "require_run"]


@dataclass(frozen=True)
class LayerFacts:
    """One call of one module: what it gave, and the gradient that came back to it."""

    path: str
    module: str
    is_leaf: bool
    output: TensorFacts
    gradient: TensorFacts | None = None


@dataclass(frozen=True)
class ParameterFacts:
    """One parameter: its values, its gradient (None when it got none), and whether the optimizer holds it."""

    name: str
    values: TensorFacts
    requires_grad: bool
    in_optimizer: bool
    gradient: TensorFacts | None = None


@dataclass(frozen=True)
class FirstPass:
    """One forward and backward pass on one batch, everything measured."""

    loss: float
    loss_name: str
    task: Task
    chance_loss: float | None
    head: str
    batch_size: int
    training: bool
    output: TensorFacts | None
    layers: tuple[LayerFacts, ...]
    parameters: tuple[ParameterFacts, ...]


def require_run(trial: TrialRun) -> None:
    """Let a probe say that it cannot run because the model does not."""
    if not trial.ok:
        raise NotApplicable(f"the {trial.failed_at} pass fails; see forward-fails")


@contextmanager
def as_far_as_it_runs(trial: TrialRun) -> Iterator[None]:
    """Let a probe that can do without the later passes try, and blame a failure on the pass that is known to fail."""
    if trial.failed_at == "forward":
        require_run(trial)
    try:
        yield
    except NbdebugError:
        raise
    except Exception:
        require_run(trial)
        raise


class _Recorder:
    """The facts of each module call, and of the gradient that comes back to its output."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, nn.Module, TensorFacts]] = []
        self.gradients: dict[int, TensorFacts] = {}
        self.identity: dict[int, str] = {}

    def after(self, path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        """Measure one output, and ask for its gradient."""
        tensor = first_tensor(output)
        if tensor is None:
            return
        index = len(self.calls)
        self.calls.append((path, module, facts_of(tensor)))
        self.identity.setdefault(id(tensor), path)  # the innermost module ends first
        if tensor.requires_grad:
            tensor.register_hook(lambda gradient: self.gradients.__setitem__(index, facts_of(gradient)))

    def layers(self) -> tuple[LayerFacts, ...]:
        """Return the calls in order."""
        return tuple(
            LayerFacts(path, type(module).__name__, not any(module.children()), facts, self.gradients.get(index))
            for index, (path, module, facts) in enumerate(self.calls)
        )


@probe
def first_pass(sandbox: Sandbox, trial: TrialRun) -> FirstPass:
    """Run one forward and backward pass on one batch."""
    require_run(trial)
    batch, recorder, training = sandbox.batch(), _Recorder(), sandbox.model.training
    sandbox.ready_to_train()
    with tapped(sandbox.model, after=recorder.after):
        outcome = sandbox.run(batch)
    if not isinstance(outcome.loss, torch.Tensor) or outcome.loss.numel() != 1:
        raise NotApplicable("the loss is not a scalar")
    if outcome.loss.requires_grad:
        outcome.loss.backward()
    task = task_of(outcome.output, batch)
    choice = sandbox.loss_choice(outcome.output, batch) if sandbox.compute_loss is None else None
    return FirstPass(
        loss=float(outcome.loss.detach()),
        loss_name=choice.name if choice else "compute_loss",
        task=task,
        chance_loss=chance_loss(choice.function, outcome.output, batch, task) if choice else None,
        head=_head(outcome, recorder),
        batch_size=batch.size,
        training=training,
        output=facts_of(outcome.predicted) if outcome.predicted is not None else None,
        layers=recorder.layers(),
        parameters=_parameters(sandbox),
    )


def _head(outcome: Outcome, recorder: _Recorder) -> str:
    """Name the module whose output is the prediction; the last leaf where it was computed on by hand."""
    if outcome.predicted is not None and id(outcome.predicted) in recorder.identity:
        return recorder.identity[id(outcome.predicted)]
    leaves = [path for path, module, _ in recorder.calls if not any(module.children())]
    return leaves[-1] if leaves else "model"


def _parameters(sandbox: Sandbox) -> tuple[ParameterFacts, ...]:
    held = {id(p) for group in sandbox.optimizer.param_groups for p in group["params"]}
    return tuple(
        ParameterFacts(
            name,
            facts_of(parameter),
            parameter.requires_grad,
            id(parameter) in held,
            facts_of(parameter.grad) if parameter.grad is not None else None,
        )
        for name, parameter in sandbox.model.named_parameters()
    )
