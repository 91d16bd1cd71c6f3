"""Which labels does the loss accept?"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from nbdebug.errors import NbdebugError, NotApplicable
from nbdebug.evidence import LabelTrial, LabelTrials, LoaderSweep, PartFacts
from nbdebug.registry import probe
from nbdebug.subject.nest import Path
from nbdebug.twin import Twin
from nbdebug.twin.loss_box import LossBox, open_box
from nbdebug.twin.task import class_dim

__all__ = ["REPAIRS", "label_trials"]

SAMPLES = 12
VALUES = 8
REPAIRS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "int64 class indices (target.long())": lambda t: t.long(),
    "class indices instead of one-hot rows (target.argmax(1))": lambda t: t.argmax(1) if t.dim() > 1 else t,
    "zero-based labels (target - 1)": lambda t: (t - 1).long(),
    "float targets (target.float())": lambda t: t.float(),
}


@probe
def label_trials(twin: Twin, sweep: LoaderSweep) -> LabelTrials:
    """Test how the loss handles labels outside the class range."""
    sweep.require()
    if len(sweep.targets) != 1:
        raise NotApplicable("the batch has no separate target, or several")
    part, batch = sweep.targets[0], twin.batch().head(SAMPLES)
    target = next(iter(batch.targets.values()))
    try:
        with twin.mode(training=False):
            box = open_box(twin, batch)
        path, output = _head_of(box)
    except (NbdebugError, IndexError) as why:
        return LabelTrials(part.name, reason=str(why).splitlines()[0] if str(why) else "the model returns no output")
    except Exception as failure:
        return LabelTrials(part.name, reason=f"the model fails ({type(failure).__name__}: {failure})")
    error = _error(box)
    found = LabelTrials(part.name, error=error, dtype=part.dtype, low=part.low, high=part.high)
    if error:
        found = replace(found, repair=_repair(box))
    dim = class_dim(output, target) if target.dim() < output.dim() else None
    if dim is not None and output.shape[dim] > 1 and part.whole:
        classes = int(output.shape[dim])
        trials = tuple(_try(box, path, target, v, classes) for v in _outside(part, classes))
        if any(trial.verdict == "taken" for trial in trials) and not _names_columns(box, path, target, dim):
            return found  # levels of a scale, counted by questions, are one more than these
        return replace(found, classes=classes, trials=trials)
    if not error and output.numel() == target.numel() and _like_labels(part):
        return replace(found, bottomless=_is_bottomless(box, path, output, target, part))
    return found


def _head_of(box: LossBox) -> tuple[Path, torch.Tensor]:
    """Give the output that the labels are for: of several whose gradient depends on them, the one with most scores.

    A second output may well be asked for less than the labels say: whether a digit is even, how large it is.
    """
    heads = list(box.heads.items())
    turned = replace(box, batch=box.batch.map_targets(lambda _, t: t.roll(1, 0) if t.dim() else t))
    fitting = []
    for path, output in heads if len(heads) > 1 else ():
        one, other = box.gradient(path, output)[1], turned.gradient(path, output)[1]
        if one is not None and other is not None and not torch.equal(one, other):
            fitting.append((path, output))
    return max(fitting, key=lambda head: head[1].numel(), default=heads[0])


def _error(box: LossBox) -> str:
    try:
        box.evaluate(box.output, box.batch)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _repair(box: LossBox) -> str:
    """Give the first change of the labels that makes the loss run."""
    for name, change in REPAIRS.items():
        try:
            changed = box.batch.map_targets(lambda _, t, change=change: change(t))  # type: ignore[misc]
            value = box.evaluate(box.output, changed)
            if isinstance(value, torch.Tensor) and bool(torch.isfinite(value).all()):
                return name
        except Exception:
            continue
    return ""


def _outside(part: PartFacts, classes: int) -> list[float]:
    """Give the labels that were seen and are no class."""
    seen = np.unique(np.append(part.rows.ravel(), [part.low, part.high]))
    return [float(v) for v in seen if np.isfinite(v) and not 0 <= v < classes][:VALUES]


def _try(box: LossBox, path: Path, target: torch.Tensor, value: float, classes: int) -> LabelTrial:
    """Give half of the samples this label and see whether the loss refuses it, ignores it, or pulls somewhere."""
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
        return LabelTrial(value, "ignored")  # as all labels are: the loss has no gradient, which is another illness
    if pulled is None or not bool(torch.isfinite(pulled).all()):
        return LabelTrial(value, "refused")
    if float(pulled[:half].abs().sum()) == 0:
        return LabelTrial(value, "ignored")
    wrapped = int(value) % classes
    other = gradient(wrapped)
    same = other is not None and torch.allclose(other[:half], pulled[:half], rtol=1e-4, atol=1e-9)
    return LabelTrial(value, "wrapped", wrapped) if same else LabelTrial(value, "taken")


def _names_columns(box: LossBox, path: Path, target: torch.Tensor, dim: int) -> bool:
    """Whether each label pulls the score of its own class, up or, with the sign flipped, down, more than any other."""
    like = box.heads[path]
    ways = set()
    for label in range(like.shape[dim]):
        changed = box.batch.map_targets(lambda _, t, label=label: torch.full_like(t, label))  # type: ignore[misc]
        pulled = replace(box, batch=changed).gradient(path, torch.zeros_like(like))[1]
        if pulled is None:
            return True  # nothing speaks against it
        sums = pulled.movedim(dim, -1).reshape(-1, like.shape[dim]).sum(0)
        ways.add("up" if int(sums.argmin()) == label else "down" if int(sums.argmax()) == label else "neither")
    return len(ways) == 1 and "neither" not in ways


def _like_labels(part: PartFacts) -> bool:
    """Whether these could be names of two classes, but are not 0 and 1."""
    if not part.whole or not part.rows.size or (part.low >= 0 and part.high <= 1):
        return False
    return len(np.unique(part.rows)) == 2 and part.high - part.low <= 2


def _is_bottomless(box: LossBox, path: Path, output: torch.Tensor, target: torch.Tensor, part: PartFacts) -> bool:
    """Whether the loss falls without end for these labels, and does not for 0 and 1."""

    def lowest(low: float, high: float) -> float:
        answers = []
        for label in (low, high):
            changed = box.batch.map_targets(lambda _, t, label=label: torch.full_like(t, label))  # type: ignore[misc]
            losses = [box.loss(path, torch.full_like(output, v), changed) for v in (30.0, -30.0, 0.999, 0.001)]
            answers += [value for value in losses if math.isfinite(value)]
        return min(answers, default=0.0)

    return lowest(part.low, part.high) < -1.0 and lowest(0.0, 1.0) > -0.01
