"""A short training in the user's own way, to be compared with the same training of a patched copy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice

import torch

from nbdebug.core.control import Control
from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.experiments.learning_curve import Fit
from nbdebug.experiments.task import class_dim, task_of
from nbdebug.experiments.train_briefly import fit_of, hurry, is_clear, with_loss
from nbdebug.sandbox import Outcome, Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.sample_dataset import drawn, seed_all
from nbdebug.setup.user_code import user_code

__all__ = ["Practice", "practice"]


@dataclass(frozen=True)
class Practice:
    """A short training as the user would do it: with their step, their optimizer, and batches in the loader's order.

    `before` and `after` are the losses of the same batches at the beginning and in the end, one for each. The fits
    and `balanced` (the mean over the classes of the share of right answers) are those of `samples` samples that were
    drawn at random over the whole data set; they do not depend on the scale of the loss. Where the model runs inside
    of the user's step alone, there are no fits, and the losses are those that the step returned for each batch.
    """

    losses: tuple[float, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]
    fit_before: Fit | None
    fit_after: Fit | None
    balanced: float | None
    samples: int

    @property
    def first(self) -> float:
        """The mean loss of the batches before the training."""
        return sum(self.before) / len(self.before)

    @property
    def last(self) -> float:
        """The mean loss of the same batches after it."""
        return sum(self.after) / len(self.after)


STEPS = 300
FEWEST_STEPS = 20  # fewer compare nothing
POOL = 24  # batches that are drawn in the loader's own order
BATCHES = 12  # of them, one after the other from a random place on, the training goes over again and again
ANSWERED = 512  # samples, drawn at random, whose answers are judged


@probe
def practice(sandbox: Sandbox, control: Control) -> Practice:
    """Train briefly and compare the metric before and after."""
    seed = torch.initial_seed()  # of this run; set again after what making the copy has drawn
    seed_all(seed)
    asked = _asked(sandbox, control)
    seed_all(seed)
    batches = _batches(sandbox)
    if sandbox.train_step is not None and not _runs_apart(sandbox, batches[0]):
        seed_all(seed)
        hurry(sandbox)
        return _as_the_step_tells(_train(sandbox, batches, control), len(batches))
    before, fit_before = _losses(sandbox, batches, seed), _fit(sandbox, asked)
    seed_all(seed)
    hurry(sandbox)
    losses = _train(sandbox, batches, control)
    return Practice(
        losses=tuple(losses),
        before=before,
        after=_losses(sandbox, batches, seed) if math.isfinite(losses[-1]) else (math.nan,) * len(batches),
        fit_before=fit_before,
        fit_after=_fit(sandbox, asked),
        balanced=_balanced(sandbox, asked),
        samples=sum(batch.size for batch in asked),
    )


def _runs_apart(sandbox: Sandbox, batch: Batch) -> bool:
    """Whether the model runs on a batch outside of the user's step, which may cast or reshape it first."""
    with user_code() as tried, torch.no_grad(), sandbox.mode(training=False):
        sandbox.run(batch.clone())
    return not tried.failure


def _as_the_step_tells(losses: list[float], count: int) -> Practice:
    """Compare the first and last loss that the steps return for each batch, where they alone can run the model."""
    if len(losses) < 2 * count:
        raise NotApplicable("too few steps were taken to compare their losses")
    last = [losses[max(range(place, len(losses), count))] for place in range(count)]
    return Practice(tuple(losses), tuple(losses[:count]), tuple(last), None, None, None, 0)


def _asked(sandbox: Sandbox, control: Control) -> list[Batch]:
    """Draw the samples whose answers are judged; the same ones from the same seed, whatever the loader's order is."""
    setup = sandbox.setup
    found = drawn(
        setup.feed,
        setup.wrap,
        count=ANSWERED,
        control=control,
        tell=lambda fraction: control.progress(0.1 * fraction, "loading samples"),
    )
    return [item.batch.to(sandbox.device) for item in found]


def _batches(sandbox: Sandbox) -> list[Batch]:
    """Return some batches that follow each other in the loader's own order, from a random place on."""
    pool = list[Batch]()
    for raw in islice(sandbox.setup.feed, POOL):
        sandbox.control.poll()
        pool.append(sandbox.setup.wrap(raw).to(sandbox.device))
    if not pool:
        raise NotApplicable("the loader yields no batch")
    start = int(torch.randint(len(pool), ()))
    return [pool[(start + index) % len(pool)] for index in range(min(BATCHES, len(pool)))]


def _train(sandbox: Sandbox, batches: list[Batch], control: Control) -> list[float]:
    """Take steps until they are over or the answer is clear; copies that are compared take equally many."""
    if sandbox.train_step is None:  # a step of the user's own switches the mode, or forgets to
        sandbox.ready_to_train()
    losses = list[float]()
    for step in control.as_many(range(STEPS), part=0.5, fewest=FEWEST_STEPS, agreed="training_run"):
        control.progress(0.1 + 0.9 * step / STEPS, with_loss("training briefly", losses))
        losses.append(sandbox.own_step(batches[step % len(batches)].clone()))
        if is_clear(losses):
            break
    return losses


@torch.no_grad()
def _losses(sandbox: Sandbox, batches: list[Batch], seed: int) -> tuple[float, ...]:
    """Return the loss of each batch in training mode, which is what is minimized."""
    seed_all(seed)
    with sandbox.mode(training=True):
        return tuple(float(sandbox.run(batch.clone()).loss.mean()) for batch in batches)


def _fit(sandbox: Sandbox, asked: list[Batch]) -> Fit | None:
    """Return the quality over all samples asked, or None where it cannot be measured."""
    fits = [(fit_of(sandbox, batch), batch.size) for batch in asked]
    known = [(fit, size) for fit, size in fits if fit is not None]
    if not known or len(known) < len(fits) or len({fit.measure for fit, _ in known}) > 1:
        return None
    total = sum(size for _, size in known)
    value, chance = (sum(getattr(fit, name) * n for fit, n in known) / total for name in ("value", "chance"))
    return Fit(known[0][0].measure, value, chance)


@torch.no_grad()
def _balanced(sandbox: Sandbox, asked: list[Batch]) -> float | None:
    """Return the mean over the classes of the share of right answers; a rare class counts as much as a common one."""
    right: dict[int, list[bool]] = {}
    with sandbox.mode(training=False):
        for batch in asked:
            outcome = sandbox.run(batch.clone())
            target = batch.target
            said = _classes_said(outcome, batch)
            if said is None:
                return None
            for label, answer in zip(target.flatten().tolist(), said.flatten().tolist(), strict=True):
                right.setdefault(int(label), []).append(label == answer)
    return sum(sum(hits) / len(hits) for hits in right.values()) / len(right) if right else None


def _classes_said(outcome: Outcome, batch: Batch) -> torch.Tensor | None:
    """Return the class that is answered for each target, or None where answers are no classes."""
    predicted, target = outcome.predicted, batch.target
    if predicted is None or not isinstance(target, torch.Tensor):
        return None
    task = task_of(outcome.output, batch)
    if task.kind == "binary":
        return (predicted > (0.5 if task.scale == "probabilities" else 0.0)).long()
    dim = class_dim(predicted, target) if task.kind == "classification" else None
    return predicted.argmax(dim) if dim is not None and not target.is_floating_point() else None
