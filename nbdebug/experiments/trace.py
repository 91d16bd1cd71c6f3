"""Every call of every module in one pass, with the tensors that went in and came out and their graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from nbdebug.experiments.capture import tapped
from nbdebug.sandbox import Outcome, Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.nested import first_tensor, tensors_in

__all__ = ["Call", "Trace", "owned_matrices", "traced", "weighted_calls"]


@dataclass
class Call:
    """One call: what went in, what came out, and what was handed on in its place.

    An output is handed on as a clone, so that an activation in place does not overwrite what the layer gave.
    """

    path: str
    module: nn.Module
    inputs: list[torch.Tensor]
    output: torch.Tensor | None
    passed: torch.Tensor | None
    began: int

    @property
    def is_leaf(self) -> bool:
        """Whether this module calls no other."""
        return not any(self.module.children())

    @property
    def is_lookup(self) -> bool:
        """Whether integers went in and numbers came out, as in an embedding."""
        first = self.inputs[0] if self.inputs else None
        return first is not None and not first.is_floating_point() and not first.is_complex()


@dataclass
class Trace:
    """The calls of one pass in the order in which they ended, and what the pass gave."""

    calls: list[Call] = field(default_factory=list)
    outcome: Outcome | None = None
    _open: list[int] = field(default_factory=list)
    _begun: int = 0

    def before(self, path: str, module: nn.Module, inputs: Any) -> None:
        """Note that a call begins."""
        self._open.append(self._begun)
        self._begun += 1

    def after(self, path: str, module: nn.Module, inputs: Any, output: Any) -> Any:
        """Keep the call, and hand a clone of a leaf's output on."""
        began = self._open.pop() if self._open else self._begun
        made = first_tensor(output)
        hand_on = isinstance(output, torch.Tensor) and not any(module.children())
        passed = made.clone() if hand_on and made is not None else made
        self.calls.append(Call(path, module, tensors_in(inputs), made, passed, began))
        return passed if hand_on else None


def traced(sandbox: Sandbox, batch: Batch) -> Trace:
    """Run the model and the loss on one batch and keep every call."""
    trace = Trace()
    with tapped(sandbox.model, after=trace.after, before=trace.before):
        trace.outcome = sandbox.run(batch)
    return trace


def owned_matrices(module: nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Return the kernels and matrices that a module holds itself, those of a parametrization included."""
    own: list[tuple[str, torch.Tensor]] = [
        (name, p) for name, p in module.named_parameters(recurse=False) if _is_matrix(p)
    ]
    hidden = getattr(module, "parametrizations", None)
    if isinstance(hidden, nn.ModuleDict):
        own += [(f"parametrizations.{name}", p) for name, p in hidden.named_parameters() if _is_matrix(p)]
    return own


def weighted_calls(trace: Trace) -> Iterator[Call]:
    """Return the calls of layers with a matrix of their own, in order; lookups of integers are not among them."""
    for call in trace.calls:
        if call.output is not None and not call.is_lookup and owned_matrices(call.module):
            yield call


def _is_matrix(tensor: torch.Tensor) -> bool:
    return not is_lazy(tensor) and tensor.is_floating_point() and tensor.dim() >= 2
