"""Whether a training step scales the gradients that backward left, as one that averages accumulated gradients does."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from nbdebug.experiments.gradient_state import is_coarse, values_of

__all__ = ["GradientShares"]

_EQUAL = 0.01  # of the largest share: gradients in low precision are rounded when they are divided


class GradientShares:
    """The norm of each gradient as backward left it, and the share of it that is left later."""

    def __init__(self) -> None:
        self._left: dict[int, float] = {}
        self._share: dict[int, float] = {}

    def note(self, parameter: torch.Tensor) -> None:
        """Note a gradient that backward has just added to."""
        self._left[id(parameter)] = _norm(parameter)
        self._share.pop(id(parameter), None)

    def settle(self, parameters: Iterable[torch.Tensor]) -> None:
        """Say that what becomes of these gradients from now on does not count, as where they are clipped."""
        for parameter in parameters:
            self._share.setdefault(id(parameter), self._of(parameter))

    def are_reduced(self, parameters: Iterable[torch.Tensor]) -> bool:
        """Whether all of these gradients were multiplied by the same factor below 1."""
        shares = [self._share.get(id(p), self._of(p)) for p in parameters if self._left.get(id(p))]
        shares = [share for share in shares if share > 0]  # others were cleared, and got no new gradient
        return bool(shares) and max(shares) < 1 - _EQUAL and max(shares) - min(shares) <= _EQUAL * max(shares)

    def _of(self, parameter: torch.Tensor) -> float:
        left = self._left.get(id(parameter), 0.0)
        return _norm(parameter) / left if left else 1.0


def _norm(parameter: torch.Tensor) -> float:
    if parameter.grad is None:
        return 0.0
    values = values_of(parameter.grad)
    return float(torch.linalg.vector_norm(values.float() if is_coarse(values) else values))
