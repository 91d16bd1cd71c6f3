"""A patch that keeps tensors in the autograd graph, however their values leave it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from nbdebug.fixes import patch
from nbdebug.fixes.calls import Call, rewrite_calls
from nbdebug.sandbox import Sandbox

__all__: list[str] = []

LEAVING = ("item", "tolist", "__float")  # tensors become Python numbers; names are without trailing underscores
ARRAYS = ("numpy", "__array")
RETURNING = ("tensor", "as_tensor")


@patch()
def keep_graph(sandbox: Sandbox) -> None:
    """Keep the autograd graph intact in forward: no detach, .data, .item(), no_grad, NumPy or copies."""
    rewrite_calls(sandbox, _Kept)


class _Kept:
    """The calls of one pass, executed so that a value that left the graph is replaced by its original tensor.

    A Python number is recognized by its identity, an array and a copy by their memory address.
    """

    def __init__(self) -> None:
        self.is_learning = torch.is_grad_enabled()
        self.numbers: dict[int, tuple[Any, torch.Tensor]] = {}
        self.memory: dict[int, torch.Tensor] = {}

    def __call__(self, call: Call) -> Any:
        """Execute the call without breaking the graph."""
        if call.name == "_set_grad_enabled" and self.is_learning:
            return None
        if call.name == "detach" or getattr(call.function, "__self__", None) is torch.Tensor.data:
            return call.setup
        if call.name in (*LEAVING, *ARRAYS) and isinstance(call.setup, torch.Tensor):
            return self._left(call)
        args = tuple(self._returned(part) for part in call.args)
        if call.name in RETURNING and args and isinstance(args[0], torch.Tensor):
            return args[0].to(call.kwargs.get("dtype") or args[0].dtype)
        result = call.go_on(*args, **self._options(call))
        if call.name == "clone" and isinstance(result, torch.Tensor) and result.grad_fn is not None:
            self.memory[result.data_ptr()] = result  # a deep copy of a parameter uses it
        return result

    def _left(self, call: Call) -> Any:
        """Return the values, and remember the tensor that they come from."""
        values = call.setup.detach()
        result = call.go_on(values, *call.args[1:])
        if call.name in LEAVING:
            self.numbers[id(result)] = (result, call.setup)
        else:
            self.memory[values.data_ptr()] = call.setup
        return result

    def _returned(self, part: Any) -> Any:
        """Return the original tensor of a number, an array or a detached tensor."""
        if isinstance(part, torch.Tensor):
            kept = self.memory.get(part.data_ptr()) if self.memory and part.is_leaf else None
            return kept if kept is not None and kept.shape == part.shape else part
        if id(part) in self.numbers:
            return self.numbers[id(part)][1]
        if isinstance(part, np.ndarray):
            return self.memory.get(part.ctypes.data, part)
        if type(part) in (list, tuple):
            return type(part)(self._returned(inner) for inner in part)
        return part

    def _options(self, call: Call) -> dict[str, Any]:
        """Return the keyword arguments likewise; a gradient computed in forward keeps its own graph."""
        options = {name: self._returned(value) for name, value in call.kwargs.items()}
        return {**options, "create_graph": True} if call.function is torch.autograd.grad else options
