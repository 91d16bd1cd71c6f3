"""What one pass of the model and the loss gives, also where nobody records gradients but the user's code takes some."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.subject.nest import map_leaves

__all__ = ["Outcome", "measured"]


@dataclass(frozen=True)
class Outcome:
    """What one pass gave: everything that the model returned, its main tensor, and the loss."""

    output: Any
    predicted: torch.Tensor | None
    loss: torch.Tensor


def measured(run: Callable[[], Outcome]) -> Outcome:
    """Run a pass; one that takes gradients of its own, as a penalty on a slope does, gets them even under no_grad."""
    try:
        return run()
    except RuntimeError as error:
        if torch.is_grad_enabled() or "does not require grad" not in str(error):
            raise
    with torch.enable_grad():
        outcome = run()
    return Outcome(_detached(outcome.output), _detached(outcome.predicted), _detached(outcome.loss))


def _detached(value: Any) -> Any:
    return map_leaves(lambda _, leaf: leaf.detach() if isinstance(leaf, torch.Tensor) else leaf, value)
