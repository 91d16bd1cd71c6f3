"""How far are the outputs from where the loss wants them?"""

from __future__ import annotations

import math

import torch

from nbdebug.errors import NotApplicable
from nbdebug.evidence import TargetReach, TrialRun
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.subject.nest import Path
from nbdebug.twin import Twin
from nbdebug.twin.loss_box import LossBox, open_box

__all__ = ["target_reach"]

SAMPLES = 128
_SIZES = [10 ** (k / 4) for k in range(-20, 33)]  # from 0.00001 to 100,000,000
GRID = [*(-size for size in reversed(_SIZES)), 0.0, *_SIZES]


@probe
def target_reach(twin: Twin, trial: TrialRun) -> TargetReach:
    """Find the constant output with the lowest loss, for low and for high targets."""
    require_run(trial)
    batch = twin.batch().head(SAMPLES)
    if len(batch.targets) != 1:
        raise NotApplicable("the batch has no separate target, or several")
    name, target = next(iter(batch.targets.items()))
    if not target.is_floating_point() or target.shape[:1] != (batch.size,) or batch.size < 8:
        raise NotApplicable("the targets are not real-valued, with one row for each of at least 8 samples")
    if bool(((target >= 0) & (target <= 1)).all()):
        raise NotApplicable("the targets lie between 0 and 1")
    with twin.mode(training=False):
        box = open_box(twin, batch)
    heads = [(path, output) for path, output in box.heads.items() if output.shape[0] == batch.size]
    if not heads:
        raise NotApplicable("the output has no batch dimension")
    path, output = heads[0]
    order = target.flatten(1).mean(1).argsort() if target.dim() > 1 else target.argsort()
    quarter = max(2, batch.size // 4)
    low, high = batch.select(order[:quarter]), batch.select(order[-quarter:])
    return TargetReach(
        name,
        best=_best(box, path, output, batch),
        lowest=_best(box, path, output, low),
        highest=_best(box, path, output, high),
        mean=float(output.mean()),
        std=float(output.std()),
        target_mean=float(target.mean()),
        target_std=float(target.std()),
    )


def _best(box: LossBox, path: Path, output: torch.Tensor, batch: Batch) -> float:
    """Give the constant output with the least loss on these samples."""
    shape = (batch.size, *output.shape[1:])

    def losses(values: list[float]) -> list[tuple[float, float]]:
        found = [(box.loss(path, output.new_full(shape, value), batch), value) for value in values]
        return [(loss, value) for loss, value in found if math.isfinite(loss)]

    known = losses(GRID)
    if len(known) < len(GRID) // 2:
        raise NotApplicable("the loss does not accept outputs of any magnitude")
    least, best = min(known)
    if abs(best) == GRID[-1] or least == max(known)[0]:
        raise NotApplicable("no constant output minimizes this loss")
    place = GRID.index(best)
    before, after = GRID[place - 1], GRID[place + 1]
    return min([(least, best), *losses([before + (after - before) * k / 10 for k in range(1, 10)])])[1]
