"""Verdicts about several networks and optimizers in one training step."""

from __future__ import annotations

from typing import Any

from nbdebug.checks.optimization.adversarial_labels_equal import AdversarialLabels
from nbdebug.checks.optimization.schedule_unit_wrong import StepSchedule, StepSchedules
from nbdebug.evidence.step_events import ClipFacts, NetworkFacts, OptimizerSteps, ParameterFlow, StepEvents
from nbdebug.experiments.averaged_copies import Averaging
from tests.verdicts.table import Table, minimal


def flow(name: str, **facts: Any) -> ParameterFlow:
    """Return a parameter that gets a gradient in each call."""
    known = {"calls_with_gradient": 6, "held": False, "moved": False}
    return ParameterFlow(name, (10, 1), **{**known, **facts})


def network(name: str, *parameters: str, fresh: bool = True, in_eval: bool = False, **facts: Any) -> NetworkFacts:
    """Return a network whose parameters all have these facts."""
    flows = tuple(flow(parameter, **facts) for parameter in parameters or ("weight", "bias"))
    return NetworkFacts(name, flows, fresh, in_eval, True)


def used(name: str, **facts: Any) -> OptimizerSteps:
    """Return an optimizer that steps in six calls, each time with gradients."""
    known = {"steps": 6, "with_gradient": 6, "parameters": 4, "graded": 4, "rate": 1e-3, "networks": ("net",)}
    return minimal(OptimizerSteps, name=name, **{**known, **facts})


def events(*optimizers: OptimizerSteps, **facts: Any) -> StepEvents:
    """Return six calls of a training step."""
    known = {"is_step": True, "calls": 6, "clips": ClipFacts(0, 0, 0, 0, 1.0)}
    return minimal(StepEvents, optimizers=optimizers, **{**known, **facts})


LOSS = events(used("opt"), is_step=False)

table = Table("optimizer-without-effect")
table.row("no step", "not applicable", LOSS)
table.row("both step", "silent", events(used("opt_g", is_main=True), used("opt_d")))
table.row("never steps", "suspect", events(used("opt_g"), used("opt_d", steps=0, with_gradient=0)))
table.row("none steps", "silent", events(used("opt_d", steps=0, with_gradient=0)))
table.row("no gradient, no step", "silent", events(used("a"), used("b", steps=0, with_gradient=0, graded=0)))
table.row("of another network", "bug", events(used("opt_d", with_gradient=0, graded=0, strays=4)))
table.row("the one that was passed", "silent", events(used("opt", with_gradient=0, is_main=True)))
table.pair("steps", lambda steps: events(used("opt_d", steps=steps, with_gradient=0)), {3: "bug", 2: "silent"})

table = Table("gradients-leak-between-optimizers")
table.row("no step", "not applicable", LOSS)
table.row("own gradients", "silent", events(used("opt_g"), used("opt_d")))
table.row("in each step", "bug", events(used("opt_g", foreign=6, foreign_of="opt_d")))
table.pair("share", lambda foreign: events(used("opt_g", steps=100, foreign=foreign)), {50: "bug", 49: "silent"})


def clips(calls: int = 6, found: int = 0, without: int = 0, scaled: int = 0) -> StepEvents:
    """Return calls that clip, of which a step used so many."""
    return events(used("opt"), clips=ClipFacts(calls, found, without, scaled, 1.0))


table = Table("clipping-without-effect")
table.row("no step", "not applicable", LOSS)
table.row("none", "silent", clips(0))
table.row("used", "silent", clips(found=6))
table.row("after the step", "bug", clips())
table.row("before backward", "bug", clips(without=6))
table.row("before unscaling", "bug", clips(found=6, scaled=6))
table.pair("calls", clips, {3: "bug", 2: "silent"})


def averaged(
    *keeps: float, calls: int = 6, uses: int = 6, equal: int = 0, stepped: int = 0, stale: int = 0
) -> StepEvents:
    """Return a teacher that keeps such shares of itself."""
    return events(used("opt"), averages=(Averaging("teacher", "student", keeps, calls, uses, equal, stepped, stale),))


table = Table("moving-average-wrong")
table.row("no step", "not applicable", LOSS)
table.row("a usual decay", "silent", averaged(*[0.99] * 6))
table.row("trained as well", "suspect", averaged(*[0.99] * 6, stepped=6))
table.row("its own weights", "bug", events(used("opt"), loads_of_itself=("target",)))
table.row("statistics left behind", "suspect", averaged(*[0.99] * 6, stale=6))
table.row("copied and used", "suspect", averaged(*[0.0] * 6, equal=5))
table.row("copied, used apart", "silent", averaged(*[0.0] * 6))
table.row("copied and never used", "silent", averaged(*[0.0] * 6, uses=0))
table.pair("reversed_below", lambda keep: averaged(*[keep] * 6), {0.49: "suspect", 0.51: "silent"})
table.pair("constant", lambda rise: averaged(0.2, 0.2, 0.2 + rise), {0.0199: "suspect", 0.0201: "silent"})
table.pair("calls", lambda calls: averaged(*[0.01] * calls), {3: "suspect", 2: "silent"})


def rounded(share: float, steps: int = 6, rate: float = 1e-5) -> StepEvents:
    """Return an optimizer of bfloat16 weights."""
    return events(used("opt", lost=(share,) * steps, rate=rate, precision="bfloat16"))


table = Table("updates-lost-to-rounding")
table.row("full precision", "silent", events(used("opt")))
table.row("most are lost", "suspect", rounded(0.99))
table.row("no rate", "silent", rounded(1.0, rate=0.0))
table.pair("share", rounded, {0.5: "suspect", 0.49: "silent"})
table.pair("steps", lambda steps: rounded(0.99, steps), {3: "suspect", 2: "silent"})

FROZEN = (network("critic", held=True, requires_grad=False, left_frozen=True),)
table = Table("requires-grad-left-off")
table.row("no step", "not applicable", LOSS)
table.row("trained", "silent", events(used("opt"), networks=(network("critic", held=True),)))
table.row("frozen after the first call", "bug", events(used("opt"), networks=FROZEN))
table.pair("calls", lambda calls: events(used("opt"), calls=calls, networks=FROZEN), {4: "bug", 3: "silent"})

table = Table("accumulation-not-averaged")
table.row("no step", "not applicable", LOSS)
table.row("one pass per step", "silent", events(used("opt", passes=(1, 1, 1))))
table.row("divided", "silent", events(used("opt", passes=(4, 4), divided=True)))
table.row("summed", "suspect", events(used("opt", passes=(4, 4, 4))))
table.row("a remainder", "silent", events(used("opt", passes=(4, 2))))
table.pair("passes", lambda n: events(used("opt", passes=(n, n))), {2: "suspect", 1: "silent"})
table.pair("steps", lambda n: events(used("opt", passes=(4,) * n)), {2: "suspect", 1: "silent"})


def scheduled(
    *rates: float, each_call: bool = True, batches: int = 20, period: int = 0, kind: str = "LambdaLR"
) -> StepSchedules:
    """Return a scheduler with these rates, the last of which goes on."""
    ahead = (*rates, *[rates[-1]] * (4 * batches))
    return StepSchedules((StepSchedule("scheduler", kind, each_call, rates[0], ahead, period),), batches)


table = Table("schedule-unit-wrong")
table.row("constant", "silent", scheduled(0.1))
table.row("never above zero", "silent", scheduled(0.0))
table.row("over after a few batches", "suspect", scheduled(0.1, 0.05, 0.0))
table.row("stepped elsewhere", "silent", scheduled(0.1, 0.05, 0.0, each_call=False))
table.row("a warm-up that is never stepped", "suspect", scheduled(0.0, 0.1, each_call=False))
table.row("over with the epoch", "silent", scheduled(*[0.1] * 18, 0.0))
table.row("without an end, over with the epoch", "suspect", scheduled(*[0.1] * 18, 0.0, kind="StepLR"))
table.row("without an end, over after it", "silent", scheduled(*[0.1] * 21, 0.0, kind="StepLR"))
table.row("a cosine for ten epochs", "suspect", scheduled(0.1, period=10))
table.row("a cosine for eleven epochs", "silent", scheduled(0.1, period=11))
table.pair("least", lambda batches: scheduled(0.1, 0.0, batches=batches), {20: "suspect", 19: "silent"})
table.pair("within", lambda step: scheduled(*[0.1] * step, 0.0), {15: "suspect", 16: "silent"})
table.pair("low", lambda rate: scheduled(1.0, rate), {0.049: "suspect", 0.051: "silent"})
table.pair("nothing", lambda rate: scheduled(rate, 1.0, each_call=False), {0.0099: "suspect", 0.0101: "silent"})

table = Table("adversarial-labels-equal")
table.row("as usual", "silent", AdversarialLabels((1,), (0,), (1,)))
table.row("turned round", "silent", AdversarialLabels((0,), (1,), (0,)))
table.row("one label for the critic", "bug", AdversarialLabels((1,), (1,), (1,)))
table.row("the generator has the critic's", "bug", AdversarialLabels((1,), (0,), (0,)))
table.row("no generator here", "silent", AdversarialLabels((1,), (0,), ()))
