"""Call the user's own training step on a copy and note what it does."""

from __future__ import annotations

from dataclasses import dataclass

from nbdebug.core.control import Control
from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.step_observer import LoopStep, StepObserver
from nbdebug.sandbox import Sandbox
from nbdebug.setup.user_code import user_code

__all__ = ["Clipping", "Loop", "LoopFacts", "loop_facts", "own_loop"]


@dataclass(frozen=True)
class Loop:
    """The user's own training step, called a few times on a copy; `error` is what ended it before its time."""

    calls: tuple[LoopStep, ...]
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


CALLS = 6
CALLS_AT_MOST = 40  # gradient accumulation may take a step only every so many calls


@probe
def own_loop(sandbox: Sandbox, trial: TrialRun | None, control: Control) -> Loop:
    """Run your training step repeatedly and track gradients, weights and memory."""
    if trial is not None:  # there is none of a training step whose model cannot be called without it
        require_run(trial)
    if sandbox.train_step is None:
        raise NotApplicable("no train_step was passed, so the loop cannot be observed")
    sandbox.ready_to_train()
    notes, batches = StepObserver(sandbox), sandbox.batches(CALLS)
    calls: list[LoopStep] = []
    try:
        with user_code() as tried:
            while len(calls) < CALLS or (notes.steps_taken < 3 and len(calls) < CALLS_AT_MOST):
                control.progress(len(calls) / CALLS_AT_MOST, "running your training step")
                calls.append(notes.call(batches[len(calls) % len(batches)]))
    finally:
        notes.detach()
    error = tried.failure and tried.failure.splitlines()[0]
    if error and trial is None:
        raise NotApplicable(f"your training step fails on a copy ({error})")
    alive = notes.graphs_alive() if not error else 0
    return Loop(tuple(calls), alive, error, bool(notes.steps) and not notes.came)


@probe
def clipping(loop: Loop) -> Clipping:
    """Compare the gradient norm after backward with the one at the optimizer step."""
    loop.require()
    calls = [call for call in loop.calls if call.steps and call.raw_norm > 0 and call.used_norm > 0]
    return Clipping("train_step", tuple((call.raw_norm, call.used_norm) for call in calls))


@probe
def loop_facts(loop: Loop) -> LoopFacts:
    """Count the backward passes, steps and gradients of your training step."""
    calls = loop.calls
    dirty = [call for call in calls if call.leftover > 0]
    alike = all(call.steps == 1 == call.backwards for call in calls)
    return LoopFacts(
        place="train_step",
        unit="calls of your training step",
        count=len(calls),
        backwards=sum(call.backwards for call in calls),
        steps=sum(call.steps for call in calls),
        idle=sum(call.steps for call in calls if call.step_without_gradient),
        moved=sum(call.change > 0 for call in calls),
        dirty=len(dirty),
        judged=len(calls),
        leftover=dirty[-1].leftover if dirty else 0.0,
        graphs_alive=loop.graphs_alive,
        late=bool(calls) and calls[0].step_without_gradient and calls[0].backwards > 0 and alike,
        used_norms=tuple(call.used_norm for call in calls),
        error=loop.error,
        stepped_first=loop.stepped_first,
        kept=max((call.change / call.stepped for call in calls if call.stepped > 0), default=1.0) if alike else 1.0,
    )
