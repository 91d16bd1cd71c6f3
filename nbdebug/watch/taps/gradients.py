"""Hooks on the outputs of modules, for the gradients that come back to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from nbdebug.core.torch_compat import gradient_hooks
from nbdebug.experiments.inert_hooks import LiveHook

__all__ = ["GradientHooks"]

FEWEST = 64  # handles that are held before it is asked which of them are over


class GradientHooks:
    """The hooks of one tap that wait for a backward pass.

    A hook on the output itself goes with the graph, and in-place operations do not disturb it. Only where the output
    is a leaf, such as a parameter that is returned, it would stay: there the newest call takes the place of the one
    before.
    """

    def __init__(self) -> None:
        self._handles: list[tuple[str, Any]] = []
        self._most = FEWEST

    def __len__(self) -> int:
        """How many handles are held."""
        return len(self._handles)

    def wait(self, name: str, value: torch.Tensor, act: Callable[[torch.Tensor], None]) -> None:
        """Call a function with the gradient of this output of a module."""
        if value.is_leaf and gradient_hooks(value) is not None:
            for earlier in [pair for pair in self._handles if pair[0] == name and _is_on(pair[1], value)]:
                earlier[1].remove()
                self._handles.remove(earlier)
        self._handles.append((name, value.register_hook(LiveHook(act))))
        if len(self._handles) > self._most:
            self._handles = [pair for pair in self._handles if pair[1].hooks_dict_ref() is not None]
            self._most = max(FEWEST, 2 * len(self._handles))

    def remove(self) -> None:
        """Wait no more, also on graphs that have not seen their backward pass."""
        for _, handle in self._handles:
            handle.remove()
        self._handles = []


def _is_on(handle: Any, value: torch.Tensor) -> bool:
    return handle.hooks_dict_ref() is gradient_hooks(value)
