"""A short real training through the loader."""

from __future__ import annotations

import time
from itertools import islice

import torch

from nbdebug.control import Control
from nbdebug.errors import NotApplicable
from nbdebug.evidence import Pace, ShortRun, TrialRun, UpdateRatios
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.twin import Twin
from nbdebug.twin.training import fit_of, judge

__all__ = ["pace", "short_run", "update_ratios"]

STEPS = 60
SECONDS = 15.0
RATIO_STEPS = 5
LOOK = 2 * RATIO_STEPS  # steps between two looks whether the answer is clear
MOVED = 0.1  # of the weights, over the whole run
FIXED_BATCHES = 4  # quality is measured on these before and after, and the training goes over them again and again


@probe(quick=False)
def short_run(twin: Twin, trial: TrialRun, control: Control) -> ShortRun:
    """Train briefly on a few batches and compare before and after."""
    require_run(trial)
    loading, raw = _timed_draw(twin)
    batches = [twin.subject.wrap(item).to(twin.device) for item in raw]
    if not batches:
        raise NotApplicable("the loader yields no batches")
    fit_before, loss_before = fit_of(twin, batches[0]), _loss(twin, batches)
    losses, ratios, seconds = _train(twin, batches, control)
    loader = twin.subject.feed.loader
    return ShortRun(
        losses=tuple(losses),
        samples=sum(batch.size for batch in batches),
        fit_before=fit_before,
        fit_after=fit_of(twin, batches[0]),
        loss_before=loss_before,
        loss_after=_loss(twin, batches),
        settled=_settled(losses, ratios),
        loading_seconds=loading / len(batches),
        training_seconds=seconds,
        workers=int(getattr(loader, "num_workers", 0)),
        ratios=ratios,
        by_hand=twin.compute_loss is not None,
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


def _timed_draw(twin: Twin) -> tuple[float, list[object]]:
    started = time.perf_counter()
    drawn = list(islice(twin.subject.feed, FIXED_BATCHES))
    return time.perf_counter() - started, drawn


def _train(
    twin: Twin, batches: list[Batch], control: Control
) -> tuple[list[float], tuple[tuple[str, float], ...], float]:
    twin.ready_to_train()
    losses: list[float] = []
    changes: dict[str, list[float]] = {}
    spent, started = 0.0, time.perf_counter()
    for step in range(STEPS):
        control.progress(step / STEPS, "training briefly")
        before = _matrices(twin) if step < RATIO_STEPS else {}
        begun = time.perf_counter()
        losses.append(twin.plain_step(batches[step % len(batches)]))
        spent += time.perf_counter() - begun
        for name, now in _matrices(twin).items() if before else ():
            size = float(before[name].norm())
            changes.setdefault(name, []).append(float((now - before[name]).norm()) / max(size, 1e-12))
        if time.perf_counter() - started > SECONDS or _is_clear(twin, batches[0], losses):
            break
    ratios = tuple((name, sorted(values)[len(values) // 2]) for name, values in changes.items())
    return losses, ratios, spent / len(losses)


def _is_clear(twin: Twin, batch: Batch, losses: list[float]) -> bool:
    """Whether loss and answers are both so much better by now that no question is left."""
    if len(losses) % LOOK or not 0 <= max(losses[-FIXED_BATCHES:]) < 0.5 * losses[0]:
        return False
    fit = fit_of(twin, batch)
    return fit is None or fit.above_chance > 0.5


def _settled(losses: list[float], ratios: tuple[tuple[str, float], ...]) -> bool:
    """Whether the loss has stopped falling and not merely not begun: weights that creep need more time."""
    moved = sorted(ratio for _, ratio in ratios)[len(ratios) // 2] * len(losses) if ratios else 0.0
    return judge(losses, None) == "plateaus" and (moved > MOVED or moved == 0.0)


def _matrices(twin: Twin) -> dict[str, torch.Tensor]:
    return {n: p.detach().clone() for n, p in twin.model.named_parameters() if p.requires_grad and p.dim() > 1}


@torch.no_grad()
def _loss(twin: Twin, batches: list[Batch]) -> float:
    """Give the mean loss over these batches, in training mode because that is what is minimised."""
    with twin.mode(training=True):
        return sum(float(twin.run(batch).loss) for batch in batches) / len(batches)
