"""What the curves of a real training say, worked out from its recording."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from nbdebug.errors import NotApplicable

__all__ = ["FirstBadValue", "LossCourse", "PredictionChanges", "WeightGrowth"]


@dataclass(frozen=True)
class FirstBadValue:
    """Where numbers stopped to be finite: the step of the loss, and the first module or gradient that shows it.

    `step` is None where the loss stayed finite throughout. `share` is that of the module's values. `finite_at` is the
    last step up to it at which every layer was seen to be finite, `grew` the last finite loss over the first.
    """

    step: int | None
    count: int
    steps: int
    where: str = ""
    module: str = ""
    where_step: int | None = None
    share: float = math.nan
    what: str = ""  # "output" or "gradient"
    finite_at: int | None = None
    grew: float = 1.0


@dataclass(frozen=True, eq=False)
class LossCourse:
    """The loss over the steps, in a few robust numbers.

    `start` and `now` are means of the first and the last tenth with standard errors that allow for steps that resemble
    their neighbors; `before` and `later` are the third and the fourth quarter of the run; `best` is the lowest
    mean of a tenth. `noise` is the scatter from one step to the next. `spikes` are steps at which the loss left its
    surroundings by far; of these `lasting` kept it up for a few steps. `warming_up` says that the learning rate
    still rises; `begins_again` that an inner loop does, with other weights or data; `makes_data` that the model acts
    between the steps, and `is_episodic` that it acts in many passes for each backward pass; `others` are further
    optimizers with backward passes of their own, whose losses pull against this one.
    """

    count: int
    start: float
    start_error: float
    now: float
    now_error: float
    now_low: float  # a low value of the last tenth: one in five is lower
    best: float
    best_step: int
    before: float
    later: float
    later_error: float
    noise: float
    spikes: tuple[tuple[int, float, float], ...] = ()  # step, loss, loss around it
    lasting: int = 0
    looked_for_spikes: int = 0
    warming_up: bool = False
    others: int = 0
    begins_again: bool = False
    makes_data: bool = False
    is_episodic: bool = False
    lowest: float = math.nan  # of all single steps
    first_size: float = math.nan  # the largest of the first tenth, without its sign
    moved: float = math.nan  # the median relative change of the weights in one step
    opening: float = math.nan  # the median of the very first steps
    first: float = math.nan  # before any step was made, if it was recorded from there on
    grown: float = 1.0  # by how much the norm of a weight matrix has grown at most
    steps: np.ndarray = field(default_factory=lambda: np.zeros(0))
    values: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def require_progress(self) -> None:
        """Raise NotApplicable if the loss does not measure progress."""
        if self.others:
            raise NotApplicable("the losses of models that train against each other do not measure progress")
        if self.makes_data:
            raise NotApplicable("the model generates its own data between steps: its loss does not measure progress")

    @property
    def range(self) -> float:
        """How far the loss has come down at best."""
        return max(self.start - self.best, 0.0)


@dataclass(frozen=True)
class WeightGrowth:
    """How the norms of the weight matrices grew: for each its name, its first and last norm, and whether it goes on.

    `recent` is the growth over the last quarter of the run, as a factor; `usual` a small but usual first norm for a
    matrix of this shape.
    """

    matrices: tuple[tuple[str, float, float, float, float], ...]  # name, first, last, recent, usual
    steps: int
    looks: int


@dataclass(frozen=True)
class PredictionChanges:
    """The share of a fixed batch whose answer changed from one look to the next, look by look."""

    shares: tuple[float, ...]
    steps: tuple[int, ...]
