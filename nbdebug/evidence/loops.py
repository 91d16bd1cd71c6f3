"""What the user's own training step, optimizer and schedule do."""

from __future__ import annotations

from dataclasses import dataclass

from nbdebug.errors import NotApplicable

__all__ = [
    "EPS_STORED",
    "Clipping",
    "GroupRate",
    "Loop",
    "LoopFacts",
    "LoopStep",
    "LostPasses",
    "OptimizerFacts",
    "Schedule",
]

EPS_STORED = "eps as stored"


@dataclass(frozen=True)
class LostPasses:
    """Backward passes whose gradients were cleared before any optimizer used them; `usual` is how many a step had."""

    judged: int  # steps
    with_loss: int
    usual: int


@dataclass(frozen=True)
class LoopStep:
    """What one call of the user's training step did.

    `leftover` is the norm of gradients from before an optimizer step that were still there when the next backward
    pass began; `raw_norm` and `used_norm` are the gradient's norm after backward and when the optimizer used it.
    `change` is how far the weights are from where they were before the call, and `stepped` how far the optimizer moved
    them within it.
    """

    loss: float
    forwards: int
    backwards: int
    steps: int
    leftover: float
    raw_norm: float
    used_norm: float
    change: float
    step_without_gradient: bool
    training_mode: bool
    keeps_graph: bool
    stepped: float = 0.0


@dataclass(frozen=True)
class Loop:
    """The user's own training step, called a few times on a twin; `error` is what ended it before its time."""

    calls: tuple[LoopStep, ...]
    other_change: float  # how much the parameters changed that the optimizer does not hold
    graphs_alive: int  # graphs of the calls that something still holds after the last one
    error: str = ""
    stepped_first: bool = False  # in the call that failed, the optimizer stepped before any gradient came

    def require(self) -> None:
        """Refuse to judge a step that does not run."""
        if self.error:
            raise NotApplicable("your training step fails; see step-never-taken")


@dataclass(frozen=True)
class LoopFacts:
    """What the calls of a training step, or the steps of a loop that was watched, did altogether.

    `place` is what to call the loop, and `unit` what was counted. Of `judged` steps that could be looked at, `dirty`
    began with gradients of an earlier step, of norm `leftover` where it is known. `idle` steps found no gradient.
    `late` says that each step uses the gradients of the batch before. `kept` is the largest share of what the optimizer
    changed in a step that was still there after the call.
    """

    place: str
    unit: str
    count: int
    backwards: int
    steps: int
    idle: int
    moved: int
    dirty: int
    judged: int
    leftover: float
    graphs_alive: int
    late: bool = False
    used_norms: tuple[float, ...] = ()
    error: str = ""
    stepped_first: bool = False
    kept: float = 1.0
    graphs_over: int | None = None  # in how many steps so many graphs were kept, where it is not all

    def require(self) -> None:
        """Refuse to judge a step that does not run."""
        if self.error:
            raise NotApplicable("your training step fails; see step-never-taken")


@dataclass(frozen=True)
class Clipping:
    """Norms of the gradient after the backward pass and as the optimizer took it, in pairs; none of them is zero."""

    place: str
    pairs: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Schedule:
    """The learning rates that a scheduler would give, step by step; `in_step` says that train_step itself steps it."""

    name: str
    rates: tuple[float, ...]
    per_epoch_batches: int | None
    in_step: bool = False
    places: tuple[int, ...] = ()  # the steps of a real training to which the rates belong, where it was watched


@dataclass(frozen=True)
class GroupRate:
    """The learning rate of one parameter group: now, and the highest that is known to come (None: not known)."""

    index: int
    now: float
    peak: float | None
    made_with: float  # as a scheduler noted it; 0 where there was none
    parameters: int  # tensors that require a gradient
    ascends: bool = False  # maximize=True, with which a negative rate descends

    @property
    def trains_nothing(self) -> bool:
        """Return whether its steps change nothing, or go the wrong way, for the whole training."""
        return self.peak is not None and (self.peak == 0 or (self.peak < 0) != self.ascends)


@dataclass(frozen=True)
class OptimizerFacts:
    """The settings of the optimizer, one dict of plain numbers for each parameter group.

    Where there is an eps, `EPS_STORED` is what is left of it in the precision of the parameters.
    """

    name: str
    groups: tuple[dict[str, float], ...]
    assumed: bool
    rates: tuple[GroupRate, ...] = ()  # of the groups that have something to train
    has_scheduler: bool = False
