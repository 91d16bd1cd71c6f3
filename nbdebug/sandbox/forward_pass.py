"""What one pass of the model and the loss gives, also under no_grad if the user's code computes gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.setup.nested import detached

__all__ = ["Outcome", "measured"]


@dataclass(frozen=True)
class Outcome:
    """What one pass gave: everything that the model returned, its main tensor, and the loss."""

    output: Any
    predicted: torch.Tensor | None
    loss: torch.Tensor


def measured(run: Callable[[], Outcome]) -> Outcome:
    """Run a pass; one that computes gradients itself, such as a gradient penalty, gets them even under no_grad."""
    try:
        return run()
    except RuntimeError as error:
        if torch.is_grad_enabled() or "does not require grad" not in str(error):
            raise
    with torch.enable_grad():
        outcome = run()
    return Outcome(detached(outcome.output), detached(outcome.predicted), detached(outcome.loss))
