"""Where no single exchange rescues a training: exchange everything, then return to the user's ingredients one by one.

What cannot be returned without losing the rescue is needed: several problems at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from nbdebug.core.control import Control
from nbdebug.core.remedy import Remedy
from nbdebug.core.text import in_sentence
from nbdebug.engine.differential.choice import REPAIRS, gain_needed
from nbdebug.engine.differential.exchange import Exchange
from nbdebug.engine.differential.race import Run, attempt, own_skill, steps_of
from nbdebug.evidence.learning_gate import LearningGate
from nbdebug.experiments.trial_training import HeldOut
from nbdebug.setup import Setup

__all__ = ["needed_together", "smallest", "together"]

# One exchange for each ingredient, in the order in which causes are named.
INGREDIENTS = (
    "a plain training step",
    "no frozen parameters",
    "shuffled samples",
    "the usual loss alone",
    "no dropout",
    "no weight decay",
    "no last activation and the usual loss",
    "standardized inputs",
    "standardized targets",
    "PyTorch's default initialization",
    "ReLU in hidden layers",
    "Adam with a learning rate of 0.001",
)
MOST_NAMED = 3  # problems at once; with more of them nothing in particular is the cause
STEP_SIZE = "the step size does not fit"


def needed_together(
    setup: Setup, data: HeldOut, gate: LearningGate, runs: Sequence[Run], control: Control
) -> Run | None:
    """Return the run of the smallest set of exchanges that rescues the training, or None."""
    known = {run.exchange.name: run.exchange for run in runs if run.was_tried and not run.exchange.is_hypothesis}
    chosen = [known[name] for name in INGREDIENTS if name in known]
    own = own_skill(gate)

    def trained(parts: Sequence[Exchange]) -> Run:
        if control.seconds_left > 0:
            control.progress(0.9, f"trying {' and '.join(part.name for part in parts)}")
        return attempt(setup, data, gate, together(parts), control, steps=steps_of(gate))

    best = trained(chosen) if len(chosen) > 1 else None
    if best is None or not best.was_tried or best.skill - own < gain_needed([], own):
        return None
    return smallest(chosen, best, own, trained)


def smallest(chosen: list[Exchange], best: Run, own: float, trained: Callable[[Sequence[Exchange]], Run]) -> Run | None:
    """Return to the user's ingredients, the last in the order of causes first, as long as the rescue holds."""
    needed = gain_needed([best], own)
    for part in reversed(list(chosen)):
        rest = [other for other in chosen if other is not part]
        run = trained(rest) if rest else None
        if run is not None and not run.was_tried:
            return None  # the time is over
        if run is not None and run.skill - own >= needed:
            chosen, best = rest, run
    is_named = any(part.check for part in chosen) and 1 < len(chosen) <= MOST_NAMED
    return best if is_named else None


def together(parts: Sequence[Exchange]) -> Exchange:
    """Return the exchange of all of these, under the name of the first that is a cause."""
    causes = [part for part in parts if part.check]
    first, remedies = causes[0] if causes else parts[0], list[Remedy]()
    for remedy in (remedy for part in parts for remedy in part.remedies):
        if remedy not in remedies:
            remedies.append(remedy)
    said = [part.cause for part in causes]
    if any({patch.name for patch in part.patches} <= REPAIRS for part in parts):
        said.append(STEP_SIZE)
    return replace(
        first,
        name=" and ".join(part.name for part in parts),
        cause="Several problems at once: " + "; ".join(in_sentence(text) for text in said),
        remedies=tuple(remedies),
        also=causes[1].check if len(causes) > 1 else "",
    )
