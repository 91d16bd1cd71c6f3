"""What is not finite, when the user's own code has found that something is not: parameters first, then variables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from nbdebug.engine.explain_error.scene import Scene

__all__ = ["about_nonfinite"]

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
