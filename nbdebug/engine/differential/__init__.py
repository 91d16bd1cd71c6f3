"""The differential diagnosis: what fails is taken apart, one ingredient at a time exchanged for the textbook's.

The exchange that rescues the training names the cause. The problems that checks of this run suggest go first; what
nothing rescues is said to fail for an unknown cause, with everything that was tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nbdebug.core.control import Control
from nbdebug.core.finding import Finding
from nbdebug.engine.differential.choice import NO_HINDRANCE, OUTCOMES, candidates, gain_needed, rescues
from nbdebug.engine.differential.exchanges import Exchange, exchanges_for, hypotheses
from nbdebug.engine.differential.race import Run, own_skill, race, repeat
from nbdebug.engine.differential.textbook import needed_together
from nbdebug.evidence.learning_gate import LearningGate
from nbdebug.experiments.trial_training import split_batches
from nbdebug.sandbox import make_sandbox
from nbdebug.setup import Setup

__all__ = ["NO_HINDRANCE", "OUTCOMES", "Differential", "Exchange", "Run", "take_apart"]


@dataclass(frozen=True)
class Differential:
    """What was tried, and which of it rescues the training: the first in the order of causes, from two starts."""

    own: float
    runs: tuple[Run, ...]
    cause: Run | None = None
    again: Run | None = None
    repairs: tuple[Run, ...] = ()

    def refutes(self, check: str) -> bool:
        """Whether fixes of this check's finding were tried to the end, and none rescues the training."""
        tried = [r for r in self.runs if r.exchange.is_hypothesis and r.exchange.check == check and r.was_tried]
        return bool(tried) and not self.is_part(check) and not any(r.is_cut_short or self.rescues(r) for r in tried)

    def confirms(self, check: str) -> bool:
        """Whether a fix of this check's finding rescues the training."""
        return any(self.rescues(r) for r in self.runs if r.exchange.is_hypothesis and r.exchange.check == check)

    def is_part(self, check: str) -> bool:
        """Whether the named cause is several problems at once, and this check's is one of them."""
        if self.cause is None:
            return False
        fixed = self.cause.exchange.patches
        tried = [r.exchange.patches for r in self.runs if r.exchange.is_hypothesis and r.exchange.check == check]
        has_fix = any(len(own) < len(fixed) and all(patch in fixed for patch in own) for own in tried if own)
        return self.cause.exchange.also == check or has_fix

    def rescues(self, run: Run) -> bool:
        """Whether this run goes far enough of the way from the user's own training to the best."""
        return rescues(run, self.runs, self.own)

    @property
    def needed(self) -> float:
        """The gain in skill that counts as a rescue."""
        return gain_needed(self.runs, self.own)


def take_apart(setup: Setup, gate: LearningGate, findings: Sequence[Finding], control: Control) -> Differential:
    """Exchange one ingredient at a time and name the first that rescues the training from two random starts."""
    sandbox = make_sandbox(setup, control)
    data = split_batches(setup, sandbox.device, control.poll)
    exchanges = [*hypotheses(findings), *exchanges_for(sandbox, data)]
    del sandbox  # before other copies are made
    runs = race(setup, data, gate, exchanges, control)
    found = Differential(own_skill(gate), tuple(runs))
    repairs = tuple(run for run in runs if found.rescues(run) and not run.exchange.check)
    for run in candidates(runs, found.own):
        again = repeat(setup, data, gate, run.exchange, control)
        if again.was_tried and again.skill - found.own >= found.needed:
            return Differential(found.own, found.runs, run, again, repairs)
    joint = needed_together(setup, data, gate, runs, control)
    if joint is not None:
        again = repeat(setup, data, gate, joint.exchange, control)
        if again.was_tried and again.skill - found.own >= found.needed:
            return Differential(found.own, (*found.runs, joint), joint, again, repairs)
    return Differential(found.own, found.runs, None, None, repairs)
