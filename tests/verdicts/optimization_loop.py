"""Verdicts about the training step, the optimizer and its schedule."""

from __future__ import annotations

from typing import Any

from nbdebug.checks.optimization.unusual_optimizer import EPS_STORED, GroupRate, OptimizerFacts
from nbdebug.evidence.recorded.loop import LostPasses
from nbdebug.evidence.recorded.loss_course import LossCourse
from nbdebug.evidence.schedule import Schedule
from nbdebug.evidence.step_calls import StepCalls
from nbdebug.evidence.training_loop import Clipping, LoopFacts
from tests.verdicts.step_events import events, used
from tests.verdicts.table import Table, minimal


def loop(**facts: Any) -> LoopFacts:
    """Return a hundred steps as they should be, unless the facts say otherwise."""
    steps = {"count": 100, "backwards": 100, "steps": 100, "moved": 100, "judged": 100}
    return minimal(LoopFacts, place="train_step", unit="calls", **{**steps, **facts})


table = Table("accumulated-gradients")
table.row("a step that fails", "not applicable", loop(error="ValueError: no"), None)
table.row("clean gradients", "silent", loop(), None)
table.row("a second optimizer", "bug", loop(), events(used("opt_d", stale=5)))
table.row("gradients of an attack", "suspect", loop(), events(used("opt", probed=6)))
table.pair("share", lambda dirty: (loop(dirty=dirty), None), {10: "bug", 9: "silent"})

table = Table("step-never-taken")
table.row("steps that train", "silent", loop(), None)
table.row("a step that fails", "bug", loop(error="ValueError: no"), None)
table.row("no backward pass", "bug", loop(backwards=0, moved=0), None)
table.row("gradients assigned directly", "silent", loop(backwards=0), None)
table.row("no step", "bug", loop(steps=0), None)
table.row("steps without gradients", "bug", loop(idle=100), None)
table.row("steps before their backward pass", "bug", loop(late=True), None)
table.row("steps that change nothing", "bug", loop(moved=0), None)
table.pair("kept", lambda kept: (loop(kept=kept), None), {0.04: "suspect", 0.06: "silent"})
table.pair("own", lambda n: (loop(), minimal(StepCalls, calls=6, made=n)), {3: "bug", 2: "silent"})

table = Table("graph-kept-alive")
table.row("a step that fails", "not applicable", loop(error="ValueError: no"))
table.row("freed at once", "silent", loop(graphs_alive=1))
table.row("all are kept", "bug", loop(graphs_alive=99))
table.pair("spare", lambda alive: loop(count=3, graphs_alive=alive), {3: "bug", 2: "silent"})
table.pair("temporary", lambda alive: loop(graphs_alive=alive, graphs_over=50), {41: "suspect", 39: "silent"})

table = Table("gradients-discarded")
table.row("none", "silent", LostPasses(100, 0, 0))
table.row("several in each step", "bug", LostPasses(100, 100, 3))
table.pair("habit", lambda steps: LostPasses(100, steps, 1), {81: "suspect", 79: "silent"})


def clipped(*norms: tuple[float, float], count: int = 1000, now: float = 1.0) -> tuple[Clipping, LossCourse]:
    """Return norms after the backward pass and at the step, in a training whose loss began at 1."""
    return Clipping("train_step", norms), minimal(LossCourse, count=count, start=1.0, now=now)


def scaled(last: float = 2e-4, norm: float = 2.0, **course: Any) -> tuple[Clipping, LossCourse]:
    """Return two steps whose gradients are divided by ten thousand, or by nearly that."""
    return clipped((1.0, 1e-4), (norm, last), **course)


table = Table("clipping-too-tight")
table.row("no step", "not applicable", Clipping("train_step", ()), None)
table.row("not clipped", "silent", *clipped((1.0, 1.0)))
table.row("without a loss", "suspect", Clipping("train_step", ((1.0, 1e-4), (2.0, 2e-4))), None)
table.pair("kept", lambda kept: clipped((1.0, kept)), {0.9e-3: "suspect", 1.1e-3: "silent"})
table.pair("learned", lambda now: scaled(now=now), {0.91: "suspect", 0.89: "silent"})
table.pair("early", lambda count: scaled(count=count), {100: "suspect", 99: "silent"})
table.pair("even", lambda share: scaled(2e-4 * share, now=0.1), {1.011: "suspect", 1.009: "silent"})
table.pair("varied", lambda norm: scaled(1e-4 * norm, norm, now=0.1), {1.04: "suspect", 1.06: "silent"})


def schedule(low_at: int = 30, low: float = 0.0, count: int = 200, places: bool = False) -> Schedule:
    """Return rates of 1 that fall to a low one at some step."""
    rates = (1.0,) * low_at + (low,) * (count - low_at)
    return Schedule("StepLR", rates, places=tuple(range(count)) if places else ())


table = Table("schedule-reaches-zero")
table.row("constant", "silent", schedule(low=1.0), None)
table.row("never above zero", "bug", Schedule("StepLR", (0.0,) * 50), None)
table.pair("nothing", lambda low: (schedule(low=low), None), {0.9e-4: "suspect", 1.1e-4: "silent"})
table.pair("within", lambda value: (schedule(value), None), {50: "suspect", 51: "silent"})
table.pair("wasted", lambda count: (schedule(9, count=10 + count, places=True), None), {50: "suspect", 49: "silent"})
table.pair("share", lambda at: (schedule(at, count=1001, places=True), None), {499: "suspect", 501: "silent"})
table.pair("stays", lambda count: (schedule(count=30 + count), None), {21: "suspect", 20: "silent"})
table.row("a loss to maximize", "suspect", None, minimal(StepCalls, calls=6, maximized=("scheduler",)))
table.row("nothing known", "not applicable", None, None)


def optimizer(rates: tuple[GroupRate, ...] = (), has_scheduler: bool = False, **settings: float) -> OptimizerFacts:
    """Return one parameter group with these settings."""
    return OptimizerFacts("Adam", (settings,), False, rates, has_scheduler)


def setting(name: str) -> Any:
    """Return what makes a value of one setting into evidence."""
    return lambda value: optimizer(**{name: value})


FINE, ZERO = GroupRate(0, 0.1, 0.1, 0.0, 4), GroupRate(1, 0.0, 0.0, 0.0, 4)
table = Table("unusual-optimizer")
table.row("assumed", "not applicable", OptimizerFacts("Adam", (), True))
table.row("all usual", "silent", optimizer((FINE,), **{"betas[0]": 0.9, "betas[1]": 0.999, "eps": 1e-8}))
table.row("a rate of zero", "bug", optimizer((ZERO,)))
table.row("one rate of zero", "note", optimizer((FINE, ZERO)))
table.row("one negative rate", "suspect", optimizer((FINE, GroupRate(1, -0.1, -0.1, 0.0, 4))))
table.row("a rate that a scheduler raises", "silent", optimizer((GroupRate(0, 0.0, 0.1, 0.0, 4),)))
table.row("an eps that rounds to zero", "suspect", optimizer(**{"eps": 1e-8, EPS_STORED: 0.0}))
table.pair("beta1", setting("betas[0]"), {0.991: "suspect", 0.989: "silent"})
table.pair("beta2_least", setting("betas[1]"), {0.79: "suspect", 0.81: "silent"})
table.pair("beta2", setting("betas[1]"), {0.999991: "suspect", 0.999989: "silent"})
table.pair("eps", setting("eps"), {0.11: "suspect", 0.09: "silent"})
table.pair("momentum", setting("momentum"), {0.996: "suspect", 0.994: "silent"})
table.pair("alpha_least", setting("alpha"), {0.79: "suspect", 0.81: "silent"})
table.pair("alpha", setting("alpha"), {0.99991: "suspect", 0.99989: "silent"})
table.pair("dampening", setting("dampening"), {0.991: "suspect", 0.989: "silent"})
