"""What `nbdebug.watch` recorded of a real training, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.setup.distributed.rank_facts import RankFacts
from nbdebug.watch.recorder.series import BatchTally, LayerSeries, ParameterSeries, Series, SilentUnits
from nbdebug.watch.recorder.unoptimized_params import OptimizerCoverage

__all__ = ["Recording", "StepTally", "recording"]


@dataclass(frozen=True)
class StepTally:
    """What happened around the steps of the optimizers, counted.

    `leftover_steps` are those whose gradients were added to gradients of an earlier step, because nothing cleared them
    in between, out of `leftover_judged`; `backwards_per_step` pairs a number of backward passes with how many steps
    had it. `graphs_alive` counts graphs of earlier steps that something still holds.
    """

    steps: int = 0
    training_passes: int = 0
    parts: int = 1  # modules whose passes are counted: all layers where the model is never called as a whole
    evaluation_passes: int = 0
    backwards: int = 0
    backwards_per_step: tuple[tuple[int, int], ...] = ()
    backwards_since_step: int = 0
    backwards_discarded: int = 0  # whose gradients were cleared before any optimizer used them
    steps_without_backward: int = 0
    steps_without_gradient: int = 0
    leftover_steps: int = 0
    leftover_judged: int = 0
    steps_in_eval_mode: int = 0
    first_step_in_eval_mode: int | None = None
    eval_modules: tuple[str, ...] = ()  # in eval mode while the model trains
    mode_modules: tuple[str, ...] = ()  # that behave differently in training and in eval mode
    graphs_alive: int = 0
    clipped_steps: int = 0
    norms_compared: int = 0
    other_optimizers: tuple[tuple[str, int], ...] = ()  # further optimizers, with their numbers of steps
    rivals: int = 0  # of these, that come with backward passes of their own
    late_steps: int = 0  # whose only gradients came before their forward pass
    strangers: tuple[tuple[str, int], ...] = ()  # optimizers that stepped and hold nothing of the model
    lost_passes: tuple[tuple[int, int], ...] = ()  # as `backwards_per_step`: passes in vain, of steps looked at closely
    changed_outside: tuple[int, ...] = ()  # of the first steps those before which something else changed the weights


@dataclass(frozen=True, eq=False)
class Recording:
    """Everything that was recorded so far, as it was at one moment.

    `scalars` holds the loss under "loss" and whatever else was logged; `times` the seconds of a step in "data",
    "forward", "backward" and "step"; `gradient` and `used` the norm of the whole gradient, after the backward pass and
    as the optimizer took it. `sampled_every` is the usual distance of the steps at which layers were measured.
    `unseen` says in whole sentences what could not be seen.
    """

    model: str
    optimizer: str
    tally: StepTally
    scalars: Mapping[str, Series] = field(default_factory=dict)
    rates: Mapping[str, Series] = field(default_factory=dict)
    layers: Mapping[str, LayerSeries] = field(default_factory=dict)
    parameters: Mapping[str, ParameterSeries] = field(default_factory=dict)
    gradient: Series = field(default_factory=Series)
    used: Series = field(default_factory=Series)
    times: Mapping[str, Series] = field(default_factory=dict)
    training: Series = field(default_factory=Series)  # 1 where the model was in training mode, 0 in eval mode
    graphs: Series = field(default_factory=Series)  # graphs of earlier passes that something still holds
    memory: Series = field(default_factory=Series)  # bytes of the process, and of the device where there is one
    scale: Series = field(default_factory=Series)  # of a GradScaler
    batches: BatchTally = field(default_factory=BatchTally)
    asked: BatchTally = field(default_factory=BatchTally)  # inputs of the first passes without gradients
    asked_small: int = 0  # of these, that are far smaller than a batch of the training
    sampled_every: float = 1.0
    share: float = 0.0  # of the time that the watcher took itself
    budget: float = 0.0
    seconds: float = 0.0
    device: str = "cpu"
    unseen: tuple[str, ...] = ()
    coverage: OptimizerCoverage | None = None  # which parameters with a gradient the optimizers that step hold
    silent: tuple[SilentUnits, ...] = ()  # units that nothing trains any more
    ranks: tuple[RankFacts, ...] = ()  # every process of a distributed training, as far as it was heard

    @property
    def loss(self) -> Series:
        """The loss; empty where it was not seen."""
        return self.scalars.get("loss", Series("loss"))

    @property
    def steps(self) -> int:
        """How many optimizer steps were recorded."""
        return self.tally.steps


@probe
def recording() -> Recording:
    """Read the recording of nbdebug.watch."""
    raise NotApplicable("no training run was recorded; use `with nbdebug.watch(model, optimizer) as live:`")
