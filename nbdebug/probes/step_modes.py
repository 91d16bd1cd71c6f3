"""See in which mode the modules are while a training step runs."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from nbdebug.errors import NbdebugError, NotApplicable
from nbdebug.evidence import StepModes, TrialRun
from nbdebug.probes.eval_noise import difference
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.subject.drawing import seed_all
from nbdebug.twin import Twin
from nbdebug.twin.taps import first_tensor, tapped

__all__ = ["step_modes"]


@probe(quick=False)
def step_modes(twin: Twin, trial: TrialRun) -> StepModes:
    """Find the modules that depend on train/eval mode, and the mode your training step sets."""
    require_run(trial)
    batch = twin.batch()
    handed, sensitive = bool(twin.model.training), _sensitive(twin.fresh(), batch)
    if not sensitive:
        raise NotApplicable("the model behaves identically in train and eval mode")
    if twin.train_step is None:
        return StepModes(handed, sensitive, has_step=False)
    as_handed = _modes_in_step(twin, batch)
    again = twin.fresh()
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


@torch.no_grad()
def _sensitive(twin: Twin, batch: Batch) -> tuple[str, ...]:
    """Run every leaf on the inputs it gets in both modes, with the same random numbers, and keep those that differ."""
    found: list[str] = []

    def look(path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        if path in found or any(module.children()) or module in busy:
            return
        busy.append(module)
        try:
            gave = [_call(module, inputs, training) for training in (True, False)]
            if difference(*gave) > 1e-6:
                found.append(path)
        except NbdebugError:
            raise
        except Exception:
            return  # some inputs cannot be used again; such a module is left out
        finally:
            busy.remove(module)

    busy: list[nn.Module] = []
    with twin.mode(training=False), tapped(twin.model, after=look):
        twin.run(batch)
    if not found and _whole_differs(twin, batch):
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


def _whole_differs(twin: Twin, batch: Batch) -> bool:
    """Whether the model as a whole asks for the mode, as with functional dropout."""
    gave = []
    for training in (True, False):
        seed_all(3)
        with twin.mode(training):
            gave.append(twin.run(batch).predicted)
    return difference(*gave) > 1e-6


def _modes_in_step(twin: Twin, batch: Batch) -> dict[str, bool]:
    """Give the mode of each module that the step called with gradients on; what only measures does not count."""
    modes: dict[str, bool] = {}

    def look(path: str, module: nn.Module, inputs: Any) -> None:
        if torch.is_grad_enabled():
            modes[path] = bool(module.training)

    try:
        with tapped(twin.model, before=look):
            twin.user_step(batch.clone())
    except NbdebugError:
        raise
    except Exception as error:
        raise NotApplicable(f"train_step fails: {type(error).__name__}: {error}") from None
    return modes
