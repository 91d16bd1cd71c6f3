"""How much of what a loss allows has been learned, where neither accuracy nor explained variance says it.

Some losses never come near zero, however right the answers are: a likelihood of amounts, or a cross-entropy with a
spread of answers. What they allow is found by letting the outputs go free.
"""

from __future__ import annotations

import math

import torch

from nbdebug.errors import NbdebugError
from nbdebug.evidence.learning import Fit
from nbdebug.subject import Batch
from nbdebug.subject.nest import Path
from nbdebug.twin import Twin
from nbdebug.twin.loss_box import LossBox, open_box

__all__ = ["share_of_possible"]

ROUNDS = 60


def share_of_possible(twin: Twin, batch: Batch) -> Fit | None:
    """Measure how far the way from the best common answer to the best answers at all has been gone."""
    if twin.train_step is not None and twin.compute_loss is not None:
        return None  # a box would be of the step, and the twin was not trained by it
    try:
        box = _box(twin, batch)
    except NbdebugError:
        raise
    except Exception:
        return None
    if len(box.heads) != 1:
        return None
    ((path, output),) = box.heads.items()
    if output.shape[0] != batch.size or batch.size < 2:
        return None
    now = box.loss(path, output)
    common, same = _least(box, path, output.mean(0, keepdim=True), batch.size)
    least, _ = _least(box, path, same.expand_as(output), 1)
    if not all(map(math.isfinite, (now, common, least))) or common - least <= 1e-4 * max(abs(common), 1e-6):
        return None  # the loss wants the same answer for all, so that nothing can be told from it
    return Fit("of what the loss allows", (common - now) / (common - min(least, now)), 0.0)


def _box(twin: Twin, batch: Batch) -> LossBox:
    if twin.compute_loss is not None:
        return open_box(twin, batch)
    return LossBox("loss_fn", twin.forward(batch), batch, twin.loss_of, twin.forward)


def _least(box: LossBox, path: Path, start: torch.Tensor, copies: int) -> tuple[float, torch.Tensor]:
    """Go down with the outputs themselves, or with one for all of them, and give the least loss and where it is."""
    values = start.detach().clone().requires_grad_(True)
    best = (math.inf, values.detach().clone())

    def closure() -> float:
        nonlocal best
        spread = values.detach().expand(copies * len(values), *values.shape[1:])
        loss, slope = box.gradient(path, spread)
        if slope is None or not math.isfinite(loss):
            values.grad = torch.zeros_like(values)
            return math.inf
        if loss < best[0]:
            best = (loss, values.detach().clone())
        values.grad = (slope.sum(0, keepdim=True) if copies > 1 else slope).to(values)
        return loss

    search = torch.optim.LBFGS([values], max_iter=ROUNDS, line_search_fn="strong_wolfe")
    with torch.enable_grad():
        search.step(closure)
    return best
