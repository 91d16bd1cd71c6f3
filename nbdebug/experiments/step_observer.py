"""Observe what the user's own training step does on a copy, call by call."""

from __future__ import annotations

import gc
import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from nbdebug.core.torch_compat import OPTIMIZER_HOOKS
from nbdebug.experiments.gradient_state import held_by
from nbdebug.experiments.reached_parts import reached_parts
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.nested import tensors_in
from nbdebug.watch.recorder.graphs import GraphToken
from nbdebug.watch.recorder.step_hooks import hook_gradient, hook_outer_steps

__all__ = ["LoopStep", "StepObserver"]

SCALED = 100.0  # a gradient that shrinks so much before the step is compared with that of the plain loss


@dataclass(frozen=True)
class LoopStep:
    """What one call of the user's training step did.

    `leftover` is the norm of gradients from before an optimizer step that were still there when the next backward
    pass began; `raw_norm` and `used_norm` are the gradient's norm after backward and when the optimizer used it.
    `change` is how far the weights are from where they were before the call, and `stepped` how far the optimizer moved
    them within it.
    """

    loss: float
    forwards: int
    backwards: int
    steps: int
    leftover: float
    raw_norm: float
    used_norm: float
    change: float
    step_without_gradient: bool
    stepped: float = 0.0


class StepObserver:
    """Hooks on the copy that observe what one call of the step does."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox, self.steps_taken = sandbox, 0
        optimizer = _optimizer_of(sandbox)
        self.held = held_by(optimizer)
        self.before = [p.detach().clone() for p in self.held]
        self._graphs = [0]  # that something holds
        self._used: set[int] = set()  # parameters whose gradients an optimizer step has used
        self._old: dict[int, float] = {}  # of these, the norms of those that were still there at the next backward pass
        self._clear()
        while not hasattr(optimizer, OPTIMIZER_HOOKS[0]) and hasattr(optimizer, "optimizer"):
            optimizer = optimizer.optimizer  # a wrapper, as accelerate makes one, has no hooks of its own
        self._handles: list[Any] = [
            sandbox.model.register_forward_hook(self._after_forward),
            *hook_outer_steps(self._before_step, self._after_step, [optimizer]),
        ]
        for p in self.held:
            if p.requires_grad:
                self._handles += hook_gradient(p, partial(self._arrives, p), partial(self._accumulated, p))

    def __deepcopy__(self, memo: dict[int, Any]) -> StepObserver:
        """A step may copy its model at every call; the copy reports here as well."""
        return self

    @property
    def came(self) -> bool:
        """Whether a gradient has come to a parameter in this call."""
        return bool(self._raw)

    def detach(self) -> None:
        """Take the hooks off again."""
        for handle in self._handles:
            handle.remove()

    def call(self, batch: Batch) -> LoopStep:
        """Call the step once and give what was noted."""
        self._clear()
        loss = self.sandbox.user_step(batch.clone())
        now = [p.detach().clone() for p in self.held]
        change = _distance(now, self.before)
        self.before = now
        return LoopStep(
            loss=_number(loss),
            forwards=self.forwards,
            backwards=self.backwards,
            steps=self.steps,
            leftover=self.leftover,
            raw_norm=self._raw_norm(batch),
            used_norm=self.used_norm,
            change=change,
            stepped=self.stepped,
            step_without_gradient=self.idle_step,
        )

    def _raw_norm(self, batch: Batch) -> float:
        """Return the gradient's norm after backward; a gradient scaler's factor is not counted in."""
        raw = math.sqrt(sum(norm**2 for norm in self._raw.values()))
        if self.used_norm == 0.0 or raw < SCALED * self.used_norm:
            return raw
        trained = [p for p in self.held if p.requires_grad]
        try:
            gradients = torch.autograd.grad(self.sandbox.run(batch.clone()).loss, trained, allow_unused=True)
        except RuntimeError:
            return raw
        return min(raw, math.sqrt(sum(_norm(gradient) ** 2 for gradient in gradients)))

    def graphs_alive(self) -> int:
        """Count the graphs of earlier calls that something still holds."""
        gc.collect()
        return self._graphs[0]

    def _clear(self) -> None:
        self.forwards = self.backwards = self.steps = 0
        self.leftover = self.used_norm = self.stepped = 0.0
        self.idle_step = False
        self._raw: dict[int, float] = {}

    def _after_forward(self, module: Any, args: Any, output: Any) -> None:
        self.forwards += 1
        tensor = next((t for t in tensors_in(output) if t.requires_grad), None)
        if tensor is not None:
            tensor.register_hook(self._backward_begins)
            if tensor.grad_fn is not None:
                node: Any = tensor.grad_fn  # its `metadata` is a dict, whatever the stubs say
                node.metadata["nbdebug"] = GraphToken(self._graphs, 1)

    def _backward_begins(self, gradient: torch.Tensor) -> None:
        self.backwards += 1

    def _arrives(self, parameter: torch.Tensor) -> None:
        """Note gradients that an optimizer step has used and that are still there; they may yet be cleared."""
        key, norm = id(parameter), _norm(parameter.grad)
        if not norm:
            self._used.discard(key)
            self._old.pop(key, None)
        elif key in self._used:
            self._old[key] = norm

    def _accumulated(self, parameter: torch.Tensor) -> None:
        self._raw[id(parameter)] = _norm(parameter.grad)

    def _before_step(self, optimizer: Any) -> None:
        self.steps += 1
        self.steps_taken += 1
        self.used_norm = self._gradient_norm()
        self.idle_step = self.idle_step or self.used_norm == 0.0
        left = [norm for key, norm in self._old.items() if key in self._used]
        self.leftover = max(self.leftover, math.sqrt(sum(norm**2 for norm in left)))
        self._old.clear()
        self._used.update(id(p) for p in self.held if p.grad is not None)
        self._at_step = [p.detach().clone() for p in self.held]

    def _after_step(self, optimizer: Any) -> None:
        self.stepped += _distance([p.detach() for p in self.held], self._at_step)

    def _gradient_norm(self) -> float:
        return math.sqrt(sum(_norm(p.grad) ** 2 for p in self.held))


def _optimizer_of(sandbox: Sandbox) -> Any:
    """Return the optimizer that was passed; else the one of the step's own that holds the most of the model."""
    if not sandbox.owns_optimizer:
        return sandbox.optimizer
    own = {id(p) for p in sandbox.model.parameters()}
    found = reached_parts(sandbox).optimizers.values()
    return max(found, key=lambda one: sum(id(p) in own for p in held_by(one)), default=sandbox.optimizer)


def _distance(now: list[torch.Tensor], before: list[torch.Tensor]) -> float:
    return math.sqrt(sum(float((a - b).abs().square().sum()) for a, b in zip(now, before, strict=True)))


def _norm(gradient: torch.Tensor | None) -> float:
    if gradient is None:
        return 0.0
    return float((gradient.coalesce().values() if gradient.is_sparse else gradient).detach().norm())


def _number(value: Any) -> float:
    """Return the loss as a number; a step may also return nothing, or more than one thing."""
    if isinstance(value, torch.Tensor):
        return float(value.detach()) if value.numel() == 1 else math.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan
