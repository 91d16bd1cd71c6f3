"""Which innermost module takes what from which: from the tensors themselves, and from the graph of autograd."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import nn

from nbdebug.setup.nested import tensors_in

__all__ = ["Flow"]

MOST_NODES = 2000  # of autograd's graph between two modules


class Flow:
    """Hears the calls of one pass, with gradients switched on; `order` and `sources` hold what came out."""

    def __init__(self) -> None:
        self.order: dict[str, int] = {}  # of innermost calls, by their first one
        self.sources: dict[str, list[str]] = {}
        self._open: list[bool] = []  # of each running call, whether it has called another module
        self._taken: list[list[str]] = []
        self._owners: dict[int, tuple[weakref.ref[torch.Tensor], str]] = {}
        self._nodes: dict[Any, str] = {}

    def before(self, path: str, module: nn.Module, inputs: Any) -> None:
        """Note where the inputs come from, before the module changes them."""
        if self._open:
            self._open[-1] = True
        self._open.append(False)
        self._taken.append([source for tensor in tensors_in(inputs) for source in self._from(tensor)])

    def after(self, path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        """Note what an innermost module gives; what holds others only passes it on."""
        taken = self._taken.pop() if self._taken else []
        if not self._open or self._open.pop():
            return
        self.order.setdefault(path, len(self.order))
        known = self.sources.setdefault(path, [])
        known += [source for source in dict.fromkeys(taken) if source not in known and source != path]
        for tensor in tensors_in(output):
            self._owners[id(tensor)] = weakref.ref(tensor), path
            if tensor.grad_fn is not None:
                self._nodes[tensor.grad_fn] = path

    def _from(self, tensor: torch.Tensor) -> list[str]:
        """Return the modules whose outputs this was computed from, the nearest ones only."""
        owner = self._owners.get(id(tensor))
        if owner is not None and owner[0]() is tensor:
            return [owner[1]]
        found: list[str] = []
        waiting: list[Any] = [tensor.grad_fn]
        seen: set[Any] = set()
        while waiting and len(seen) < MOST_NODES:
            node = waiting.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            if node in self._nodes:
                found.append(self._nodes[node])
            else:
                waiting += [before for before, _ in node.next_functions]
        return found
