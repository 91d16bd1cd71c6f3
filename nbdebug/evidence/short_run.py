"""A short real training through the loader."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import islice

import torch

from nbdebug.core.control import Control
from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.learning_curve import Fit
from nbdebug.experiments.train_briefly import fit_of, judge, with_loss
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch

__all__ = ["Pace", "ShortRun", "UpdateRatios", "pace", "short_run", "update_ratios"]


@dataclass(frozen=True)
class ShortRun:
    """A short real training through the loader: losses, quality before and after, and where the time went.

    Quality and loss are measured on the same samples before and after. `ratios` are, for each weight matrix, the median
    over the first steps of |change| / |weight|; `settled` says that the loss has stopped falling though weights moved.
    `by_hand` says that the loss is given more than outputs and targets, so that it may want other answers than these.
    """

    losses: tuple[float, ...]
    samples: int
    fit_before: Fit | None
    fit_after: Fit | None
    loss_before: float
    loss_after: float
    settled: bool
    loading_seconds: float
    training_seconds: float
    workers: int
    ratios: tuple[tuple[str, float], ...] = ()
    by_hand: bool = False
    fitted: int = 0  # samples that the two fits were measured on


@dataclass(frozen=True)
class Pace:
    """Where the time of a step goes: waiting for the batch, and training on it; `workers` load side by side.

    In a real training, `place` names it, and waiting is all that passes between a step and the next forward pass.
    """

    loading_seconds: float
    training_seconds: float
    workers: int = 1
    place: str = ""


@dataclass(frozen=True)
class UpdateRatios:
    """|change in one step| / |weight| for each weight matrix, and the loss before and after those steps."""

    ratios: tuple[tuple[str, float], ...]
    loss_before: float
    loss_after: float


STEPS = 60
FEWEST_STEPS = 20
RATIO_STEPS = 5
LOOK = 2 * RATIO_STEPS  # steps between two looks whether the answer is clear
MOVED = 0.1  # of the weights, over the whole run
FIXED_BATCHES = 4  # quality is measured on these before and after, and the training goes over them again and again


@probe(quick=False)
def short_run(sandbox: Sandbox, trial: TrialRun, control: Control) -> ShortRun:
    """Train briefly on a few batches and compare before and after."""
    require_run(trial)
    loading, raw = _timed_draw(sandbox)
    batches = [sandbox.setup.wrap(item).to(sandbox.device) for item in raw]
    if not batches:
        raise NotApplicable("the loader yields no batches")
    fit_before, loss_before = fit_of(sandbox, batches[0]), _loss(sandbox, batches)
    losses, ratios, seconds = _train(sandbox, batches, control)
    loader = sandbox.setup.feed.loader
    return ShortRun(
        losses=tuple(losses),
        samples=sum(batch.size for batch in batches),
        fit_before=fit_before,
        fit_after=fit_of(sandbox, batches[0]),
        loss_before=loss_before,
        loss_after=_loss(sandbox, batches),
        settled=_settled(losses, ratios),
        loading_seconds=loading / len(batches),
        training_seconds=seconds,
        workers=int(getattr(loader, "num_workers", 0)),
        ratios=ratios,
        by_hand=sandbox.compute_loss is not None,
        fitted=batches[0].size,
    )


@probe
def pace(run: ShortRun) -> Pace:
    """Measure the time of data loading and of the training step."""
    return Pace(run.loading_seconds, run.training_seconds, run.workers)


@probe
def update_ratios(run: ShortRun) -> UpdateRatios:
    """Measure the relative update of each weight matrix."""
    return UpdateRatios(run.ratios, run.loss_before, run.loss_after)


def _timed_draw(sandbox: Sandbox) -> tuple[float, list[object]]:
    started = time.perf_counter()
    drawn = list(islice(sandbox.setup.feed, FIXED_BATCHES))
    return time.perf_counter() - started, drawn


def _train(
    sandbox: Sandbox, batches: list[Batch], control: Control
) -> tuple[list[float], tuple[tuple[str, float], ...], float]:
    sandbox.ready_to_train()
    losses: list[float] = []
    changes: dict[str, list[float]] = {}
    spent = 0.0
    for step in control.as_many(range(STEPS), fewest=FEWEST_STEPS):
        control.progress(step / STEPS, with_loss("training briefly", losses))
        before = _matrices(sandbox) if step < RATIO_STEPS else {}
        begun = time.perf_counter()
        losses.append(sandbox.plain_step(batches[step % len(batches)]))
        spent += time.perf_counter() - begun
        for name, now in _matrices(sandbox).items() if before else ():
            size = float(before[name].norm())
            changes.setdefault(name, []).append(float((now - before[name]).norm()) / max(size, 1e-12))
        if _is_clear(sandbox, batches[0], losses):
            break
    ratios = tuple((name, sorted(values)[len(values) // 2]) for name, values in changes.items())
    return losses, ratios, spent / len(losses)


def _is_clear(sandbox: Sandbox, batch: Batch, losses: list[float]) -> bool:
    """Whether loss and answers are both so much better by now that no question is left."""
    if len(losses) % LOOK or not 0 <= max(losses[-FIXED_BATCHES:]) < 0.5 * losses[0]:
        return False
    fit = fit_of(sandbox, batch)
    return fit is None or fit.above_chance > 0.5


def _settled(losses: list[float], ratios: tuple[tuple[str, float], ...]) -> bool:
    """Whether the loss has stopped falling and not merely not begun: weights that creep need more time."""
    moved = sorted(ratio for _, ratio in ratios)[len(ratios) // 2] * len(losses) if ratios else 0.0
    return judge(losses, None) == "plateaus" and (moved > MOVED or moved == 0.0)


def _matrices(sandbox: Sandbox) -> dict[str, torch.Tensor]:
    return {n: p.detach().clone() for n, p in sandbox.model.named_parameters() if p.requires_grad and p.dim() > 1}


@torch.no_grad()
def _loss(sandbox: Sandbox, batches: list[Batch]) -> float:
    """Return the mean loss over these batches, in training mode because that is what is minimized."""
    with sandbox.mode(training=True):
        return sum(float(sandbox.run(batch).loss) for batch in batches) / len(batches)
