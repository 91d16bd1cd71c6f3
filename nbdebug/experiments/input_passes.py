"""Backward passes that compute the gradient of an input, as an attack or a saliency map does."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import torch

__all__ = ["InputPasses", "Pass"]

_SAME = 1e-4  # relative: two losses of the same value
_MOST = 20_000  # nodes of a graph


@dataclass(frozen=True)
class Pass:
    """One backward pass: whether it ends at a leaf that is no parameter as well, and the loss it started from."""

    reaches_input: bool = False
    loss: float = math.nan


@dataclass
class InputPasses:
    """By the number of a backward pass what it is, and the steps that add the gradients of such a pass to others."""

    is_known: Callable[[torch.Tensor], bool]
    passes: dict[int, Pass] = field(default_factory=dict)
    begun: Pass = field(default_factory=Pass)
    _added: list[tuple[object, float, list[float]]] = field(default_factory=list)

    def begin(self, roots: Sequence[torch.Tensor]) -> None:
        """Look at the graph of a backward pass before it runs."""
        loss = float(roots[0].detach()) if len(roots) == 1 and roots[0].numel() == 1 else math.nan
        self.begun = Pass(any(not self.is_known(leaf) for leaf in _leaves(roots)), loss)

    def note(self, number: int) -> None:
        """Give the pass that has begun its number."""
        self.passes.setdefault(number, self.begun)

    def judge(self, steps: object, made_of: Iterable[list[int]], used: set[int]) -> None:
        """Note a step with gradients of a pass for an input, made for another pass that needs none."""
        parts = [[n for n in numbers if n not in used] for numbers in made_of]
        parts = [numbers for numbers in parts if numbers]
        newest = max((numbers[-1] for numbers in parts), default=None)
        if newest is None or self.passes[newest].reaches_input:
            return
        older = {n for numbers in parts for n in numbers if n != newest and self.passes[n].reaches_input}
        if older and all(older & set(numbers) for numbers in parts):
            self._added.append((steps, self.passes[newest].loss, [self.passes[n].loss for n in older]))

    def end_call(self, returned: object) -> list[object]:
        """Return what took such steps in this call, if the loss that it returns is that of the last pass alone."""
        value = returned.detach() if isinstance(returned, torch.Tensor) and returned.numel() == 1 else returned
        said = float(value) if isinstance(value, (int, float, torch.Tensor)) else math.nan
        found = [
            steps
            for steps, newest, older in self._added
            if math.isclose(said, newest, rel_tol=_SAME)
            and not any(math.isclose(said, o, rel_tol=_SAME) for o in older)
        ]
        self._added.clear()
        return found


def _leaves(roots: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    seen, found = set[object](), list[torch.Tensor]()
    todo = [root.grad_fn for root in roots if root.grad_fn is not None]
    while todo and len(seen) < _MOST:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if isinstance(leaf, torch.Tensor):
            found.append(leaf)
        todo += [parent for parent, _ in node.next_functions if parent is not None]
    return found
