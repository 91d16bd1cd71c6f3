"""How much of what a loss allows has been learned, where neither accuracy nor explained variance says it.

Some losses never come near zero, however right the answers are: a likelihood of amounts, or a cross-entropy with a
spread of answers. What they allow is found by letting the outputs go free.
"""

from __future__ import annotations

import math
from contextlib import suppress

import torch

from nbdebug.experiments.learning_curve import Fit
from nbdebug.experiments.loss_family import Family
from nbdebug.experiments.loss_floor import SCALES, aligned
from nbdebug.experiments.loss_of_outputs import LossBox, open_box, plain_box
from nbdebug.experiments.target_dependence import influence_of_target
from nbdebug.experiments.task import class_dim
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.nested import Path
from nbdebug.setup.user_code import user_code

__all__ = ["asks_for_labels", "one_answer_will_do", "share_of_possible", "takes_targets"]

ROUNDS = 60
ROUNDING = 1e-7  # in single precision; a target that is used gives far more
NOTHING = 0.02  # of the loss: so near are two losses that count as the same


def share_of_possible(sandbox: Sandbox, batch: Batch) -> Fit | None:
    """Measure how far the way from the best common answer to the best answers at all has been gone."""
    losses = _allowed(sandbox, batch)
    if losses is None or _one_will_do(*losses[1:]):
        return None  # the loss wants the same answer for all, so that nothing can be told from it
    now, common, least = losses
    return Fit("achievable loss reduction", (common - now) / (common - min(least, now)), 0.0)


def one_answer_will_do(sandbox: Sandbox, batch: Batch) -> bool:
    """Whether one answer for all samples brings the loss as low as any answers would."""
    losses = _allowed(sandbox, batch)
    return losses is not None and _one_will_do(*losses[1:])


def _one_will_do(common: float, least: float) -> bool:
    return common - least <= 1e-4 * max(abs(common), 1e-6)


def _allowed(sandbox: Sandbox, batch: Batch) -> tuple[float, float, float] | None:
    """Return the loss now, that of the best answer for all, and that of the best answers at all."""
    if sandbox.train_step is not None and sandbox.compute_loss is not None:
        return None  # a box would be of the step, and the copy was not trained by it
    head = _only_head(sandbox, batch)
    if head is None or head[2].shape[0] != batch.size or batch.size < 2:
        return None
    box, path, output = head
    now = box.loss(path, output)
    common, same = _least(box, path, output.mean(0, keepdim=True), batch.size)
    least, _ = _least(box, path, same.expand_as(output), 1)
    return (now, common, least) if all(map(math.isfinite, (now, common, least))) else None


def asks_for_labels(sandbox: Sandbox, batch: Batch) -> bool:
    """Whether the right class for every sample would give a lower loss than the answers that the copy has come to.

    If not, the loss asks for something else: for steps of a scale, for those labels only that were rewarded, or for
    the input again, with labels that lie beside it.
    """
    if not takes_targets(sandbox, batch):
        return False
    head = _only_head(sandbox, batch)
    if head is None:
        return True
    box, path, output = head
    dim = class_dim(output, batch.target) if isinstance(batch.target, torch.Tensor) else None
    right = aligned(output, Family("other"), batch.target, dim)
    now = box.loss(path, output)
    best = min((box.loss(path, right * scale) for scale in SCALES), default=math.nan) if right is not None else math.nan
    return not (math.isfinite(best) and math.isfinite(now)) or best < now - NOTHING * max(abs(best), abs(now))


def takes_targets(sandbox: Sandbox, batch: Batch) -> bool:
    """Whether the loss is another one with other targets; an auto-encoder's does not look at the labels beside it."""
    with user_code():
        box = _box(sandbox, batch)
        return not box.heads or any(influence_of_target(box, name) > ROUNDING for name in batch.targets)
    return True


def _only_head(sandbox: Sandbox, batch: Batch) -> tuple[LossBox, Path, torch.Tensor] | None:
    """Return the loss as a function of the one output that it takes; None where there are several, or it cannot be."""
    with user_code() as tried:
        box = _box(sandbox, batch)
    if tried.failure or len(box.heads) != 1:
        return None
    ((path, output),) = box.heads.items()
    return box, path, output


def _box(sandbox: Sandbox, batch: Batch) -> LossBox:
    return open_box(sandbox, batch) if sandbox.compute_loss is not None else plain_box(sandbox, batch)


def _least(box: LossBox, path: Path, start: torch.Tensor, copies: int) -> tuple[float, torch.Tensor]:
    """Go down with the outputs themselves, or with one for all of them, and give the least loss and where it is."""
    values = start.detach().contiguous().clone().requires_grad_(True)  # the search takes flat views
    best = (math.inf, values.detach().clone())

    def closure() -> float:
        nonlocal best
        spread = values.detach().expand(copies * len(values), *values.shape[1:])
        loss, gradient = box.gradient(path, spread)
        if gradient is None or not math.isfinite(loss):
            values.grad = torch.zeros_like(values)
            return math.inf
        if loss < best[0]:
            best = (loss, values.detach().clone())
        values.grad = (gradient.sum(0, keepdim=True) if copies > 1 else gradient).to(values).contiguous()
        return loss

    search = torch.optim.LBFGS([values], max_iter=ROUNDS, line_search_fn="strong_wolfe")
    with torch.enable_grad(), suppress(RuntimeError):  # a line search overflows where the loss rises without end
        search.step(closure)
    return best
