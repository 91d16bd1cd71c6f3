"""Try one label on the loss."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from nbdebug.experiments.loss_of_outputs import LossBox
from nbdebug.setup.nested import Path

__all__ = ["LabelTrial", "is_scored", "names_columns", "try_label"]

FEW = 64  # classes, whose pulls are compared one by one
LEFT_OUT = 1e-3  # of the pull of a class; float32 rounding is far below
ALIKE = 0.1  # of the largest pull: how far the pulls of a loss over classes differ from label to label


@dataclass(frozen=True)
class LabelTrial:
    """What the loss does with one label: taken, ignored, refused, or wrapped round to another class."""

    value: float
    verdict: str
    same_as: int | None = None


def try_label(box: LossBox, path: Path, target: torch.Tensor, value: float, classes: int) -> LabelTrial:
    """Return half of the samples this label and see whether the loss refuses it, ignores it, or pulls somewhere."""
    half = max(1, len(target) // 2)
    output = torch.zeros_like(box.heads[path])

    def gradient(label: float) -> torch.Tensor | None:
        new = target.clone().clamp(0, classes - 1)
        new[:half] = label
        changed = box.batch.map_targets(lambda _, __: new)
        return replace(box, batch=changed).gradient(path, output)[1]

    try:
        pulled = gradient(value)
    except (RuntimeError, OverflowError):
        return LabelTrial(value, "refused")
    if pulled is None and gradient(0) is None:
        return LabelTrial(value, "ignored")  # as all labels are: the loss has no gradient, which is another problem
    if pulled is None or not bool(torch.isfinite(pulled).all()):
        return LabelTrial(value, "refused")
    if float(pulled[:half].abs().sum()) == 0:
        return LabelTrial(value, "ignored")
    wrapped = int(value) % classes
    other = gradient(wrapped)
    if other is not None and torch.allclose(other[:half], pulled[:half], rtol=1e-4, atol=1e-9):
        return LabelTrial(value, "wrapped", wrapped)
    if classes <= FEW and _is_left_out(pulled[:half], [gradient(label) for label in range(classes)]):
        return LabelTrial(value, "ignored")
    return LabelTrial(value, "taken")


def _is_left_out(pulled: torch.Tensor, pulls: list[torch.Tensor | None]) -> bool:
    """Whether only those terms of the loss pull that know no label, as the consistency of two views does.

    At equal scores, the pulls of all classes cancel out: their mean is what the other terms do.
    """
    known = [pull[: len(pulled)] for pull in pulls if pull is not None]
    if len(known) < len(pulls):
        return False
    others = torch.stack(known).mean(0)
    least = min(float((pull - others).norm()) for pull in known)
    return float((pulled - others).norm()) < LEFT_OUT * least


def is_scored(box: LossBox, path: Path, target: torch.Tensor, classes: int) -> bool:
    """Whether the loss compares this output with the labels; not so where they are looked up by the model alone."""
    output, pulls = torch.zeros_like(box.heads[path]), list[torch.Tensor | None]()
    for label in {0, 1, classes - 1}:
        changed = box.batch.map_targets(lambda _, t, label=label: torch.full_like(t, label))  # type: ignore[misc]
        try:
            pulls.append(replace(box, batch=changed).gradient(path, output)[1])
        except (RuntimeError, OverflowError):
            return True  # it does look at them
    return any(pull is None or not torch.equal(pull, pulls[0]) for pull in pulls if pulls[0] is not None)


def names_columns(box: LossBox, path: Path, target: torch.Tensor, dim: int) -> bool:
    """Whether each label pulls the score of its own class, up or, with the sign flipped, down, more than any other."""
    like = box.heads[path]
    ways, shapes = set(), list[torch.Tensor]()
    for label in range(like.shape[dim]):
        changed = box.batch.map_targets(lambda _, t, label=label: torch.full_like(t, label))  # type: ignore[misc]
        pulled = replace(box, batch=changed).gradient(path, torch.zeros_like(like))[1]
        if pulled is None:
            return True  # nothing speaks against it
        sums = pulled.movedim(dim, -1).reshape(-1, like.shape[dim]).sum(0)
        shapes.append((sums / sums.abs().max().clamp_min(1e-12)).sort().values)
        ways.add("up" if int(sums.argmin()) == label else "down" if int(sums.argmax()) == label else "neither")
    is_alike = bool(torch.stack(shapes).std(0).max() < ALIKE)  # questions that only some labels are asked differ
    return len(ways) == 1 and "neither" not in ways and is_alike
