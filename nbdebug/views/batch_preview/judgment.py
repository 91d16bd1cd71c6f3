"""What a model makes of a batch: its prediction, confidence and loss for each sample, on a copy in eval mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from nbdebug.experiments.task import class_dim, task_of
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.loss import main_output, own_loss
from nbdebug.setup.nested import map_leaves
from nbdebug.setup.user_code import user_code
from nbdebug.views.batch_preview.labels import Answer, predictions_in
from nbdebug.views.batch_preview.parts import Taste, part_of
from nbdebug.views.batch_preview.preview import Part

__all__ = ["Judgment", "judged"]

Named = Callable[[int], str]


@dataclass
class Judgment:
    """One entry a sample where that is possible; what could not be had is said."""

    answers: list[Answer] = field(default_factory=list)
    losses: list[float | None] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)  # predictions that are pictures, maps or sequences
    notes: list[str] = field(default_factory=list)


def judged(sandbox: Sandbox, batch: Batch, count: int, shown: int, named: Named, taste: Taste) -> Judgment:
    """Run the copy on the whole batch and read its answers for the first so many samples."""
    found = Judgment()
    batch = batch.clone().to(sandbox.device)
    with torch.no_grad(), sandbox.mode(training=False):
        with user_code() as tried:
            output = sandbox.run(batch).output if sandbox.compute_loss is not None else sandbox.forward(batch)
        if tried.failure:
            found.notes.append(f"The model fails on this batch ({tried.kind}: {tried.message[:200]}).")
            return found
        found.losses = _losses(sandbox, batch, output, count, shown, found.notes)
    predicted, target = main_output(output) if output is not None else None, batch.target
    if isinstance(predicted, torch.Tensor) and isinstance(target, torch.Tensor) and len(predicted) == count:
        task = task_of(output, batch)
        found.answers = predictions_in(predicted[:shown], target[:shown], task.kind, task.scale, named)
        if not found.answers:
            _dense(found, predicted[:shown], target[:shown], taste)
    return found


def _losses(
    sandbox: Sandbox, batch: Batch, output: Any, count: int, shown: int, notes: list[str]
) -> list[float | None]:
    losses: list[float | None] = []
    for index in range(shown):
        sandbox.control.poll()
        with user_code() as tried:
            losses.append(float(_loss_of(sandbox, batch, output, count, index)))
        if tried.failure:
            notes.append(f"The loss of a single sample cannot be computed ({tried.kind}: {tried.message[:120]}).")
            return []
    if sandbox.compute_loss is None and sandbox.loss_fn is None and sandbox.setup.assumed_loss is not None:
        notes.append(f"The loss is {sandbox.setup.assumed_loss}.")
    return losses


def _loss_of(sandbox: Sandbox, batch: Batch, output: Any, count: int, index: int) -> Any:
    """Return the loss of one sample: by its part of the output, else by running the sample alone."""
    one = batch.select(torch.tensor([index]))
    if sandbox.compute_loss is not None or (sandbox.loss_fn is None and own_loss(output) is not None):
        return sandbox.run(one).loss

    def row(_: Any, leaf: Any) -> Any:
        tensor = isinstance(leaf, torch.Tensor) and leaf.dim() > 0 and leaf.shape[0] == count
        return leaf[index : index + 1] if tensor else leaf

    sandbox.loss_choice(output, batch)  # it is decided on the whole batch
    return sandbox.loss_of(map_leaves(row, output), one).double().mean()


def _dense(found: Judgment, predicted: torch.Tensor, target: torch.Tensor, taste: Taste) -> None:
    """Show predictions that are maps, sequences or pictures, and say how much of each sample is right."""
    dim = class_dim(predicted, target) if not target.is_floating_point() else None
    if dim is not None:
        best = predicted.argmax(dim)
        counted = target >= 0  # what the loss ignores is negative
        shares = ((best == target) & counted).flatten(1).sum(1) / counted.flatten(1).sum(1).clamp(min=1)
        found.answers = [Answer(f"{float(share):.0%} right") for share in shares]
        found.parts.append(part_of("prediction", "prediction", best, taste))
    elif predicted.dim() >= 3 and predicted.is_floating_point():
        found.parts.append(part_of("prediction", "prediction", predicted, taste))
