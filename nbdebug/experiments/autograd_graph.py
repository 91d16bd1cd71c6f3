"""The autograd graph, node by node: which module made a node, which line, and where a gradient turns bad."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import get_gradient_edge

from nbdebug.core.torch_compat import saved_values
from nbdebug.experiments.nan_origin import NonFiniteOrigin, is_bad, value_at
from nbdebug.experiments.source_lines import line_in_text
from nbdebug.setup.nested import tensors_in

__all__ = ["NodeOwners", "builds_on", "first_bad_node", "nodes_behind"]

Node = Any  # torch.autograd.graph.Node has no useful type


@dataclass
class NodeOwners:
    """Which module's forward made each node; to be used with `tapped` as `before` and `after`."""

    owner: dict[Node, str] = field(default_factory=dict)
    _open: list[str] = field(default_factory=list)

    @property
    def innermost(self) -> str:
        """The module that is running now."""
        return self._open[-1] if self._open else ""

    def before(self, path: str, module: nn.Module, inputs: Any) -> None:
        """What has been computed since the last call belongs to the caller."""
        self.claim(inputs, self.innermost)
        self._open.append(path)

    def after(self, path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        """What has been computed since the last call inside belongs to this module."""
        self.claim(output, path)
        if self._open:
            self._open.pop()

    def claim(self, value: Any, path: str) -> None:
        """Return all nodes behind these tensors that no module has claimed, and assign them to this module."""
        todo = [t.grad_fn for t in tensors_in(value) if t.grad_fn is not None]
        while todo:
            node = todo.pop()
            if node not in self.owner:
                self.owner[node] = path
                todo.extend(parent for parent, _ in node.next_functions if parent is not None)


def nodes_behind(node: Node | None) -> Iterator[Node]:
    """Walk all nodes that the gradient of this one flows to; there are none behind a tensor without a graph."""
    seen, todo = ({node}, [node]) if node is not None else (set(), [])
    while todo:
        current = todo.pop()
        yield current
        for parent, _ in current.next_functions:
            if parent is not None and parent not in seen:
                seen.add(parent)
                todo.append(parent)


def builds_on(after: torch.Tensor, before: torch.Tensor) -> bool:
    """Whether a gradient can flow from one tensor to the other; none is sent, as a model may have freed its graph."""
    if not before.requires_grad or not after.requires_grad:
        return False
    wanted = get_gradient_edge(before)
    edge = wanted.node, wanted.output_nr
    return after is before or any(edge in node.next_functions for node in nodes_behind(after.grad_fn))


def first_bad_node(loss: torch.Tensor, owners: NodeOwners) -> NonFiniteOrigin | None:
    """Run backward and give the first node that made a bad gradient out of finite ones and whose harm reached a leaf.

    The forward pass has to have run in anomaly mode, so that every node knows the line that made it.
    """
    found: list[tuple[Node, NonFiniteOrigin]] = []
    handles = []
    for node in nodes_behind(loss.grad_fn):
        if not hasattr(node, "variable"):  # a leaf only collects
            handles.append(node.register_hook(_Watcher(node, owners, found)))
    try:
        loss.backward(retain_graph=True)  # kept, so that the values that a node saved can be read
    finally:
        for handle in handles:
            handle.remove()
    for node, origin in found:
        leaves = (parent.variable for parent in nodes_behind(node) if hasattr(parent, "variable"))
        if any(leaf.grad is not None and is_bad(leaf.grad) for leaf in leaves):
            return origin
    return found[0][1] if found else None


class _Watcher:
    """A hook on one node that compares the gradient that came with the gradient that goes."""

    def __init__(self, node: Node, owners: NodeOwners, found: list[tuple[Node, NonFiniteOrigin]]) -> None:
        self.node, self.owners, self.found = node, owners, found

    def __call__(self, going: tuple[Any, ...], coming: tuple[Any, ...]) -> None:
        if any(is_bad(g) for g in coming if g is not None):
            return
        bad = next((g for g in going if g is not None and is_bad(g)), None)
        if bad is None:
            return
        position = tuple(int(i) for i in (~torch.isfinite(bad)).nonzero()[0]) if bad.dim() else ()
        lines = (self.node.metadata or {}).get("traceback_", ())
        origin = NonFiniteOrigin(
            self.node.name().removesuffix("0").removesuffix("Backward").lower(),
            self.owners.owner.get(self.node, ""),
            line_in_text(lines),
            is_bad(bad),
            False,
            tuple(_saved(self.node, position, bad.shape)),
            tuple(bad.shape),
            str(bad.dtype).removeprefix("torch."),
            position,
        )
        self.found.append((self.node, origin))


def _saved(node: Node, position: tuple[int, ...], shape: Any) -> Iterator[str]:
    """Return the values of the forward pass that the node kept, at the place where the gradient turned bad."""
    for name, value in saved_values(node):
        if isinstance(value, torch.Tensor):
            yield f"{name} = {value_at(value, position, shape)}"
        elif isinstance(value, (int, float)):
            yield f"{name} = {value:.4g}"
