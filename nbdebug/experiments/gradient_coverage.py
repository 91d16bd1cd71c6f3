"""What the gradient reaches in passes of a copy, and what the calls say about a module."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from nbdebug.errors import NotApplicable
from nbdebug.experiments.trace import Call, Trace, owned_matrices, traced
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.user_code import is_users_class

__all__ = ["CallFacts", "Reached", "gradient_norm", "watch_pass"]


@dataclass
class Reached:
    """What several passes showed about gradients, parameters and modules."""

    norms: dict[str, list[float | None]] = field(default_factory=dict)
    called: list[Counter[str]] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    reached: set[int] = field(default_factory=set)  # places in `calls` to which a gradient other than zero came
    prints: dict[int, tuple[Any, float]] = field(default_factory=dict)  # the shape and the direction of that gradient
    loss: float = 0.0
    loss_has_gradient: bool = False
    output_has_gradient: bool = False


def watch_pass(sandbox: Sandbox, batch: Batch, named: dict[str, nn.Parameter], seen: Reached, *, keep: bool) -> None:
    """Run one batch forward and back and add what it shows; `keep` its calls as the ones to look into."""
    for parameter in named.values():
        parameter.grad = None
    trace = traced(sandbox, batch)
    assert trace.outcome is not None
    loss, predicted = trace.outcome.loss, trace.outcome.predicted
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        raise NotApplicable("the loss is not a scalar")
    prints: dict[int, tuple[Any, float]] = {}
    _listen(trace, prints)
    if loss.requires_grad:
        loss.backward()
    for name, parameter in named.items():
        seen.norms.setdefault(name, []).append(gradient_norm(parameter.grad) if parameter.grad is not None else None)
    seen.called.append(Counter(call.path for call in trace.calls))
    if keep:
        seen.calls, seen.reached, seen.prints, seen.loss = trace.calls, set(prints), prints, float(loss.detach())
        seen.loss_has_gradient = loss.requires_grad
        seen.output_has_gradient = predicted is None or predicted.requires_grad


def gradient_norm(gradient: torch.Tensor) -> float:
    """Return the length of a gradient, also of a sparse or a complex one."""
    values = gradient.detach().coalesce().values() if gradient.is_sparse else gradient.detach()
    wide = torch.complex128 if values.is_complex() else torch.float64
    return float(torch.linalg.vector_norm(values.to(wide)))


def _listen(trace: Trace, prints: dict[int, tuple[Any, float]]) -> None:
    """Note the calls to whose output a gradient other than zero comes, and its direction.

    Terms of a sum receive the same gradient, but for a factor: so an adapter is known by what it is added to.
    """
    for index, call in enumerate(trace.calls):
        if call.output is not None and call.output.requires_grad:

            def hear(gradient: torch.Tensor, index: int = index) -> None:
                norm = gradient_norm(gradient)
                if norm != 0:
                    prints[index] = tuple(gradient.shape), _direction(gradient) / norm

            call.output.register_hook(hear)


class CallFacts:
    """What the calls say about a module: how often, in which place, fed by what."""

    def __init__(self, sandbox: Sandbox, seen: Reached) -> None:
        self.seen = seen
        self.first: dict[str, Call] = {}
        for call in sorted(seen.calls, key=lambda call: call.began):
            self.first.setdefault(call.path, call)
        self.places = {id(call): index for index, call in enumerate(seen.calls)}
        self.learning = [call for call in self.first.values() if _learns(call)]
        self.prints: dict[Any, list[tuple[Call, float]]] = {}  # directions of gradients by their shape
        for call in self.learning:
            own = seen.prints.get(self.places[id(call)])
            if own is not None:
                self.prints.setdefault(own[0], []).append((call, own[1]))
        every = {path for counts in seen.called for path in counts}
        self.resting = [path for path in every if len({counts[path] for counts in seen.called}) > 1]  # in some batches
        self.modules = dict(sandbox.model.named_modules())
        self.kinds = {path or "model": type(module).__name__ for path, module in sandbox.model.named_modules()}

    def of(self, path: str) -> dict[str, Any]:
        """Return the fields of a `ParameterReach` that are about its module."""
        call = self.first.get(path)
        return {
            "calls": sum(counts[path] for counts in self.seen.called),
            "position": call.began if call is not None else -1,
            "fed_by_trained": call is not None and any(t.requires_grad for t in call.inputs),
            "beside_trained": call is not None and self._has_company(path, call),
            "is_lookup": call is not None and call.is_lookup,
            "conditional": self._comes_and_goes(path),
            "is_optional": self._is_optional(path),
        }

    def _is_optional(self, path: str) -> bool:
        """Whether the program passes by the model's own forward, or uses a part of a module that a library wrote.

        Such a module has a head, a pooler or a normalization for what other programs do with it.
        """
        if not any(counts[path] or counts["model"] for counts in self.seen.called):
            return True
        steps = path.split(".")
        for depth in range(len(steps) - 1, -1, -1):
            around = ".".join(steps[:depth])
            module = self.modules.get(around)
            if module is None or isinstance(module, _CONTAINERS):
                continue
            inside = [name for name in self.seen.norms if not around or name.startswith(f"{around}.")]
            if any(any(self.seen.norms[name]) for name in inside):
                return not is_users_class(type(module))
        return False

    def _has_company(self, path: str, call: Call) -> bool:
        """Whether trained weights work beside this module, as an adapter does."""
        around = self.first.get(path.rpartition(".")[0] or "model")
        if around is not None and around is not call and _learns(around):
            return True
        own = self.seen.prints.get(self.places.get(id(call), -1))
        return own is not None and any(
            math.isclose(own[1], direction, rel_tol=1e-3)
            for other, direction in self.prints.get(own[0], ())
            if other is not call
        )

    def _comes_and_goes(self, path: str) -> bool:
        """Whether this module, or one like it in the same container, is called in some batches only."""
        parent = path.rpartition(".")[0]
        grand = parent.rpartition(".")[0]
        for other in self.resting:
            near = other.rpartition(".")[0] == parent or (grand and other.startswith(f"{grand}."))
            if near and self.kinds.get(other) == self.kinds.get(path):
                return True
        return False


_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


def _direction(gradient: torch.Tensor) -> float:
    """Project a gradient on a direction that depends on its size alone."""
    values = gradient.detach().flatten()
    if values.is_complex() or gradient.layout is not torch.strided:
        return 0.0
    waves = torch.arange(values.numel(), device=values.device, dtype=torch.float64).mul_(0.7).sin_()
    return float(values.double() @ waves)


def _learns(call: Call) -> bool:
    return any(weight.requires_grad for _, weight in owned_matrices(call.module))
