"""Exchange the targets and see whether the loss notices."""

from __future__ import annotations

import math

import torch

from nbdebug.errors import NotApplicable
from nbdebug.evidence import TargetInfluence, TargetUse, TrialRun
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.subject.nest import Path
from nbdebug.twin import Twin
from nbdebug.twin.loss_box import LossBox, open_box
from nbdebug.twin.loss_family import recognise
from nbdebug.twin.task import class_dim

__all__ = ["target_influence"]


@probe
def target_influence(twin: Twin, trial: TrialRun) -> TargetInfluence:
    """Exchange each target for others, the outputs held fixed, and compare the losses."""
    require_run(trial)
    twin.ready_to_train()
    batches = twin.batches(3)
    box = open_box(twin, batches[0])
    if not batches[0].targets or not box.heads:
        raise NotApplicable("the batch has no target of its own")
    uses = [
        TargetUse(name, tuple(target.shape), _influence(box, name), _fits(box, name, batches))
        for name, target in batches[0].targets.items()
    ]
    return TargetInfluence(box.place, tuple(uses), _wants_one_answer(box))


def _influence(box: LossBox, name: str) -> float:
    path, output = _made_up(box)
    real = box.loss(path, output)
    changes = []
    for kind in ("roll", "turn"):
        other = box.batch.map_targets(lambda key, t, kind=kind: _other(t, kind) if key == name else t)  # type: ignore[misc]
        changes.append(abs(box.loss(path, output, other) - real))
    size = max(abs(real), 1e-12)
    return max((math.inf if math.isnan(change) else change / size for change in changes), default=0.0)


def _made_up(box: LossBox) -> tuple[Path, torch.Tensor]:
    """Give outputs of all sorts: equal scores, as a head that starts at zero gives, are as good for any target."""
    path, output = next(iter(box.heads.items()))
    generator = torch.Generator().manual_seed(0)
    free = output + torch.randn(output.shape, generator=generator).to(output) * (1 + output.abs().mean())
    inside = (0.2 + 0.6 * torch.rand(output.shape, generator=generator)).to(output)
    return path, next((values for values in (free, inside) if math.isfinite(box.loss(path, values))), output)


def _other(target: torch.Tensor, kind: str) -> torch.Tensor:
    """Give other values of the same kind: those of the next sample, or the mirrored ones."""
    if kind == "roll":
        return target.roll(1, 0) if target.dim() else target
    if target.dtype == torch.bool:
        return ~target
    low, high = target.min(), target.max()
    if bool(low == high):
        return torch.where(target > 0, target - 1, target + 1).to(target.dtype)
    valid = target >= 0 if not target.is_floating_point() else torch.ones_like(target, dtype=torch.bool)
    low = target[valid].min() if bool(valid.any()) else low
    return torch.where(valid, low + high - target, target)  # a negative class id says: ignore


def _fits(box: LossBox, name: str, batches: list[Batch]) -> bool:
    """Whether some output is made for this target: as many scores as classes, or as many numbers."""
    targets = [batch.targets[name] for batch in batches if name in batch.targets]
    target, high = targets[0], max((int(t.max()) for t in targets if t.numel()), default=0)
    for output in box.heads.values():
        dim = class_dim(output, target)
        if not target.is_floating_point() and dim is not None and output.shape[dim] == high + 1 > 1:
            return True
        if target.is_floating_point() and output.numel() == target.numel():
            return True
    return False


def _wants_one_answer(box: LossBox) -> bool:
    """Whether the loss pulls all samples to one class."""
    family = recognise(box, next(iter(box.heads)))
    if family.name != "softmax" or family.wanted is None or family.active is None or family.dim is None:
        return False
    rows = family.active.select(family.dim, 0)
    return int(family.wanted.argmax(family.dim)[rows].unique().numel()) == 1 and int(rows.sum()) >= 8
