"""See in which mode the modules are while a training step runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.capture import tapped
from nbdebug.experiments.tensor_stats import relative_difference
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.nested import first_tensor
from nbdebug.setup.sample_dataset import seed_all
from nbdebug.setup.user_code import required_user_code, user_code

__all__ = ["StepModes", "step_modes"]


@dataclass(frozen=True)
class StepModes:
    """In which mode the modules are that behave differently in the two, while a training step runs.

    `handed_training` is the mode of the whole model as it was handed over. `put_to_eval` are the modules that were in
    training mode before the user's step and in eval mode within it; `eval_as_handed` says that a step from the state as
    handed over runs in eval mode, None when no step was given. `left_in_eval` are the modules that the step trains in
    training mode when it is called once, and in eval mode when it is called again.
    """

    handed_training: bool
    sensitive: tuple[str, ...]
    has_step: bool
    put_to_eval: tuple[str, ...] = ()
    whole_in_eval: bool = False
    eval_as_handed: bool | None = None
    left_in_eval: tuple[str, ...] = ()
    place: str = "your train_step"


@probe(quick=False)
def step_modes(sandbox: Sandbox, trial: TrialRun | None) -> StepModes:
    """Find the modules that depend on train/eval mode, and the mode your training step sets."""
    if trial is not None:  # there is none of a training step whose model cannot be called without it
        require_run(trial)
    elif sandbox.train_step is None:
        raise NotApplicable("the model does not run")
    batch = sandbox.batch()
    handed, sensitive = bool(sandbox.model.training), _sensitive(sandbox.fresh(), batch, in_step=trial is None)
    if not sensitive:
        raise NotApplicable("the model behaves identically in train and eval mode")
    if sandbox.train_step is None:
        return StepModes(handed, sensitive, has_step=False)
    as_handed = _modes_in_step(sandbox, batch)
    again = sandbox.fresh()
    again.model.train()
    before = {path or "model": bool(module.training) for path, module in again.model.named_modules()}
    after = _modes_in_step(again, batch)
    second = _modes_in_step(again, batch)
    turned = tuple(path for path in sensitive if before.get(path) and after.get(path) is False)
    return StepModes(
        handed,
        sensitive,
        has_step=True,
        put_to_eval=turned,
        whole_in_eval=bool(before["model"] and after.get("model") is False),
        eval_as_handed=as_handed.get("model") is False,
        left_in_eval=tuple(path for path in sensitive if after.get(path) and second.get(path) is False),
    )


def _sensitive(sandbox: Sandbox, batch: Batch, *, in_step: bool) -> tuple[str, ...]:
    """Run every leaf on the inputs it gets in both modes, with the same random numbers, and keep those that differ."""
    found: list[str] = []

    def look(path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        if path in found or any(module.children()) or module in busy:
            return
        busy.append(module)
        try:
            with torch.no_grad(), user_code():  # some inputs cannot be used again; such a module is left out
                gave = [_call(module, inputs, training) for training in (True, False)]
                if relative_difference(*gave) > 1e-6:
                    found.append(path)
        finally:
            busy.remove(module)

    busy: list[nn.Module] = []
    with sandbox.mode(training=False), tapped(sandbox.model, after=look):
        if in_step:
            with required_user_code("train_step fails: {kind}: {message}"):
                sandbox.user_step(batch.clone())
        else:
            with torch.no_grad():
                sandbox.run(batch)
    if not found and not in_step and _whole_differs(sandbox, batch):
        found.append("model")
    return tuple(found)


def _call(module: nn.Module, inputs: Any, training: bool) -> torch.Tensor | None:
    before = module.training
    module.training = training
    seed_all(3)
    try:
        return first_tensor(module(*inputs.args, **inputs.kwargs))
    finally:
        module.training = before


@torch.no_grad()
def _whole_differs(sandbox: Sandbox, batch: Batch) -> bool:
    """Whether the model as a whole asks for the mode, as with functional dropout."""
    gave = []
    for training in (True, False):
        seed_all(3)
        with sandbox.mode(training):
            gave.append(sandbox.run(batch).predicted)
    return relative_difference(*gave) > 1e-6


def _modes_in_step(sandbox: Sandbox, batch: Batch) -> dict[str, bool]:
    """Return the mode of each module that the step called with gradients on; what only measures does not count."""
    modes: dict[str, bool] = {}

    def look(path: str, module: nn.Module, inputs: Any) -> None:
        if torch.is_grad_enabled():
            modes[path] = modes.get(path, False) or bool(module.training)  # validation may run with gradients, too

    with required_user_code("train_step fails: {kind}: {message}"), tapped(sandbox.model, before=look):
        sandbox.user_step(batch.clone())
    return modes
