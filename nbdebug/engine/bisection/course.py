"""One mixture in training, seen from outside: how far it has come by the metric, and why it could not be trained."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from nbdebug.core.control import Control
from nbdebug.engine.bisection.given import Given, use_switches
from nbdebug.engine.bisection.mixing import Taken, mixed, side_of
from nbdebug.engine.bisection.network import is_other_draw
from nbdebug.errors import BadInput, Cancelled, OutOfTime
from nbdebug.experiments.trial_training import HeldOut, TrialTraining, permute_weights, split_batches
from nbdebug.sandbox import make_sandbox
from nbdebug.setup import unwrap
from nbdebug.setup.sample_dataset import seed_all

__all__ = ["Course", "Courses", "Metric", "Point"]

Metric = Callable[[Any, Sequence[Any]], float]
LOSS, TRAINING_LOSS = "held-out loss", "training loss"
TENTH = 10
MOST_SHARED = 24  # data mixtures whose batches are kept


@dataclass(frozen=True)
class Point:
    """Where a training stands after so many steps: the metric itself, and the skill that it is compared by."""

    step: int
    value: float
    skill: float


class MetricFails(BadInput):
    """The user's own metric raised, or returned no number."""


class Course:
    """One mixture, from one random start, trained step by step."""

    def __init__(self, taken: Taken, seed: int, courses: Courses) -> None:
        self.taken, self.seed, self.courses = taken, seed, courses
        self.points: list[Point] = []
        self.failure = ""  # why it does not fit together
        self.training: TrialTraining | None = None
        self.measure = ""
        self._pass_length = 1
        self._passes_seen = 0  # by the scheduler, where we step it
        self._ended: tuple[float, ...] = ()
        try:
            self._begin()
        except (Cancelled, OutOfTime, MetricFails):
            raise
        except Exception as error:  # parts of two programs that do not fit each other
            self.failure = f"{type(error).__name__}: {error}".splitlines()[0]
            self.training = None

    def _begin(self) -> None:
        courses = self.courses
        side = side_of(self.taken, "global switches")
        use_switches((courses.good if side == "good" else courses.bad).switches)
        seed_all(self.seed)
        setup = mixed(courses.good, courses.bad, self.taken, courses.control)
        if courses.has_schedule:
            setup.highest_rates = ()  # the schedule itself sets the rate
        sandbox = make_sandbox(setup, courses.control)
        data = courses.data_for(self.taken, setup, sandbox.device)
        if self.seed:
            data = _rotated(data, self.seed)
            if courses.is_other_draw:
                permute_weights(sandbox, self.seed)
        self._pass_length = setup.feed.batch_count or len(data.train)
        self.training = TrialTraining(sandbox, data, self.seed)
        if self.training.is_measured or courses.metric is not None:
            fit = self.training.last.fit
            self.measure = "your metric" if courses.metric is not None else fit.measure if fit is not None else ""
        else:
            self.measure = TRAINING_LOSS if math.isnan(self.training.last.loss) else LOSS
        self._note()

    @property
    def steps(self) -> int:
        """The steps taken so far."""
        return len(self.losses)

    @property
    def is_alive(self) -> bool:
        """Whether it can be trained on."""
        return not self.failure and all(map(math.isfinite, self.losses[-1:]))

    @property
    def losses(self) -> tuple[float, ...]:
        """The loss of every step."""
        return self._ended if self.training is None else tuple(self.training.losses)

    @property
    def skill(self) -> float:
        """The better of the last two skills, because one measurement may fall into a bad moment; -1 where it broke."""
        if not self.is_alive:
            return -1.0
        known = [p.skill for p in self.points[1:][-2:] if not math.isnan(p.skill)]
        return max(known, default=-1.0)

    @property
    def value(self) -> float:
        """The metric that belongs to the skill."""
        late = [p for p in self.points[1:][-2:] if not math.isnan(p.skill)]
        return max(late, key=lambda p: p.skill).value if late else math.nan

    def advance(self, steps: int) -> None:
        """Train on by so many steps, with the schedule moving on after each pass over the data, and measure."""
        if not self.is_alive or self.training is None:
            return
        goal = self.steps + steps
        side = side_of(self.taken, "global switches")
        use_switches((self.courses.good if side == "good" else self.courses.bad).switches)
        try:
            while self.steps < goal and self.is_alive:
                left = self._pass_length - self.steps % self._pass_length if self._is_scheduled else goal
                self._train(min(goal - self.steps, left))
                if self._is_scheduled and self.steps % self._pass_length == 0:
                    self._step_schedule()
            self.training.score()
        except (Cancelled, OutOfTime, MetricFails):
            raise
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}".splitlines()[0]
        self._note()

    def _train(self, steps: int) -> None:
        assert self.training is not None
        training, train = self.training, self.training.data.train
        for _ in range(steps):
            self.courses.stepped()
            training.losses.append(training.sandbox.own_step(train[training.steps % len(train)].clone()))
            if not training.is_finite:
                return

    @property
    def _is_scheduled(self) -> bool:
        return self.courses.has_schedule and self.training is not None and self.training.sandbox.scheduler is not None

    def _step_schedule(self) -> None:
        """Step the scheduler at the end of a pass, unless the user's own step has moved it on already."""
        assert self.training is not None
        scheduler = self.training.sandbox.scheduler
        if self.training.sandbox.train_step is not None and getattr(scheduler, "last_epoch", 0) > self._passes_seen:
            return
        if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            scheduler.step(self.training.losses[-1])
        else:
            scheduler.step()
        self._passes_seen = getattr(scheduler, "last_epoch", 0)

    def _note(self) -> None:
        if self.training is None:
            return
        value, skill = self._measured()
        self.points.append(Point(self.training.steps, value, skill))

    def _measured(self) -> tuple[float, float]:
        assert self.training is not None
        training, courses = self.training, self.courses
        if courses.metric is not None:
            with training.sandbox.mode(training=False), torch.no_grad():
                value = _asked(courses.metric, training)
            return value, courses.skill_of(value)
        if training.is_measured:
            fit = training.last.fit
            return (fit.value, fit.above_chance) if fit is not None else (math.nan, math.nan)
        if self.measure == LOSS:
            return training.last.loss, courses.skill_of(training.last.loss)
        tail = training.losses[-max(1, len(training.losses) // TENTH) :]
        value = sum(tail) / len(tail) if tail else math.nan
        return value, courses.skill_of(value)

    def release(self) -> None:
        """Keep the curve and forget the copy."""
        if self.training is not None:
            self._ended, self.training = tuple(self.training.losses), None


@dataclass
class Courses:
    """Begins courses of two set-ups and counts their steps; `ends` are the values that skill is measured between."""

    good: Given
    bad: Given
    control: Control
    metric: Metric | None = None
    has_schedule: bool = False  # the schedules differ, so that both have to move on
    steps: int = 0
    ends: tuple[float, float] | None = None  # good's value at its start and at its end, where no skill is known

    def __post_init__(self) -> None:
        """Look once at what all courses depend on."""
        self.is_other_draw = is_other_draw(unwrap(self.good.setup.model), unwrap(self.bad.setup.model))
        self.tell: Callable[[], None] = self.control.poll
        self._data: dict[Any, HeldOut] = {}

    def begin(self, taken: Taken, seed: int = 0) -> Course:
        """Return a new course; nothing was trained yet."""
        return Course(taken, seed, self)

    def stepped(self) -> None:
        """Count a training step, and stop where the user or the time says so."""
        self.steps += 1
        self.tell()

    def skill_of(self, value: float) -> float:
        """Return a value between those of good's start and end; those are known once good was trained."""
        if self.ends is None:
            return math.nan
        start, end = self.ends
        return (value - start) / (end - start) if end != start else 0.0

    def data_for(self, taken: Taken, setup: Any, device: torch.device) -> HeldOut:
        """Return the batches of a mixture, drawn once for all that feed their models alike."""
        key = frozenset(name for name in taken if name.partition(":")[0] in _FEEDING)
        if key not in self._data:
            if len(self._data) >= MOST_SHARED:
                self._data.clear()
            self._data[key] = split_batches(setup, device, self.control.poll)
        return self._data[key]


def _asked(metric: Metric, training: TrialTraining) -> float:
    """Call the user's metric on the copy and its held-out batches."""
    try:
        return float(metric(training.sandbox.model, [batch.clone().raw for batch in training.data.test]))
    except Exception as error:
        raise MetricFails(
            f"it raised {type(error).__name__}: {error}",
            where="metric",
            expected="a function metric(model, batches) that returns one number, higher is better",
            do="call it on your model and a list of a few batches, and fix it",
        ) from error


_FEEDING = frozenset(
    ("*", "dataset", "transform", "sampler", "batch size", "collate", "loader", "architecture", "precision")
)  # fmt: skip


def _rotated(data: HeldOut, seed: int) -> HeldOut:
    """Let the training begin at another batch: another order, in which samples that stand together still do."""
    turn = (seed * len(data.train)) // 3 % max(len(data.train), 1)
    return replace(data, train=(*data.train[turn:], *data.train[:turn]))
