"""Other ways to read a batch than the one that was inferred, for a person to choose from."""

from __future__ import annotations

from typing import Any

import torch

from nbdebug.setup.batch_layout import Reading, Signature
from nbdebug.setup.nested import Path, at, children, name_of

__all__ = ["other_readings"]

CHOSEN = "you chose it"


def other_readings(raw: Any, now: Reading, asks: Signature) -> dict[str, Reading]:
    """Return readings with another target, by a few words each; those that `forward` could not take are left out."""
    parts = children(raw)
    if parts is None:
        return {}
    paths: list[Path] = [(step,) for step, part in parts if isinstance(part, torch.Tensor)]
    eaten = (
        [path for path in now.input_paths if isinstance(at(raw, path), torch.Tensor)] if all(now.input_paths) else []
    )
    candidates: list[Path | None] = [path for path in (*paths, *eaten) if path != now.target]
    found: dict[str, Reading] = {}
    for target in dict.fromkeys([*candidates, *([None] if now.target is not None else [])]):
        reading = _with_target(paths, now, target, asks)
        if reading is not None:
            found[_said(reading)] = reading
    return found


def _with_target(paths: list[Path], now: Reading, target: Path | None, asks: Signature) -> Reading | None:
    """Return the reading with this target: its place among the inputs is taken by what was the target before."""
    freed = now.target if now.target in paths else None
    if now.kwargs:
        kwargs = {name: path for name, path in now.kwargs.items() if path != target}
        missing = {*asks.names[: asks.required], *asks.keyword_required} - set(kwargs)
        if missing:
            return None
        return Reading(kwargs=kwargs, target=target, reason=CHOSEN)
    args = tuple(freed if path == target else path for path in now.args)
    if any(path is None for path in args) or args == ((),):
        return None
    return Reading(args=tuple(path for path in args if path is not None), target=target, reason=CHOSEN)


def _said(reading: Reading) -> str:
    inputs = ", ".join(name_of(path) for path in reading.input_paths)
    return f"{inputs} → {name_of(reading.target)}" if reading.target is not None else f"{inputs}, no target"
