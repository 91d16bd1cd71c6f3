"""What the user's own step does to gradients: whether it clears them, and whether it changes them after backward."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from nbdebug.experiments.gradient_state import has_values, held_by
from nbdebug.sandbox import Sandbox
from nbdebug.setup.user_code import user_code
from nbdebug.watch.recorder.step_hooks import hook_gradient

__all__ = ["GradientsOfBackward", "StepFacts", "step_facts"]

CALLS = 2
MOST_CALLS = 34  # sixteen micro-batches for a step, twice
STEPS = 2  # the second shows what became of the gradients of the first


@dataclass(frozen=True)
class StepFacts:
    """Whether backward found the gradients that a step had used, and whether a step used others than backward left."""

    keeps_gradients: bool = False
    changes_gradients: bool = False


class GradientsOfBackward:
    """Copies of the gradients as each backward pass leaves them."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._left: dict[int, torch.Tensor] = {}
        self._used: set[int] = set()  # parameters whose gradient a step has used, until the next backward pass
        self.keeps = False
        self._held = [p for p in held_by(sandbox.optimizer) if p.requires_grad and p.is_leaf]
        for parameter in self._held:
            hook_gradient(parameter, partial(self._look, parameter), partial(self._keep, parameter))

    def _look(self, parameter: torch.Tensor) -> None:
        if id(parameter) in self._used:
            self._used.discard(id(parameter))
            self.keeps = self.keeps or has_values(parameter.grad)

    def end_step(self) -> None:
        """Note that a step was taken with these gradients."""
        self._used = {id(parameter) for parameter in self._held if parameter.grad is not None}

    def _keep(self, parameter: torch.Tensor) -> None:
        if parameter.grad is not None and not parameter.grad.is_sparse:
            self._left[id(parameter)] = parameter.grad.detach().clone()

    def changed(self) -> Iterator[tuple[Any, torch.Tensor]]:
        """Yield the parameters whose gradient is another one by now, with what backward left."""
        for parameter in self._held:
            left = self._left.get(id(parameter))
            if left is not None and parameter.grad is not None and not torch.equal(parameter.grad, left):
                yield parameter, left


def step_facts(sandbox: Sandbox) -> StepFacts:
    """Call the user's step a few times on a copy of its own and look at the gradients; nothing where it fails."""
    copy = sandbox.fresh()
    left, changes = GradientsOfBackward(copy), list[bool]()

    def look(*_: Any) -> None:
        changes.append(next(left.changed(), None) is not None)
        left.end_step()

    copy.optimizer.register_step_pre_hook(look)
    batches = copy.batches(CALLS)
    with user_code():
        for call in range(MOST_CALLS):
            copy.user_step(batches[call % len(batches)].clone())
            if call + 1 >= CALLS and len(changes) >= STEPS:
                break
    return StepFacts(left.keeps, any(changes))
