"""Train a copy in the user's own way and measure it on held-out batches as it goes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from nbdebug.experiments.learning_curve import Fit
from nbdebug.experiments.skill import metric_of, skill_of
from nbdebug.experiments.tape import compares_with_batch
from nbdebug.experiments.train_briefly import hurry
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch, Setup
from nbdebug.setup.sample_dataset import seed_all

__all__ = ["HeldOut", "Score", "TrialTraining", "permute_weights", "split_batches"]

POOL = 80  # batches that are drawn in the loader's own order
EVERY = 5  # of the batches, one is held out: it has samples from everywhere, also where the loader sorts by label
MOST_HELD_OUT = 600  # samples


@dataclass(frozen=True)
class HeldOut:
    """The batches to train on, in the loader's order, and those to measure on.

    `is_seen` says that there were too few batches to hold any out, so that both are the same.
    """

    train: tuple[Batch, ...]
    test: tuple[Batch, ...]
    is_seen: bool = False


@dataclass(frozen=True)
class Score:
    """What a copy has come to after so many steps: its metric, where there is one, and its loss on held-out batches."""

    step: int
    fit: Fit | None
    loss: float

    @property
    def skill(self) -> float:
        """The metric, with a constant prediction at 0 and a perfect one at 1."""
        return self.fit.above_chance if self.fit is not None else math.nan


def split_batches(setup: Setup, device: torch.device, poll: Callable[[], None]) -> HeldOut:
    """Draw batches in the loader's own order and hold every fifth out; a few large batches are divided by samples."""
    pool = [batch.to(device) for batch in setup.batches(POOL, poll=poll)]
    if len(pool) >= EVERY:
        test = pool[EVERY - 1 :: EVERY]
        return HeldOut(tuple(b for n, b in enumerate(pool) if n % EVERY != EVERY - 1), tuple(_up_to(test)))
    if setup.whole_batches or min(batch.size for batch in pool) < 2 * EVERY:
        return HeldOut(tuple(pool), tuple(_up_to(pool)), is_seen=True)
    kept = [torch.arange(batch.size) % EVERY != EVERY - 1 for batch in pool]
    train = tuple(batch.select(rows.nonzero().flatten()) for batch, rows in zip(pool, kept, strict=True))
    return HeldOut(train, tuple(b.select((~rows).nonzero().flatten()) for b, rows in zip(pool, kept, strict=True)))


def _up_to(batches: Sequence[Batch]) -> list[Batch]:
    found, samples = list[Batch](), 0
    for batch in batches:
        found.append(batch)
        samples += batch.size
        if samples >= MOST_HELD_OUT:
            break
    return found


@torch.no_grad()
def permute_weights(sandbox: Sandbox, seed: int) -> None:
    """Permute the entries of each weight matrix: another random start from the same distribution."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in sandbox.model.parameters():
        if parameter.dim() > 1 and parameter.requires_grad and parameter.is_floating_point():
            order = torch.randperm(parameter.numel(), generator=generator).to(parameter.device)
            parameter.copy_(parameter.flatten()[order].reshape(parameter.shape))


class TrialTraining:
    """One copy in training: its losses so far, and its scores on the held-out batches."""

    def __init__(self, sandbox: Sandbox, data: HeldOut, seed: int = 0) -> None:
        self.sandbox, self.data, self.seed = sandbox, data, seed
        self.losses: list[float] = []
        self.scores: list[Score] = []
        self.seconds, self.scoring = 0.0, 0.0  # of all steps so far, and of the newest score
        self.step_cost = 0.0  # of one step with its part of the scores, once it was timed
        hurry(sandbox)
        if sandbox.train_step is None:  # a step of the user's own sets the mode, or forgets to
            sandbox.ready_to_train()
        self.metric = metric_of(sandbox, data.test[0])
        self.is_loss_theirs = sandbox.is_loss_known and compares_with_batch(sandbox, data.test[0])
        seed_all(seed)
        self.score()

    @property
    def is_measured(self) -> bool:
        """Whether a metric fits this program."""
        return bool(self.metric)

    @property
    def steps(self) -> int:
        """The number of steps taken so far."""
        return len(self.losses)

    @property
    def is_finite(self) -> bool:
        """Whether every loss so far is finite."""
        return all(math.isfinite(loss) for loss in self.losses)

    @property
    def last(self) -> Score:
        """The newest score."""
        return self.scores[-1]

    @property
    def course(self) -> tuple[tuple[int, float, float], ...]:
        """Step, metric (NaN where none fits) and loss of each look at the held-out batches."""
        return tuple((s.step, s.fit.value if s.fit is not None else math.nan, s.loss) for s in self.scores)

    @property
    def best_skill(self) -> float:
        """The highest skill at any time; a training that was there once has learned."""
        return max((score.skill for score in self.scores[1:] if not math.isnan(score.skill)), default=math.nan)

    @property
    def settled_skill(self) -> float:
        """The better of the last two skills: one measurement may fall into a bad moment."""
        return max((s.skill for s in self.scores[1:][-2:] if not math.isnan(s.skill)), default=math.nan)

    def advance(self, steps: int, tell: Callable[[float], None] = lambda _: None) -> Score:
        """Take so many steps in the user's own way, or fewer where the loss is not finite, and measure."""
        clock = self.sandbox.control.clock
        begun = clock()
        train = self.data.train
        for step in range(steps):
            tell(step / steps)
            self.losses.append(self.sandbox.own_step(train[self.steps % len(train)].clone()))
            if not math.isfinite(self.losses[-1]):
                break
        self.seconds += clock() - begun
        return self.score()

    def score(self) -> Score:
        """Measure the copy on the held-out batches and remember it."""
        begun = self.sandbox.control.clock()
        fit = skill_of(self.sandbox, self.data.test, self.metric) if self.metric else None
        self.scores.append(Score(self.steps, fit, self._held_out_loss()))
        self.scoring = self.sandbox.control.clock() - begun
        return self.last

    @torch.no_grad()
    def _held_out_loss(self) -> float:
        """Return the mean loss in training mode, which is what is minimized, with the same random draws each time."""
        if not self.is_loss_theirs:
            return math.nan
        state = torch.get_rng_state()
        try:
            seed_all(self.seed)
            with self.sandbox.mode(training=True):
                losses = [float(self.sandbox.run(b.clone()).loss.mean()) for b in self.data.test]
            return sum(losses) / len(losses)
        except (RuntimeError, ValueError, TypeError, AttributeError, KeyError):  # only the user's own step knows a loss
            return math.nan
        finally:
            torch.set_rng_state(state)
