"""Why a training is slow: the exchange with which it comes as far in a third of the steps, from two random starts.

A slow training is not broken, and what speeds it up is often a matter of taste: a higher rate, less dropout, a shorter
warm-up. Only what is far off its scale has no purpose, so only that is a finding of its own. A training that learns is
late if that takes it more than half of the first steps; then only the scale of its start is looked into.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nbdebug.core.control import Control
from nbdebug.core.finding import Finding
from nbdebug.engine.differential.choice import LEAST_GAIN, REPAIRS
from nbdebug.engine.differential.exchanges import Exchange, exchanges_for, hypotheses
from nbdebug.engine.differential.race import AHEAD, Run, attempt
from nbdebug.engine.differential.scales import is_far_off
from nbdebug.evidence.learning_gate import HALF, LearningGate
from nbdebug.experiments.trial_training import HeldOut, split_batches
from nbdebug.sandbox import Sandbox, make_sandbox
from nbdebug.setup import Setup

__all__ = ["AT_THE_START", "OFF_SCALE", "Delay", "find_delay"]

SPEED_UP = 3  # times fewer steps
SYMPTOM = "initial-loss-off"  # of the other scales
OFF_SCALE = {
    "activations-off-scale",
    "feature-scales-differ",
    SYMPTOM,
    "initialization-off-scale",
    "unnormalized-inputs",
    "unscaled-targets",
}
START = "initialization-off-scale"
SCALED_OUTPUTS = "activations-off-scale"  # speeds up most starts, so it counts only where its check fired
AT_THE_START = {SCALED_OUTPUTS, START}
STARTS = (0, 1)


@dataclass(frozen=True)
class Delay:
    """The exchange that comes to `goal` (a skill) in `steps` steps, with its run from each random start."""

    goal: float
    steps: int
    runs: tuple[Run, ...]

    @property
    def exchange(self) -> Exchange:
        """What was exchanged."""
        return self.runs[0].exchange

    @property
    def is_fault(self) -> bool:
        """Whether what was exchanged is off its scale, which has no purpose."""
        return self.exchange.check in OFF_SCALE


def find_delay(setup: Setup, gate: LearningGate, findings: Sequence[Finding], control: Control) -> Delay | None:
    """Return the first exchange, in the order of causes, with which a third of the steps is enough, or None."""
    if math.isnan(gate.patient_skill):
        return None  # judged by its loss
    sandbox = make_sandbox(setup, control)
    data = split_batches(setup, sandbox.device, control.poll)
    exchanges = _of_a_late_one(findings) if gate.verdict == "learns" else _in_order(sandbox, data, findings)
    exchanges = [e for e in exchanges if e.check != START or is_far_off(sandbox)]
    del sandbox
    for number, exchange in enumerate(exchanges):
        control.progress(number / len(exchanges), f"trying {exchange.name}")
        found = _faster(setup, data, gate, exchange, control)
        if found is not None:
            return found
    return None


def _of_a_late_one(findings: Sequence[Finding]) -> list[Exchange]:
    """Return the fixes of a start that is off scale: what else looks odd does no harm to a training that learns."""
    return [
        exchange for exchange in hypotheses(findings) if exchange.check in AT_THE_START and not _is_repair(exchange)
    ]


def _in_order(sandbox: Sandbox, data: HeldOut, findings: Sequence[Finding]) -> list[Exchange]:
    """Put what is off its scale first; repairs explain nothing."""
    fitting = [exchange for exchange in exchanges_for(sandbox, data) if exchange.check != SCALED_OUTPUTS]
    known = [*hypotheses(findings), *fitting]
    named = [exchange for exchange in known if exchange.check and not _is_repair(exchange)]
    return sorted(named, key=lambda exchange: (exchange.check not in OFF_SCALE, exchange.check == SYMPTOM))


def _is_repair(exchange: Exchange) -> bool:
    names = {patch.name for patch in exchange.patches}
    return bool(names) and names <= REPAIRS


def _faster(setup: Setup, data: HeldOut, gate: LearningGate, exchange: Exchange, control: Control) -> Delay | None:
    steps, runs = max(1, gate.patient_steps // SPEED_UP), list[Run]()
    if gate.verdict == "learns":
        goal, floor = gate.patient_skill, -math.inf
    else:
        goal = max(gate.patient_skill, HALF * gate.reference, gate.skill + LEAST_GAIN)
        floor = gate.skill - AHEAD
    for seed in STARTS:
        run = attempt(setup, data, gate, exchange, control, steps=steps, seed=seed, floor=floor)
        if not run.was_tried or run.steps < steps or not run.skill >= goal:
            return None
        runs.append(run)
    return Delay(goal, steps, tuple(runs))
