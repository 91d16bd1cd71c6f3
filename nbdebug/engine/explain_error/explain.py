"""`nbdebug.explain_error`: what the last error means, where it was, and what would fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from nbdebug.checks.passes.forward_fails import forward_fails
from nbdebug.core.control import Control
from nbdebug.core.torch_compat import module_hooks
from nbdebug.engine.explain_error.backward import about_backward
from nbdebug.engine.explain_error.explanation import ErrorExplanation
from nbdebug.engine.explain_error.recognizing import last_error, pattern_in
from nbdebug.engine.explain_error.scene import Call, Scene, scene_of
from nbdebug.errors import BadInput, NbdebugError, plainly
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.shape_fixes import labels_met, layer_fits, loss_fits
from nbdebug.experiments.source_lines import line_of
from nbdebug.sandbox.copying import copy_together
from nbdebug.sandbox.guard import guarded
from nbdebug.setup.nested import map_leaves
from nbdebug.setup.user_code import is_loss, user_code

__all__ = ["explain_error"]

LARGEST_TRIAL = 2**28  # bytes; larger modules are not copied only to try what would fit


@plainly
def explain_error(exception: BaseException | None = None) -> ErrorExplanation:
    """Say what an error means: the module it happened in, the shapes that met there, and what would fit.

    Without an argument it is the last one that was not caught, as after a cell that failed. What would fit is
    tried on a copy of the one module; nothing of yours runs again, and nothing is changed.
    """
    error = last_error() if exception is None else exception
    if not isinstance(error, BaseException):
        raise BadInput(
            f"it is a {type(error).__name__}" if error is not None else "no exception was raised yet",
            where="explain_error",
            expected="an exception, or an earlier cell that failed",
            do="call it in the cell after the one that failed, or pass the caught exception",
        )
    scene, text = scene_of(error), f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    trial = _trial(error, text, scene)
    return ErrorExplanation(trial.kind, text, next(forward_fails(trial)))


def _trial(error: BaseException, text: str, scene: Scene) -> TrialRun:
    """Put what is known into the form that a failed trial run has, so that one check words both."""
    pattern = pattern_in(error)
    kind, stage = pattern.kind if pattern is not None else "", _stage(scene)
    # What nbdebug itself raises says what is wrong; the module around it is well.
    found = {} if isinstance(error, NbdebugError) else _found(stage, kind, str(error), scene)
    met = _met(stage, scene)
    detail = found.get("detail") or _devices(kind, scene) or (pattern.says if pattern is not None else "")
    return TrialRun(
        stage,
        error=text,
        where=found.get("where") or _where(stage, scene),
        module=_module_name(stage, scene),
        input_shapes=tuple(tuple(t.shape) for t in met),
        input_dtypes=tuple(str(t.dtype).removeprefix("torch.") for t in met),
        fits=tuple(found.get("fits", ())),
        detail=detail,
        source=line_of(error),
        kind=kind,
        advice=pattern.advice if pattern is not None else (),
    )


def _stage(scene: Scene) -> str:
    if scene.backward_of is not None:
        return "backward"
    if scene.loss is not None or (scene.innermost is not None and is_loss(type(scene.innermost.function))):
        return "loss"
    return "forward" if scene.calls else "code"


def _where(stage: str, scene: Scene) -> str:
    if stage == "loss":
        loss = next((call.function for call in scene.calls if is_loss(type(call.function))), None)
        return (scene.name_of(loss) if loss is not None else "") or "loss_fn"
    return scene.path if stage == "forward" else "your code" if stage == "code" else ""


def _module_name(stage: str, scene: Scene) -> str:
    if stage == "loss" and scene.loss is not None and not scene.calls:
        return str(scene.loss.function.__name__)
    return type(scene.innermost.function).__name__ if scene.innermost is not None and stage != "backward" else ""


def _met(stage: str, scene: Scene) -> list[torch.Tensor]:
    if stage == "loss":
        call = scene.loss or scene.innermost
        return call.tensors if call is not None else []
    named = [tensor for _, tensor in scene.on_the_line()]
    if stage == "forward" and scene.innermost is not None:
        is_layer = type(scene.innermost.function).__module__.startswith("torch.")
        return scene.innermost.tensors if is_layer or not named else named
    return named if stage == "code" else []


def _devices(kind: str, scene: Scene) -> str:
    """Say who is where, when values on different devices met."""
    call = scene.innermost
    if kind != "device" or call is None:
        return ""
    given = {str(tensor.device) for tensor in call.tensors}
    own = {str(parameter.device) for parameter in call.function.parameters()}
    if not own or given == own:
        return f"it received tensors on {' and '.join(sorted(given))}" if len(given) > 1 else ""
    return (
        f"its parameters are on {' and '.join(sorted(own))}, and it received tensors on {' and '.join(sorted(given))}"
    )


def _found(stage: str, kind: str, error: str, scene: Scene) -> dict[str, Any]:
    """Find out more by trying parts of the pass on copies; what cannot be found is left out."""
    with user_code():
        if stage == "backward":
            return about_backward(kind, error, scene)
        if stage == "code" and kind == "nan":
            return about_nonfinite(scene)
        call = scene.loss or scene.innermost
        if call is not None and kind not in ("device", "memory", "device-assert"):
            live = tuple(call.tensors) + ((call.function,) if isinstance(call.function, nn.Module) else ())
            return guarded(lambda: _tried(stage, call, error), live, Control())
    return {}


def _tried(stage: str, call: Call, error: str) -> dict[str, Any]:
    args, kwargs = _copied(call.args), _copied(call.kwargs)
    function, is_small = call.function, _size(call) < LARGEST_TRIAL
    if isinstance(function, nn.Module) and is_small:
        function = copy_together(function).parts[0]
        _silence(function)
    if stage == "loss" and len(args) >= 2:
        fits = list(loss_fits(lambda output, target: function(output, target, **kwargs), args[0], args[1]))
        return {"fits": fits, "detail": labels_met(args[0], args[1])}
    return {"fits": list(layer_fits(function, args, kwargs, error, try_them=is_small))}


def _copied(nest: Any) -> Any:
    return map_leaves(lambda _, leaf: leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf, nest)


def _silence(module: nn.Module) -> None:
    """Take the user's hooks off the copy: they may count or write what they see."""
    for part in module.modules():
        for hooks in module_hooks(part):
            hooks.clear()


def _size(call: Call) -> int:
    module = call.function
    held = [*module.parameters(), *module.buffers()] if isinstance(module, nn.Module) else []
    return sum(tensor.numel() * tensor.element_size() for tensor in (*held, *call.tensors))


MOST = 4  # names of each kind; more are not read


def about_nonfinite(scene: Scene) -> dict[str, Any]:
    """Name the module whose parameters are not finite any more; without one the variables that are not, and are."""
    for model in scene.models():
        bad = [path for path, parameter in model.named_parameters() if not _is_finite(parameter)]
        if bad:
            name = scene.name_of(model)
            where = ".".join(part for part in (name, bad[0]) if part)
            detail = f"the parameter {where} of shape {tuple(model.get_parameter(bad[0]).shape)} is not finite"
            return {"where": bad[0].rpartition(".")[0] or name or "model", "detail": f"{detail}{_others(bad)}"}
    seen = dict(_variables(scene))
    bad, good = ([name for name, tensor in seen.items() if _is_finite(tensor) is wanted] for wanted in (False, True))
    if not bad:
        return {}
    return {"detail": f"non-finite: {_listed(bad, seen)}" + (f"; finite: {_listed(good, seen)}" if good else "")}


def _others(bad: list[str]) -> str:
    return f", and {len(bad) - 1} more" if len(bad) > 1 else ""


def _variables(scene: Scene) -> Iterator[tuple[str, torch.Tensor]]:
    """Return the tensors of floats that the user's innermost frame holds under a name of the user's."""
    known = list(scene.users[-1][0].f_locals.items()) if scene.users else []
    for name, value in known:
        is_named = name.isidentifier() and not name.startswith("_")  # pytest keeps parts of an assertion as "@py_…"
        if is_named and isinstance(value, torch.Tensor) and value.is_floating_point():
            yield name, value


def _is_finite(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "meta" or bool(torch.isfinite(tensor.detach()).all())


def _listed(names: list[str], seen: dict[str, torch.Tensor]) -> str:
    return ", ".join(f"{name} {tuple(seen[name].shape)}" for name in names[:MOST])
