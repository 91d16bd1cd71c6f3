"""Decode outputs by the task: predicted and true classes, or predicted and true numbers."""

from __future__ import annotations

import torch

from nbdebug.experiments.target_shift import paired_with_targets
from nbdebug.experiments.task import class_dim, task_of
from nbdebug.sandbox import Outcome, Sandbox
from nbdebug.setup import Batch

__all__ = ["decoded"]


def decoded(sandbox: Sandbox, outcome: Outcome, batch: Batch) -> tuple[str, tuple[torch.Tensor, torch.Tensor] | None]:
    """Return "classes" or "numbers", and what is predicted and true of one batch; None where it cannot be told."""
    predicted, target = outcome.predicted, batch.target
    if predicted is None or not isinstance(target, torch.Tensor) or not bool(torch.isfinite(predicted).all()):
        return "", None
    task = task_of(outcome.output, batch)
    if task.kind == "classification":
        return "classes", _classes(sandbox, batch, predicted, target)
    if task.kind in ("binary", "multilabel"):
        edge = 0.5 if task.scale == "probabilities" else 0.0
        return "classes", ((predicted.reshape(target.shape) > edge).long().flatten(), (target > 0.5).long().flatten())
    if task.kind in ("regression", "reconstruction") and predicted.numel() == target.numel():
        return "numbers", (_rows(predicted), _rows(target))
    return "", None


def _classes(
    sandbox: Sandbox, batch: Batch, predicted: torch.Tensor, target: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor] | None:
    dim = class_dim(predicted, target)
    if dim is None:
        return None
    if target.shape == predicted.shape:
        scores, wanted = predicted.movedim(dim, -1), target.argmax(dim)
    else:
        scores, wanted = paired_with_targets(sandbox, batch, predicted, target, dim)
    counted = wanted >= 0  # negative ids are ignored by custom
    return scores.argmax(-1)[counted], wanted[counted].long()


def _rows(values: torch.Tensor) -> torch.Tensor:
    real = torch.view_as_real(values) if values.is_complex() else values
    return real.double().reshape(len(values), -1) if values.dim() else real.double().reshape(1, 1)
