"""Run experiments outside of autocast blocks, so that the user's own blocks do in them what they do in training.

Autocast keeps the weights that it has cast, and only the outermost block drops them when it ends. Inside a block of
ours, or of the user's around the call, the blocks of the model would not be outermost: each pass of an experiment
would compute with the weights of its first one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

__all__ = ["leave_autocast", "restores_autocast"]

_DEVICES = ("cpu", "cuda", "xpu", "mps")


def restores_autocast() -> list[Callable[[], Any]]:
    """Return what restores autocast as it is now, also after an interrupt in its exit; to be called from the end."""
    undo: list[Callable[[], Any]] = []
    for device in _devices():
        enabled, dtype = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
        undo.append(partial(torch.set_autocast_enabled, device, enabled))
        undo.append(partial(torch.set_autocast_dtype, device, dtype))
    undo.append(partial(torch.set_autocast_cache_enabled, torch.is_autocast_cache_enabled()))
    undo.append(partial(_restore_nesting, _nesting()))
    return undo


def leave_autocast() -> None:
    """Turn autocast off on the CPU and close the blocks around us, without opening one.

    A block of the user's around the call on another device stays in force, as it has to for half-precision weights;
    but no block ends in which its cast weights would be dropped, so that there none are kept. What the user's block has
    kept may be dropped by a block of the model; it is then cast again, from the same weights.
    """
    torch.set_autocast_enabled("cpu", False)
    _set_nesting(0)
    if any(torch.is_autocast_enabled(device) for device in _devices()):
        torch.set_autocast_cache_enabled(False)


def _devices() -> list[str]:
    return [device for device in _DEVICES if torch.amp.is_autocast_available(device)]


def _nesting() -> int:
    """Return how many autocast blocks are open in this thread."""
    return int(torch.autocast_increment_nesting() and torch.autocast_decrement_nesting())  # at once, not in two lines


def _set_nesting(depth: int) -> None:
    while _nesting() > depth:
        torch.autocast_decrement_nesting()
    while _nesting() < depth:
        torch.autocast_increment_nesting()


def _restore_nesting(depth: int) -> None:
    """Close what an interrupt left open, or open again what was left; weights that were cast once must not stay."""
    if depth == 0 or _nesting() > 0:
        torch.clear_autocast_cache()
    _set_nesting(depth)
