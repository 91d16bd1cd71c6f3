"""Read off outputs, targets and loss what kind of task this is and what the loss would be at chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.setup import Batch
from nbdebug.setup.loss import main_output

__all__ = ["Task", "chance_loss", "class_dim", "scale_of", "task_of"]


@dataclass(frozen=True)
class Task:
    """What kind of answer is asked for, read off outputs, targets and loss, with the reason.

    `kind` is classification, binary, multilabel, regression, reconstruction or unknown; `scale` says what the
    outputs are where it can be seen: logits, log-probabilities, probabilities or values.
    """

    kind: str
    scale: str = "values"
    classes: int = 0
    reason: str = ""


def class_dim(predicted: torch.Tensor, target: torch.Tensor) -> int | None:
    """Return the dimension of the outputs that holds one score a class, or None if there is none."""
    shape, wanted = tuple(predicted.shape), tuple(target.shape)
    if predicted.dim() >= 2 and (shape[0], *shape[2:]) == wanted:
        return 1
    if predicted.dim() >= 2 and shape[:-1] == wanted:
        return predicted.dim() - 1
    if predicted.dim() >= 2 and shape == wanted and target.is_floating_point() and shape[1] > 1:
        sums = target.detach().double().sum(1)
        if bool((target >= 0).all()) and float((sums - 1).abs().max()) < 1e-3:
            return 1  # soft labels
    return None


def scale_of(predicted: torch.Tensor, dim: int | None) -> str:
    """Say what the outputs look like: probabilities, log-probabilities, or free values."""
    values = predicted.detach().double()
    if dim is None or values.numel() == 0 or not bool(torch.isfinite(values).all()):
        return "values"
    sums = values.sum(dim)
    if bool((values >= 0).all()) and float((sums - 1).abs().max()) < 1e-3:
        return "probabilities"
    if bool((values <= 1e-6).all()) and float(values.logsumexp(dim).abs().max()) < 1e-3:
        return "log-probabilities"
    return "logits"


def task_of(output: Any, batch: Batch) -> Task:
    """Name the kind of the task."""
    predicted, target = main_output(output), batch.target
    if not isinstance(predicted, torch.Tensor) or not isinstance(target, torch.Tensor):
        return Task("unknown", reason="outputs or targets are not tensors")
    if not batch.has_target:
        kind = "reconstruction" if predicted.shape == target.shape else "unknown"
        return Task(kind, reason="there is no separate target")
    dim = class_dim(predicted, target)
    integral = not target.is_floating_point() and not target.is_complex()
    if dim is not None and (integral or predicted.shape == target.shape) and predicted.shape[dim] > 1:
        classes = int(predicted.shape[dim])
        return Task("classification", scale_of(predicted, dim), classes, f"{classes} logits per target")
    if predicted.numel() == target.numel() and bool(((target == 0) | (target == 1)).all()):
        width = int(predicted.shape[1]) if predicted.dim() > 1 else 1
        inside = bool(((predicted >= 0) & (predicted <= 1)).all()) and predicted.numel() > 1
        return Task(
            "multilabel" if width > 1 else "binary",
            "probabilities" if inside else "logits",
            max(width, 1),
            "all targets are 0 or 1, one for each output",
        )
    if target.is_floating_point() or target.is_complex():
        return Task("regression", reason="the targets are real numbers")
    return Task(
        "unknown", reason=f"outputs {tuple(predicted.shape)} and targets {tuple(target.shape)} match no standard task"
    )


def chance_loss(loss_fn: Any, output: Any, batch: Batch, task: Task) -> float | None:
    """Return the loss of a model that knows nothing, found by handing the loss such a model's outputs."""
    guess = _constant_baseline(output.detach(), batch.target, task) if isinstance(output, torch.Tensor) else None
    if guess is None:
        return None
    try:
        value = loss_fn(guess, batch.target)
    except Exception:  # a loss that does not accept a constant baseline
        return None
    return float(value.detach()) if isinstance(value, torch.Tensor) and value.numel() == 1 else None


def _constant_baseline(output: torch.Tensor, target: Any, task: Task) -> torch.Tensor | None:
    """Return all classes as equally likely, or the mean of the targets for every sample."""
    if task.kind == "classification":
        fill = {"probabilities": 1 / task.classes, "log-probabilities": -float(torch.tensor(task.classes).log())}
        return torch.full_like(output, fill.get(task.scale, 0.0))
    if task.kind in ("binary", "multilabel"):
        return torch.full_like(output, 0.5 if task.scale == "probabilities" else 0.0)
    if task.kind == "regression" and isinstance(target, torch.Tensor) and target.numel() == output.numel():
        mean = target.to(output.dtype).mean(0, keepdim=True) if target.dim() else target.to(output.dtype)
        return mean.expand(target.shape).reshape(output.shape).clone()
    return None
